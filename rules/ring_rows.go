package rules

// rows holds the cells of a ring: for each slot those of all columns, side by side.
type rows[V any] struct {
	cells []V
	// columns is how many there are, stride how many a row has room for.
	columns, stride int
}

// strideStep is by how many columns rows grow.
const strideStep = 4

// of is the row of a slot.
func (t *rows[V]) of(slot int) []V { return t.cells[slot*t.stride:][:t.stride] }

// add adds a column and returns its index. slots is how many rows there are.
func (t *rows[V]) add(slots int) int {
	if t.columns == t.stride {
		t.move(slots, slots, t.stride+strideStep, func(slot int) int { return slot })
	}
	t.columns++
	return t.columns - 1
}

// move lays out the first n rows anew, the i-th of which was in slot from(i),
// with room for size rows.
func (t *rows[V]) move(n, size, stride int, from func(i int) int) {
	cells := make([]V, size*stride)
	for i := range n {
		copy(cells[i*stride:], t.of(from(i))[:t.columns])
	}
	t.cells, t.stride = cells, stride
}
