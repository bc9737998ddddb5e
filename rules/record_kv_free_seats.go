package rules

func init() {
	record(Recording{
		Name: "kvwatch_kv_free_seats", Kind: KindGauge,
		Help: "Calls of the pool's usual size (median prompt and mean output) that still fit into the KV cache.",
		Engine: func(w EngineWindow, _ string) Result {
			if w.pool == nil {
				return w.absent("the engine's model is not known yet")
			}
			size, ok := w.pool.seats.tokens()
			if !ok {
				return w.absent("the usual size of a call is not known yet")
			}
			free, ok := w.freeTokens()
			if !ok {
				return w.absent("the page tells no KV capacity or no KV usage")
			}
			return w.known(free/size, 0, seatsFrom)
		},
		Pool: func(w PoolWindow, _ string) Result {
			size, ok := w.pool.seats.tokens()
			if !ok {
				return w.absent("the usual size of a call is not known yet")
			}
			free, told := w.sum(EngineWindow.freeTokens)
			if told == 0 {
				return w.absent("no engine of the pool tells its KV capacity and KV usage")
			}
			return w.known(free/size, 0, told, seatsFrom)
		},
	})
}

const seatsFrom = "capacity × (1 - usage) / (median prompt + mean output)"

// freeTokens is the room that running requests do not hold.
func (w EngineWindow) freeTokens() (float64, bool) {
	c, okCapacity := w.capacity()
	usage, okUsage := w.Gauge(gaugeUsage)
	return c * (1 - usage), okCapacity && okUsage && usage >= 0 && usage <= 1
}
