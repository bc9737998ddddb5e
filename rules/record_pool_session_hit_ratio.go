package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_session_hit_ratio", Kind: KindGauge,
		Help:  "Share of the prompt tokens that came from the prefix cache, by where in its session a call stands: first_call, within_turn or turn_boundary; over 15 minutes, or an hour where these hold too few.",
		Label: "position", Values: []string{positionFirstCall, positionWithinTurn, positionTurnBoundary},
		Pool: func(w PoolWindow, position string) Result {
			return w.sessionRatio(positionWords(position), func(p *poolCalls, c *callCells) callCell {
				return p.position(c, position)
			})
		},
	})
}

// positionWords says a position to a person.
func positionWords(position string) string {
	switch position {
	case positionFirstCall:
		return "first call of a session"
	case positionTurnBoundary:
		return "first call of a later turn"
	default:
		return "call within a turn"
	}
}
