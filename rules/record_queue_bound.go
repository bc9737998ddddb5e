package rules

func init() {
	record(Recording{
		Name: "kvwatch_queue_bound", Kind: KindGauge,
		Label: "by", Values: []string{boundKV, boundSlots, boundPrefill, boundDeferred},
		Help: "1 for what the engine's waiting requests wait for, 0 for the others and while none waits.",
		Engine: func(w EngineWindow, by string) Result {
			waiting, ok := w.waitingForCapacity()
			if !ok {
				return w.absent("the page has no number of waiting requests: an engine that has not run yet does not set it")
			}
			deferred, _ := w.Gauge(gaugeWaitingDeferred)
			v := 0.0
			if waiting+deferred > 0 {
				if binds, _, _ := w.binding(); binds == by {
					v = 1
				}
			}
			return w.gaugeResult(v, "waiting requests, KV usage, preemptions, max_num_seqs")
		},
	})
}
