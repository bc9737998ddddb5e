package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_turn_gap_seconds", Kind: KindSummary,
		Help: "Time between the turns of a session, from an answer to the call that begins the next turn; quantiles over the last hour.",
		Pool: func(w PoolWindow, _ string) Result {
			p, r := w.calls()
			if p == nil {
				return r
			}
			return p.distribution(p.turnGaps(), "pauses between turns", p.gapSum, p.gapCount)
		},
	})
}
