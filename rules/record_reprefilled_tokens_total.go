package rules

func init() {
	record(Recording{
		Name: "kvwatch_reprefilled_tokens_total", Kind: KindCounter,
		Help: "Prompt tokens that were computed because the cache did not hold them.",
		Engine: func(w EngineWindow, _ string) Result {
			v, source, ok := w.reprefilled()
			if !ok {
				return w.absent(noSource(w.unit))
			}
			return w.known(v, 0, source.name())
		},
		Pool: func(w PoolWindow, _ string) Result {
			from := ""
			v, told := w.sum(func(e EngineWindow) (float64, bool) {
				v, source, ok := e.reprefilled()
				from = source.name()
				return v, ok
			})
			if told == 0 {
				return w.absent("no engine of the pool tells its cached tokens")
			}
			return w.known(v, 0, told, from)
		},
	})
}

// reprefilled is the source's total of computed prompt tokens.
func (w unitWindow) reprefilled() (float64, cacheSource, bool) {
	s, ok := w.unit.gaugeSource()
	if !ok || !w.Fresh() {
		return 0, s, false
	}
	value := func(t total) float64 {
		v, _ := w.Total(t)
		return v
	}
	switch s {
	case sourceCached:
		return max(value(totalPrompt)-value(totalCached), 0), s, true
	case sourceCounters:
		return max(value(totalQueries)-value(totalHits), 0), s, true
	default:
		h := w.unit.hists[histComputed]
		return h.sum + h.sumSkipped, s, true
	}
}
