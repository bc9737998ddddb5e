package rules

func init() {
	record(Recording{
		Name: "kvwatch_kv_capacity_tokens", Kind: KindGauge,
		Help: "Tokens that the KV cache holds.",
		Engine: func(w EngineWindow, _ string) Result {
			v, ok := w.capacity()
			if !ok || !w.Fresh() {
				return w.absent(noCapacity(w.unit))
			}
			return w.known(v, 0, w.unit.capacityFrom)
		},
		Pool: func(w PoolWindow, _ string) Result {
			v, told := w.sum(func(e EngineWindow) (float64, bool) {
				c, ok := e.capacity()
				return c, ok && e.Fresh()
			})
			if told == 0 {
				return w.absent("no engine of the pool tells its KV capacity")
			}
			return w.known(v, 0, told, "sum over engines")
		},
	})
}

// noCapacity says why an engine's capacity is unknown.
func noCapacity(u *unit) string {
	if u.capacityFrom != "" && u.capacity == 0 {
		return u.capacityFrom
	}
	return "the page has no vllm:cache_config_info"
}
