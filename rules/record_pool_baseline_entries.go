package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_baseline_entries", Kind: KindGauge,
		Help: "Hours of traffic that the pool's usual hit ratio was learned from; below 6 it is still learning.",
		Pool: func(w PoolWindow, _ string) Result {
			t := w.pool.excess.track()
			if t == nil {
				return w.absent("no engine of the pool tells its cached tokens")
			}
			return w.known(float64(len(t.Baseline.Entries)), 0, len(w.pool.members), t.source.name())
		},
	})
}
