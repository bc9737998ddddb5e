package sizing

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// kneeLevels is into how many levels of load the slots are put, and leastSlots
	// how many slots a level needs; leastSlotRequests how many requests a slot.
	kneeLevels, leastSlots, leastSlotRequests = 10, 12, 5
	// kneeAttained is the share of the calls, and of the tokens, that must meet the
	// SLO: it is one of a P95.
	kneeAttained = 0.95
)

// PassiveKnee is the highest load of the recorded days at which the SLO held,
// and held at all lower ones too.
type PassiveKnee struct {
	// Reached says that the SLO did not hold above it.
	Reached bool `json:"reached"`
	// Rate is requests per second and replica, Goodput the output tokens per second
	// and replica within the SLO, Sequences how many ran on a replica there. Where
	// the knee was not reached they are at the highest load that was seen.
	Rate      float64 `json:"rate"`
	Goodput   float64 `json:"goodput"`
	Sequences float64 `json:"sequences"`
	// Samples is how many requests, Days on how many days the highest loads were seen.
	Samples int `json:"samples"`
	Days    int `json:"days"`
	// Confidence is high, medium, low or empty where nothing is known.
	Confidence string `json:"confidence"`
	Text       string `json:"text"`
}

// load is one level of load.
type load struct {
	slots                    []Slot
	rate, goodput, sequences float64
	requests                 float64
	meets                    bool
}

// passiveKnee finds it.
func passiveKnee(p *Plan, slots []Slot) PassiveKnee {
	if p.SLO.TTFTP95Ms == nil && p.SLO.ITLP95Ms == nil {
		return PassiveKnee{Text: "the plan promises neither slo.ttft_p95_ms nor slo.itl_p95_ms"}
	}
	levels := loadLevels(p, slots)
	if levels == nil {
		return PassiveKnee{Text: fmt.Sprintf("too little load was seen: %d levels of %d times 5 minutes with %d requests are needed", kneeLevels, leastSlots, leastSlotRequests)}
	}
	last := slices.IndexFunc(levels, func(l load) bool { return !l.meets }) - 1
	switch {
	case last == -1:
		return PassiveKnee{Text: "the SLO does not hold at the lowest load that was seen"}
	case last < 0:
		k := levels[len(levels)-1].knee()
		k.Text = fmt.Sprintf("not reached: the SLO held up to %.3g requests/s per replica, the highest load that was seen", k.Rate)
		return k
	}
	k := levels[last].knee()
	k.Reached = true
	above, failing := levels[last+1:], 0
	for _, l := range above {
		if !l.meets {
			failing++
		}
	}
	k.Confidence = "low"
	switch {
	case failing == len(above) && failing > 1 && k.Days > 2:
		k.Confidence = "high"
	case failing == len(above):
		k.Confidence = "medium"
	}
	k.Text = fmt.Sprintf("the SLO held up to %.3g requests/s per replica and not above (%d of %d higher levels of load fail it)", k.Rate, failing, len(above))
	return k
}

// loadLevels puts the slots into levels of equal number, by their load.
func loadLevels(p *Plan, slots []Slot) []load {
	told := slices.DeleteFunc(slices.Clone(slots), func(s Slot) bool { return s.Requests < leastSlotRequests || s.Engines == 0 })
	if len(told) < kneeLevels*leastSlots {
		return nil
	}
	slices.SortStableFunc(told, func(a, b Slot) int {
		return cmp.Compare(a.Requests/float64(a.Engines), b.Requests/float64(b.Engines))
	})
	var levels []load
	for i := range kneeLevels {
		l := load{slots: told[i*len(told)/kneeLevels : (i+1)*len(told)/kneeLevels]}
		l.read(p)
		levels = append(levels, l)
	}
	return levels
}

// read works the level out.
func (l *load) read(p *Plan) {
	all := merge(l.slots)
	seconds := all.EngineSeconds
	l.requests = all.Requests
	l.rate, l.goodput, l.sequences = all.Requests/seconds, all.Output/seconds, all.RunningSeconds/seconds
	l.meets = true
	for _, o := range objectives(p, all) {
		if o.values.Count <= 0 {
			continue
		}
		met := o.values.Within(o.limit) / o.values.Count
		l.goodput *= met
		if met < kneeAttained {
			l.meets = false
		}
	}
}

// promised is one promise of the SLO with the values that it is held against.
type promised struct {
	limit  float64
	values Histogram
}

// objectives are the plan's promises of latency; limits are in seconds.
func objectives(p *Plan, s Slot) []promised {
	var all []promised
	if v := p.SLO.TTFTP95Ms; v != nil {
		all = append(all, promised{*v / 1000, s.TTFT})
	}
	if v := p.SLO.ITLP95Ms; v != nil {
		all = append(all, promised{*v / 1000, s.ITL})
	}
	return all
}

// knee is the level as what is told of it.
func (l load) knee() PassiveKnee {
	days := map[string]bool{}
	for _, s := range l.slots {
		days[s.Start.UTC().Format(time.DateOnly)] = true
	}
	return PassiveKnee{Rate: l.rate, Goodput: l.goodput, Sequences: l.sequences, Samples: int(l.requests), Days: len(days)}
}
