package collector

import "slices"

// maxShared is how many lists are remembered.
const maxShared = 32

// shared remembers lists, so that the targets of a fleet, which have the same,
// hold them once.
type shared[T comparable] struct{ lists [][]T }

// same gives a list with these elements that nobody ever changes: whoever
// appends to it makes a new one.
func (s *shared[T]) same(list []T) []T {
	if len(list) == 0 {
		return nil
	}
	for _, known := range s.lists {
		if slices.Equal(known, list) {
			return known
		}
	}
	if len(s.lists) == maxShared {
		s.lists = slices.Delete(s.lists, 0, 1)
	}
	fresh := slices.Clip(slices.Clone(list))
	s.lists = append(s.lists, fresh)
	return fresh
}
