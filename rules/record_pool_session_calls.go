package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_session_calls", Kind: KindSummary,
		Help: "Calls of a session; quantiles over the sessions that went quiet in the last hour.",
		Pool: func(w PoolWindow, _ string) Result {
			p, r := w.calls()
			if p == nil {
				return r
			}
			return p.distribution(p.callsEach, "sessions that went quiet", float64(p.sessionCalls), p.sessions)
		},
	})
}
