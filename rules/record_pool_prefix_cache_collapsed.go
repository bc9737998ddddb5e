package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_prefix_cache_collapsed", Kind: KindGauge,
		Label: "cause", Values: []string{causeRestart, causeResidency, causeReplica, causeRoutingOrOthers},
		Help: "1 for the likely cause while PrefixCacheCollapse fires for the pool, else 0.",
		Pool: poolCollapsed,
	})
}

func poolCollapsed(w PoolWindow, cause string) Result {
	t := w.pool.excess.track()
	if t == nil {
		return w.absent("no engine of the pool tells its cached tokens")
	}
	l := t.Levels[levelPage]
	if l.FiredAt == 0 && !t.Baseline.valid() {
		_, text := w.pool.excess.standing(w, levelPage)
		return w.absent(text)
	}
	v := 0.0
	if l.FiredAt > 0 && l.Cause != nil && l.Cause.Name == cause {
		v = 1
	}
	return w.known(v, 0, len(w.pool.members), cacheCollapse)
}
