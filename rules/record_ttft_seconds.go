package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_ttft_seconds", Kind: KindSummary,
		Help:   "Time to first token, queueing included, over the last 5 minutes.",
		Engine: func(w EngineWindow, _ string) Result { return w.summary(histTTFT, collector.VLLMTTFT) },
		Pool:   func(w PoolWindow, _ string) Result { return w.summary(histTTFT, collector.VLLMTTFT) },
	})
}
