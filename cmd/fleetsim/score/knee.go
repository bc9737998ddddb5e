package score

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
)

const (
	// kneeQuiet is the time before a ramp that its knee is estimated from, and
	// that its load is held against.
	kneeQuiet = 3 * time.Hour
	// The load at the knee is that of kneeLoad, up to what it takes for a queue to
	// count as sustained: while requests wait, less is computed than is asked for.
	kneeLoad, kneeSettles = 30 * time.Minute, 10 * time.Minute
	// leastReadings is how many of the estimates it takes.
	leastReadings = 12
	// saturated is the prefill occupancy at which a queue stays.
	saturated = 0.6
)

// The estimates of how much more load a pool bears.
const (
	kneeHeadroom = "D3"
	kneeFull     = "1 / occupancy"
	kneeBusy     = "0.6 / occupancy"
)

// kneeNames are all of them in the order of the table.
var kneeNames = []string{kneeHeadroom, kneeFull, kneeBusy} //nolint:gochecknoglobals // a table

// KneeScore is how well one estimate told, before a load ramp, at what multiple
// of the load there would be a sustained queue.
type KneeScore struct {
	Subject

	// Truth are the multiples at which there was one, and Ratios the estimates
	// over the truth, both in ascending order.
	Truth  []float64 `json:"truth"`
	Ratios []float64 `json:"ratios"`
}

func (s *KneeScore) add(more KneeScore) {
	s.Truth = append(s.Truth, more.Truth...)
	s.Ratios = append(s.Ratios, more.Ratios...)
	slices.Sort(s.Truth)
	slices.Sort(s.Ratios)
}

// kneeRamp is the scenario in which the load alone grows.
const kneeRamp = "load_ramp"

// knees scores the estimates on a run in which the load ramps up to a queue.
func (p *played) knees() []KneeScore {
	onset := p.scenario.Onset
	if p.run.Scenario != kneeRamp || onset < kneeQuiet || onset > p.run.Length {
		return nil
	}
	queue, queued := p.truth.FirstQueue(onset)
	before := fleet.Span{Begin: onset - kneeQuiet, End: onset}
	truth := p.load(fleet.Span{Begin: queue - kneeSettles - kneeLoad, End: queue - kneeSettles}) / p.load(before)
	if !queued || !(truth > 0) {
		return nil
	}
	var scores []KneeScore
	for _, name := range kneeNames {
		var estimates []float64
		for _, r := range p.readings {
			if r.at < before.Begin || r.at > before.End || r.headroom == 0 || r.occupancy == 0 {
				continue
			}
			switch name {
			case kneeHeadroom:
				estimates = append(estimates, r.headroom)
			case kneeFull:
				estimates = append(estimates, 1/r.occupancy)
			default:
				estimates = append(estimates, saturated/r.occupancy)
			}
		}
		if len(estimates) < leastReadings {
			return nil
		}
		slices.Sort(estimates)
		scores = append(scores, KneeScore{p.subject(name), []float64{hundredths(truth)}, []float64{hundredths(quantile(estimates, 0.5) / truth)}})
	}
	return scores
}

// load is how many prompt tokens a second were scheduled in a span.
func (p *played) load(s fleet.Span) float64 {
	tokens := 0.0
	for _, m := range p.truth.Minutes {
		if m.End > s.Begin && m.End <= s.End {
			for _, e := range m.Engines {
				tokens += float64(e.LookedUp)
			}
		}
	}
	return tokens / (s.End - s.Begin).Seconds()
}

func hundredths(v float64) float64 { return math.Round(v*100) / 100 }

// kneeError is how far the middle 80 % of the estimates may be off.
const kneeError = 0.2

// kneeWithin is the target of D3's estimate on a profile.
func kneeWithin(profile string) target {
	return target{
		fmt.Sprintf("D3: knee, estimate over truth, median (p10 to p90) (%s)", profile), "0.80 to 1.20",
		func(r Result) (string, bool) {
			s := of(r.Knees, entry{kneeRamp, profile}, kneeHeadroom)
			if s == nil {
				return "", false
			}
			low, high := quantile(s.Ratios, 0.1), quantile(s.Ratios, 0.9)
			return kneeText(s), low >= 1-kneeError && high <= 1+kneeError
		},
	}
}

func kneeText(s *KneeScore) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", quantile(s.Ratios, 0.5), quantile(s.Ratios, 0.1), quantile(s.Ratios, 0.9))
}

// writeKnees writes how well the knee was told.
func (r Result) writeKnees(b *strings.Builder) {
	if len(r.Knees) == 0 {
		return
	}
	b.WriteString("## The knee: estimate over truth, median (p10 to p90)\n\nThe estimate is the median of the three hours before a load ramp. The truth is the load, in prompt tokens scheduled per second, just before the first sustained queue, as a multiple of that of the three hours: sessions last for an hour on average, so that what arrives becomes load later.\n\n")
	head(b, append([]string{"profile", "ramps", "true multiple"}, kneeNames...)...)
	for _, e := range entriesOf(r.Knees, func(KneeScore) bool { return true }) {
		first := of(r.Knees, e, kneeNames[0])
		cells := []string{e.profile, fmt.Sprint(len(first.Truth)), fmt.Sprintf("%.2f", quantile(first.Truth, 0.5))}
		for _, name := range kneeNames {
			cells = append(cells, kneeText(of(r.Knees, e, name)))
		}
		row(b, cells...)
	}
	b.WriteString("\n")
}
