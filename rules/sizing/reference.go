package sizing

import "fmt"

// Reference is a figure that was measured elsewhere, beside the plan's own.
type Reference struct {
	What, Measured string
	// Own is what the plan has, one entry for each profile that says it.
	Own []string
}

// References are the figures of A, which come from three systems and are not to
// be averaged: they show whether a plan's own are of the same kind.
func (p *Plan) References() []Reference {
	loads := p.loads()
	own := func(format string, f func(Profile) (float64, bool)) []string {
		var all []string
		for _, l := range loads {
			if v, ok := f(l); ok {
				text := fmt.Sprintf(format, v)
				if len(loads) > 1 {
					text = l.Name + " " + text
				}
				all = append(all, text)
			}
		}
		return all
	}
	one := func(v *float64, by float64) (float64, bool) {
		if v == nil {
			return 0, false
		}
		return *v / by, true
	}
	return []Reference{
		{"prompt of a call", "median 68000 tokens, 63000 of them cached", own("%.0f tokens", func(l Profile) (float64, bool) { return one(l.PromptTokensP50, 1) })},
		{"prompt to output", "275:1", own("%.0f:1", func(l Profile) (float64, bool) {
			if l.PromptTokensP50 == nil || l.OutputTokensP50 == nil {
				return 0, false
			}
			return *l.PromptTokensP50 / *l.OutputTokensP50, true
		})},
		{"new tokens to output", "1.5 to 7.3", own("%.3g", func(l Profile) (float64, bool) {
			if l.PromptTokensP50 == nil || l.OutputTokensP50 == nil || l.HitRatio == nil {
				return 0, false
			}
			return *l.PromptTokensP50 * (1 - *l.HitRatio) / *l.OutputTokensP50, true
		})},
		{"calls of a session", "median 15, mean 40.6; 4.5 in a turn", own("%.3g", func(l Profile) (float64, bool) { return one(l.CallsPerSession, 1) })},
		{"length of a session", "median 4.2 min, mean 62.6 min", own("%.3g min", func(l Profile) (float64, bool) { return one(l.SessionS, 60) })},
		{
			"hit ratio", "98 % within a turn (45/86/92-94 % of the first, second and later call), 55 % after a gap of 4.1 min, 8 % on a change of model, at most 1 % with retrieved context",
			own("%.3g", func(l Profile) (float64, bool) { return one(l.HitRatio, 1) }),
		},
		{"calls at once within a turn", "median 1.15, P90 1.4", nil},
		{"decode's share of the time", "91 to 98.6 %", nil},
		{"a long request in the batch", "+38.3 % time per token, two +79.7 %", nil},
	}
}
