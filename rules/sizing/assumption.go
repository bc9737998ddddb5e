package sizing

import "cmp"

// Names that formulas read among a plan's optimisations and critical
// assumptions.
const (
	speculativeDecoding  = "speculative_decoding"
	assumedTPOT          = "tpot_ms"
	assumedHBMEfficiency = "hbm_efficiency"
	assumedService       = "service_ms"
	assumedServiceCV2    = "service_cv2"
	assumedCount         = "count_ms"

	// autoDType is vLLM's name for the KV cache in the model's own type.
	autoDType = "auto"
)

// readAssumptions are the critical assumptions that formulas divide by or
// multiply with; a coefficient of variation may be 0.
var readAssumptions = map[string]bool{ //nolint:gochecknoglobals // a table, never written.
	assumedTPOT: true, assumedHBMEfficiency: true, assumedService: true, assumedCount: true,
}

// assumed is the value of a critical assumption, nil where the plan has none.
func (p *Plan) assumed(name string) *float64 {
	for _, a := range p.CriticalAssumptions {
		if a.Name == name {
			return a.Value
		}
	}
	return nil
}

// gain is the share of the time per token that speculative decoding saves, nil
// where the plan gives none.
func (p *Plan) gain() *float64 {
	for _, o := range p.Optimisations {
		if o.Name == speculativeDecoding {
			return o.Gain
		}
	}
	return nil
}

// loads are the profiles with what they leave out filled in from the fields
// beside them; without profiles there is one, of those fields.
func (p *Plan) loads() []Profile {
	if len(p.Workload.Profiles) == 0 {
		return []Profile{{Load: p.Workload.Load}}
	}
	all := make([]Profile, 0, len(p.Workload.Profiles))
	for _, profile := range p.Workload.Profiles {
		profile.Load = profile.or(p.Workload.Load)
		all = append(all, profile)
	}
	return all
}

// or fills in what the load leaves out.
func (l Load) or(other Load) Load {
	return Load{
		People:           cmp.Or(l.People, other.People),
		CallsPerSession:  cmp.Or(l.CallsPerSession, other.CallsPerSession),
		SessionS:         cmp.Or(l.SessionS, other.SessionS),
		PromptTokensP50:  cmp.Or(l.PromptTokensP50, other.PromptTokensP50),
		PromptTokensP95:  cmp.Or(l.PromptTokensP95, other.PromptTokensP95),
		OutputTokensP50:  cmp.Or(l.OutputTokensP50, other.OutputTokensP50),
		OutputTokensP95:  cmp.Or(l.OutputTokensP95, other.OutputTokensP95),
		ContextTokensMax: cmp.Or(l.ContextTokensMax, other.ContextTokensMax),
		HitRatio:         cmp.Or(l.HitRatio, other.HitRatio),
		FailShare:        cmp.Or(l.FailShare, other.FailShare),
		FailFactor:       cmp.Or(l.FailFactor, other.FailFactor),
		SubagentShare:    cmp.Or(l.SubagentShare, other.SubagentShare),
		Subagents:        cmp.Or(l.Subagents, other.Subagents),
		DutyCycle:        cmp.Or(l.DutyCycle, other.DutyCycle),
	}
}
