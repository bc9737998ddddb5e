package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_itl_seconds", Kind: KindSummary,
		Help:   "Time between tokens of a response over the last 5 minutes; with speculative decoding, between steps.",
		Engine: func(w EngineWindow, _ string) Result { return w.summary(histITL, collector.VLLMITL) },
		Pool:   func(w PoolWindow, _ string) Result { return w.summary(histITL, collector.VLLMITL) },
	})
}
