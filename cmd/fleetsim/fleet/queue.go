package fleet

import "time"

// event is something that happens at a simulated time.
type event struct {
	at time.Duration
	// order keeps events of the same time in the order in which they were
	// asked for: without it a run would not repeat.
	order uint64
	do    func()
}

// queue is a heap of events, the next one first.
type queue struct {
	events []event
	order  uint64
}

// at asks for do to be called at time t.
func (q *queue) at(t time.Duration, do func()) {
	q.order++
	q.events = append(q.events, event{at: t, order: q.order, do: do})
	for i := len(q.events) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.before(i, parent) {
			break
		}
		q.events[i], q.events[parent] = q.events[parent], q.events[i]
		i = parent
	}
}

// pop removes the next event. The queue must not be empty.
func (q *queue) pop() event {
	next := q.events[0]
	last := len(q.events) - 1
	q.events[0] = q.events[last]
	q.events[last] = event{}
	q.events = q.events[:last]
	for i := 0; ; {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < last && q.before(child, least) {
				least = child
			}
		}
		if least == i {
			return next
		}
		q.events[i], q.events[least] = q.events[least], q.events[i]
		i = least
	}
}

func (q *queue) before(i, j int) bool {
	a, b := q.events[i], q.events[j]
	return a.at < b.at || (a.at == b.at && a.order < b.order)
}
