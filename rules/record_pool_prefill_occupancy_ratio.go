package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_pool_prefill_occupancy_ratio", Kind: KindGauge,
		Help: "Time that requests spent in prefill per second of an engine, over 10 minutes; from 0.5 on queues begin.",
		Pool: func(w PoolWindow, _ string) Result {
			p, told := w.prefillShare(prefillWindow)
			if told == 0 {
				return w.absent("no engine of the pool tells first tokens and queue times over a part of the window that is long enough, without impossible intervals")
			}
			return w.known(p.ratio(), prefillWindow, told, prefillFrom)
		},
	})
}

const prefillFrom = "(" + collector.VLLMTTFT + "_sum - " + collector.VLLMQueueTime + "_sum) / covered second"
