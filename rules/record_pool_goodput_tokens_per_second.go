package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_pool_goodput_tokens_per_second", Kind: KindGauge,
		Help: "Generated tokens per second times the shares that met each of the pool's objectives, over 5 minutes, as if these were independent.",
		Pool: poolGoodput,
	})
}

// poolGoodput takes the objectives for independent of each other, because the
// page does not tell them of the same request.
func poolGoodput(w PoolWindow, _ string) Result {
	objectives := w.pool.objectives()
	if len(objectives) == 0 {
		return w.absent(noObjective(sloTTFT + " and no " + sloITL))
	}
	rate, told := w.sum(func(e EngineWindow) (float64, bool) {
		covered := e.Increase(totalCovered, summaryWindow)
		return e.Increase(totalGenerated, summaryWindow) / covered, covered > 0 && e.Fresh() && e.unit.has(totalGenerated)
	})
	if told == 0 {
		return w.absent("no engine of the pool tells its generated tokens")
	}
	for _, o := range objectives {
		share, all, timed := w.attainment(o, summaryWindow)
		if timed == 0 || all < minRequests {
			return w.absent("too little was timed in 5 minutes to tell whether it met " + o.name)
		}
		rate *= share
		told = min(told, timed)
	}
	return w.known(rate, summaryWindow, told, collector.VLLMGenerationTokens+" per covered second × attainment of each objective")
}
