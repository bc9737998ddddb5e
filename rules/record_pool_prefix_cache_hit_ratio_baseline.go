package rules

import "fmt"

func init() {
	record(Recording{
		Name: "kvwatch_pool_prefix_cache_hit_ratio_baseline", Kind: KindGauge,
		Help: "Usual hit ratio of the pool, learned over hours of traffic, that collapses are held against.",
		Pool: func(w PoolWindow, _ string) Result {
			t := w.pool.excess.track()
			if t == nil {
				return w.absent("no engine of the pool tells its cached tokens")
			}
			if !t.Baseline.valid() {
				return w.absent(fmt.Sprintf("learning, %d of %d hours", len(t.Baseline.Entries), baselineValid))
			}
			return w.known(1-t.Baseline.usual(), 0, len(w.pool.members), t.source.name())
		},
	})
}
