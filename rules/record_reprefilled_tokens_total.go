package rules

func init() {
	record(Recording{
		Name: "kvwatch_reprefilled_tokens_total", Kind: KindCounter,
		Help: "Prompt tokens that were computed because the cache did not hold them.",
		Engine: func(w EngineWindow, _ string) Result {
			v, source, ok := w.reprefilled()
			if !ok {
				return w.absent(noReprefilled(w.unit))
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

// noReprefilled says why an engine has no total of computed tokens.
func noReprefilled(u *unit) string {
	if s, ok := u.gaugeSource(); ok && s == sourceCounters && u.tokensPerCount() == 0 {
		return "before vLLM 0.9 the cache counts blocks, and the page does not tell their size"
	}
	return noSource(u)
}

// reprefilled is the source's total of computed prompt tokens.
func (w unitWindow) reprefilled() (float64, cacheSource, bool) {
	s, ok := w.unit.gaugeSource()
	if !ok || !w.Fresh() || w.sampled() || s == sourceCounters && w.unit.tokensPerCount() == 0 {
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
		return w.unit.tokensPerCount() * max(value(totalQueries)-value(totalHits), 0), s, true
	default:
		h := w.unit.hists[histComputed]
		return h.sum + h.sumSkipped, s, true
	}
}
