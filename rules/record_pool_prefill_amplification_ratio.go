package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_prefill_amplification_ratio", Kind: KindGauge,
		Help: "Prompt tokens computed per token generated, over 30 minutes; for display only, because the mix of chats and agents moves it.",
		Pool: func(w PoolWindow, _ string) Result {
			missed, generated, requests, told := 0.0, 0.0, 0.0, 0
			for _, u := range w.pool.members {
				e := w.engine(u)
				m, _, _, ok := e.cacheTokens(residencyWindow)
				if !ok {
					continue
				}
				told++
				missed += m
				generated += e.Increase(totalGenerated, residencyWindow)
				requests += e.Requests(residencyWindow)
			}
			switch {
			case told == 0:
				return w.absent("no engine of the pool tells its cached tokens")
			case requests < minRequests || generated <= 0:
				return w.absent("fewer than 5 requests, or no generated token, in 30 minutes")
			}
			return w.known(max(missed, 0)/generated, residencyWindow, told, "computed prompt tokens / generated tokens")
		},
	})
}
