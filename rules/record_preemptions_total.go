package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_preemptions_total", Kind: KindCounter,
		Help: "Requests that were thrown out of the KV cache and must be prefilled again.",
		Engine: func(w EngineWindow, _ string) Result {
			v, ok := w.Total(totalPreemptions)
			if !ok || !w.Fresh() {
				return w.absent("the page has no " + collector.VLLMPreemptions)
			}
			return w.known(v, 0, collector.VLLMPreemptions)
		},
		Pool: func(w PoolWindow, _ string) Result {
			v, told := w.sum(func(e EngineWindow) (float64, bool) {
				v, ok := e.Total(totalPreemptions)
				return v, ok && e.Fresh()
			})
			if told == 0 {
				return w.absent("no engine of the pool tells its preemptions")
			}
			return w.known(v, 0, told, "sum over engines")
		},
	})
}
