package rules

func init() {
	record(Recording{
		Name: "kvwatch_cache_residency_seconds", Kind: KindGauge,
		Help:   "Time that a block which nobody uses stays in the cache before it is evicted, estimated over 30 minutes.",
		Engine: engineResidency,
		Pool:   poolResidency,
	})
}

const residencyFrom = "0.75 × capacity × (1 - usage) / (computed + generated tokens per covered second)"

func engineResidency(w EngineWindow, _ string) Result {
	if _, ok := w.capacity(); !ok {
		return w.absent(noCapacity(w.unit))
	}
	if w.unit.hitStep > 0 {
		return w.absent("a hybrid model holds states beside its blocks: residency cannot be told from them")
	}
	in, ok := w.residencyNow(residencyWindow)
	if !ok {
		return w.absent("the page tells no KV usage or no cached tokens")
	}
	if w.Requests(residencyWindow) < minRequests {
		return w.absent("fewer than 5 requests in 30 minutes: nothing is evicted")
	}
	v, ok := in.seconds()
	if !ok || !w.Fresh() {
		return w.absent("nothing was allocated in the window: blocks stay")
	}
	return w.known(v, residencyWindow, residencyFrom)
}

func poolResidency(w PoolWindow, _ string) Result {
	requests, _ := w.sum(func(e EngineWindow) (float64, bool) { return e.Requests(residencyWindow), true })
	v, told, ok := w.meanResidency(func(e EngineWindow) (residencyInputs, bool) { return e.residencyNow(residencyWindow) })
	switch {
	case w.Fresh() == 0 || told == 0:
		return w.absent("no engine of the pool tells its capacity, usage and cached tokens")
	case requests < minRequests:
		return w.absent("fewer than 5 requests in 30 minutes: nothing is evicted")
	case !ok:
		return w.absent("nothing was allocated in the window: blocks stay")
	}
	return w.known(v, residencyWindow, told, residencyFrom)
}
