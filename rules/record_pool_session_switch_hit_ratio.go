package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_session_switch_hit_ratio", Kind: KindGauge,
		Help:  "Share of the prompt tokens that came from the prefix cache in calls whose session was just served by another model, or by another replica; over 15 minutes, or an hour where these hold too few.",
		Label: "switch", Values: []string{"model", "replica"},
		Pool: func(w PoolWindow, kind string) Result {
			i := switchModel
			if kind == "replica" {
				i = switchReplica
			}
			return w.sessionRatio("switch of the "+kind, func(_ *poolCalls, c *callCells) callCell { return c.switches[i] })
		},
	})
}
