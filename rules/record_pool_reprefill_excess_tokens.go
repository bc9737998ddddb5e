package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_reprefill_excess_tokens", Kind: KindGauge,
		Help: "Prompt tokens prefilled again beyond the tolerated multiple of the usual, summed up since that began (the warning's sum).",
		Pool: func(w PoolWindow, _ string) Result { return excessResult(w, 1) },
	})
}

// excessResult is the warning level's sum over the given unit.
func excessResult(w PoolWindow, per float64) Result {
	c := w.pool.excess
	t := c.track()
	switch {
	case t == nil:
		return w.absent("no engine of the pool tells its cached tokens")
	case !t.Baseline.valid():
		_, text := c.standing(w, levelWarn)
		return w.absent(text)
	case per <= 0:
		return w.absent("the usual size of prompts is not known yet")
	}
	return w.known(t.Levels[levelWarn].S/per, 0, len(w.pool.members), t.source.name())
}
