package fleet

import "time"

// actor is what events happen to. An event names what happens; its stamp tells
// an actor that has moved on meanwhile that it no longer applies.
type actor interface {
	happen(what occasion, stamp uint64)
}

// occasion is what happens to an actor.
type occasion int

// All that may happen: to anything; to an engine (a step ends); to a call (it is
// passed on to it is timed out); to a session (it sends); and to the fleet.
const (
	occasionOnce occasion = iota
	occasionStepEnds
	occasionPassed
	occasionAnswered
	occasionLost
	occasionTimedOut
	occasionSend
	occasionBegin
	occasionSessionDue
	occasionChatDue
	occasionCooled
	occasionSample
)

// once is an actor for what happens rarely: it allocates.
type once func()

func (o once) happen(occasion, uint64) { o() }

// event is something that happens at a simulated time.
type event struct {
	at time.Duration
	// order keeps events of the same time in the order in which they were
	// asked for: without it a run would not repeat.
	order uint64
	stamp uint64
	who   actor
	what  occasion
}

// queue is a heap of events, the next one first.
type queue struct {
	events []event
	order  uint64
}

// once asks for do to be called at time t.
func (q *queue) once(t time.Duration, do func()) { q.at(t, once(do), occasionOnce, 0) }

// at asks for something to happen to an actor at time t.
func (q *queue) at(t time.Duration, who actor, what occasion, stamp uint64) {
	q.order++
	added := event{at: t, order: q.order, stamp: stamp, who: who, what: what}
	q.events = append(q.events, added)
	i := len(q.events) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !added.before(&q.events[parent]) {
			break
		}
		q.events[i] = q.events[parent]
		i = parent
	}
	q.events[i] = added
}

// pop removes the next event. The queue must not be empty.
func (q *queue) pop() event {
	next := q.events[0]
	last := len(q.events) - 1
	moved := q.events[last]
	q.events[last] = event{}
	q.events = q.events[:last]
	if last == 0 {
		return next
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && q.events[child+1].before(&q.events[child]) {
			child++
		}
		if !q.events[child].before(&moved) {
			break
		}
		q.events[i] = q.events[child]
		i = child
	}
	q.events[i] = moved
	return next
}

func (e *event) before(other *event) bool {
	return e.at < other.at || (e.at == other.at && e.order < other.order)
}
