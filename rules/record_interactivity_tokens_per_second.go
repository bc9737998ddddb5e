package rules

func init() {
	record(Recording{
		Name: "kvwatch_interactivity_tokens_per_second", Kind: KindSummary,
		Help:   "Tokens per second that a request gets while it is decoded, over the last 5 minutes; its sum is estimated from the buckets.",
		Engine: engineSpeed,
		Pool:   poolSpeed,
	})
}

func engineSpeed(w EngineWindow, _ string) Result {
	h, from, ok := w.speedHist()
	if !ok {
		return w.absent(noSpeed)
	}
	b := w.buckets(h, summaryWindow)
	switch {
	case b.count < minRequests:
		return w.absent(reasonFewSamples)
	case !b.possible():
		return w.absent(reasonImpossible)
	}
	r := w.known(0, summaryWindow, from)
	r.Summary = speedSummary(b, w.unitWindow)
	return r.noteFast()
}

func poolSpeed(w PoolWindow, _ string) Result {
	b, engines, from := w.speedBuckets(summaryWindow)
	switch {
	case len(engines) == 0:
		return w.absent("of all engines of the pool: " + noSpeed)
	case b.count < minRequests:
		return w.absent(reasonFewSamples)
	}
	of := make([]unitWindow, 0, len(engines))
	for _, e := range engines {
		of = append(of, e.unitWindow)
	}
	r := w.known(0, summaryWindow, len(engines), from)
	r.Summary = speedSummary(b, of...)
	return r.noteFast()
}

// noteFast says when quantiles are missing.
func (r Result) noteFast() Result {
	if len(r.Summary.Quantiles) < quantiles && r.Reason == "" {
		r.Reason = "some quantiles lie in the lowest or above the last finite bucket and are not told"
	}
	return r
}
