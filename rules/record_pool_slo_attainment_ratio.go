package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_slo_attainment_ratio", Kind: KindGauge, Label: "slo", Values: []string{sloTTFT, sloITL},
		Help: "Share of the requests (ttft_p95) or tokens (itl_p95) of the last 5 minutes that met what the pool promised.",
		Pool: func(w PoolWindow, value string) Result {
			o, ok := w.pool.objective(value)
			if !ok {
				return w.absent(noObjective(value))
			}
			share, all, told := w.attainment(o, summaryWindow)
			switch {
			case told == 0:
				return w.absent("no engine of the pool has the histogram that the objective is held against")
			case all < minRequests:
				return w.absent(reasonFewSamples)
			}
			return w.known(share, summaryWindow, told, "share of "+o.of+"s within "+o.limit.String())
		},
	})
}
