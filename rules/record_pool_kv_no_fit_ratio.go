package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_kv_no_fit_ratio", Kind: KindGauge, Label: "prompt", Values: []string{promptP50, promptP95},
		Help: "Share of the scrapes of 30 minutes at which an engine had no room in its KV cache for one more call with such a prompt: about the share of calls that wait for room.",
		Pool: func(w PoolWindow, value string) Result {
			n := &w.pool.noFit
			c := n.over(value)
			if reason := n.unknown(w, c, leastNoFitScrapes); reason != "" {
				return w.absent(reason)
			}
			_, told := w.sum(EngineWindow.freeTokens)
			return w.known(c.share(), n.span(w), told, "scrapes with capacity × (1 - usage) < prompt + mean output")
		},
	})
}
