package rules

import "cmp"

func init() {
	record(Recording{
		Name: "kvwatch_pool_load_headroom_ratio", Kind: KindGauge,
		Help: "Multiple of the present load at which the pool is predicted to lose its cache or to saturate in prefill; 10 is 10 or more.",
		Pool: func(w PoolWindow, _ string) Result {
			h := &w.pool.headroom
			return h.result(w, h.headroom.ratio, cmp.Or(h.reason, h.noRatio), "fixed point of residency, misses and prefill occupancy over 30 minutes")
		},
	})
}
