package rules

import "slices"

// queueAge bounds how long the request at the head of the pool's queue waits,
// in seconds: no longer than the queue has not been empty. vLLM tells no age
// (kaito-project/kaito#2216). whole is false where it was not empty on any page
// of the short window, so that it may be longer.
func (w PoolWindow) queueAge(at waitingSeries) (seconds float64, whole bool) {
	x, y := w.series(shortWindow, leastScrapes, at)
	for i, waiting := range slices.Backward(y) {
		if waiting <= 0 {
			return -x[i], true
		}
	}
	if len(x) == 0 {
		return 0, false
	}
	return -x[0], false
}

// queueAgeText says it in words.
func (w PoolWindow) queueAgeText(at waitingSeries) string {
	age, whole := w.queueAge(at)
	if whole {
		return "the queue was last empty " + spellSeconds(age) + " ago, so none waits for longer"
	}
	return "the queue was not empty for " + spellSeconds(age) + " or longer"
}
