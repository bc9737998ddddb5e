package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_prefix_cache_drift_ratio", Kind: KindGauge,
		Help: "Miss ratio of the pool over 2 hours as a multiple of its usual one; a ticket at 1.3.",
		Pool: func(w PoolWindow, _ string) Result {
			d := w.pool.drift
			if d.now.unknown != "" {
				return w.absent(d.now.unknown)
			}
			return w.known(d.now.ratio, d.conf.window, offered(w, w.pool.excess.active), w.pool.excess.active.name()+", over the usual")
		},
	})
}
