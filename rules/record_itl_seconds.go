package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_itl_seconds", Kind: KindSummary,
		Help: "Time between tokens of a response over the last 5 minutes; with speculative decoding, between steps.",
		Engine: func(w EngineWindow, _ string) Result {
			r := w.summary(histITL, collector.VLLMITL)
			if r.Known && r.Reason == "" && w.Increase(totalDrafts, summaryWindow) > 0 {
				r.Reason = "with speculative decoding this is the time between steps, each of which may bring several tokens; " + collector.VLLMTPOT + " is the time per token"
			}
			return r
		},
		Pool: func(w PoolWindow, _ string) Result { return w.summary(histITL, collector.VLLMITL) },
	})
}
