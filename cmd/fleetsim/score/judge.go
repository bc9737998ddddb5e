package score

import (
	"cmp"
	"math"
	"slices"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
)

const (
	// learning is the time in which detectors learn what is usual: it does not
	// count as quiet time, while what fires in it counts.
	learning = 6 * time.Hour
	// after is how long what fires after an incident's end belongs to it.
	after = 2 * time.Hour
	// leadWithin is how long before a queue an alert speaks of that queue, and
	// lateBy by how much it may come after it and still be no false alarm.
	leadWithin, lateBy = 4 * time.Hour, 20 * time.Minute
	// apart is the time without a queue that makes the next one another.
	apart = time.Hour
)

// Subject is what a score is about: one detector on all runs of one entry.
type Subject struct {
	Scenario string `json:"scenario"`
	Profile  string `json:"profile"`
	Detector string `json:"detector"`
}

func (s Subject) subject() Subject { return s }

// IncidentScore is how one detector did on the incidents of one scenario.
type IncidentScore struct {
	Subject

	// Cause is that of the label; empty for an event that is no incident.
	Cause string `json:"cause,omitempty"`
	// Mild is what the miss ratio of the whole pool hardly shows.
	Mild bool `json:"mild,omitempty"`
	// Incidents are all, Found those in which it fired.
	Incidents int `json:"incidents"`
	Found     int `json:"found"`
	// Minutes are the times to detect in ascending order, from the onset, or of
	// a creeping incident from when there was an excess. A creeping one without
	// an excess has none.
	Minutes []float64 `json:"minutes,omitempty"`
	// Fires is how often it fired in all of them.
	Fires int `json:"fires"`
	// CausesTold is in how many it named a cause, CausesRight in how many the right one.
	CausesTold  int `json:"causes_told,omitempty"`
	CausesRight int `json:"causes_right,omitempty"`
}

// QuietScore is what one detector told while nothing happened.
type QuietScore struct {
	Subject

	// ReplicaWeeks is the quiet time, less what it takes to learn.
	ReplicaWeeks float64 `json:"replica_weeks"`
	// False are the fires without anything to fire at, True those on an excess
	// that the fleet had by itself. Of a detector of queues, True are those on an
	// excess without a queue, and those before a queue count as neither.
	False int `json:"false"`
	True  int `json:"true"`
}

// QueueScore is how long before sustained queues one detector told.
type QueueScore struct {
	Subject

	// Queues are the sustained queues: the first of each incident, and all in
	// quiet time.
	Queues int `json:"queues"`
	// Leads are the minutes from the alert to the queue where there was an alert,
	// in ascending order.
	Leads []float64 `json:"leads,omitempty"`
}

// DemandScore is whether demand that grows over weeks was told.
type DemandScore struct {
	Subject

	// Runs are all, Found those in which it fired.
	Runs  int `json:"runs"`
	Found int `json:"found"`
	// Days are those until it fired first, in ascending order.
	Days []float64 `json:"days,omitempty"`
}

// Result is the score of a corpus.
type Result struct {
	Seeds     []uint64        `json:"seeds"`
	Incidents []IncidentScore `json:"incidents"`
	Quiet     []QuietScore    `json:"quiet"`
	Queues    []QueueScore    `json:"queues"`
	Demand    []DemandScore   `json:"demand"`
	// Knees and Calibration are of the runs that were made for them.
	Knees       []KneeScore        `json:"knees"`
	Calibration []CalibrationScore `json:"calibration"`
}

// union is the name of the three detectors that see a queue before it is there,
// taken as one.
const union = "D1 warn, D3 or D4"

// stretch is a part of a run that belongs to one incident.
type stretch struct {
	fleet.Incident

	begin, end time.Duration
}

// contains says whether a time lies in it.
func (s stretch) contains(at time.Duration) bool { return at >= s.begin && at < s.end }

// stretches are the parts of a run that belong to incidents, in order of time.
func (p *played) stretches() []stretch {
	var all []stretch
	if p.scenario.Onset == 0 {
		return nil
	}
	for _, i := range append([]fleet.Incident{p.scenario.Incident}, p.scenario.Later...) {
		s := stretch{Incident: i, begin: i.Onset, end: p.run.Length}
		if i.End > 0 {
			s.end = min(s.end, i.End+after)
		}
		if s.begin >= p.run.Length {
			continue
		}
		if last := len(all) - 1; last >= 0 {
			all[last].end = min(all[last].end, s.begin)
		}
		all = append(all, s)
	}
	return all
}

func (p *played) subject(detector string) Subject {
	return Subject{p.run.Scenario, p.run.Profile, detector}
}

// judge scores one run.
func judge(p *played) Result {
	var r Result
	detectors := scored()
	stretches := p.stretches()
	queues := p.queues(stretches)
	for _, d := range detectors {
		if score, ok := p.incidents(d, stretches); ok {
			r.Incidents = append(r.Incidents, score)
		}
		r.Quiet = append(r.Quiet, p.quiet(d, stretches))
		switch {
		case d.kind == kindDemand && slices.Contains(demand, p.run.Scenario):
			r.Demand = append(r.Demand, p.demand(d))
		case d.kind != kindDemand:
			r.Queues = append(r.Queues, p.leads(d.Name, p.fires[d.Name], queues))
		}
	}
	var early []fire
	for _, name := range []string{"D1 warn", "D3", "D4"} {
		early = append(early, p.fires[name]...)
	}
	slices.SortFunc(early, func(a, b fire) int { return cmp.Compare(a.at, b.at) })
	r.Queues = append(r.Queues, p.leads(union, early, queues))
	r.Knees = p.knees()
	if c, ok := p.calibration(); ok {
		r.Calibration = []CalibrationScore{c}
	}
	return r
}

// incidents scores a detector on the incidents of a run; false without any.
func (p *played) incidents(d detector, stretches []stretch) (IncidentScore, bool) {
	if len(stretches) == 0 {
		return IncidentScore{}, false
	}
	score := IncidentScore{
		Subject: p.subject(d.Name),
		Cause:   stretches[0].Cause, Mild: stretches[0].Mild, Incidents: len(stretches),
	}
	for _, s := range stretches {
		var within []fire
		for _, f := range p.fires[d.Name] {
			if s.contains(f.at) {
				within = append(within, f)
			}
		}
		score.Fires += len(within)
		if len(within) == 0 {
			continue
		}
		score.Found++
		if from, ok := p.reference(d, s); ok {
			score.Minutes = append(score.Minutes, inMinutes(within[0].at-from))
		}
		if s.Cause != "" && within[0].cause != "" {
			score.CausesTold++
			if right(s.Cause, within[0].cause) {
				score.CausesRight++
			}
		}
	}
	slices.Sort(score.Minutes)
	return score, true
}

// reference is from when the time to detect is counted; false where there was
// never anything to detect. What creeps is counted from when there is an excess.
func (p *played) reference(d detector, s stretch) (time.Duration, bool) {
	if s.Cause != fleet.CauseResidency || d.excess == 0 {
		return s.begin, true
	}
	return p.firstExcess(s, d.excess)
}

// firstExcess is when in a stretch the share of recomputed tokens of a window was
// first a multiple of the usual one: of 15 minutes, or of an hour where the
// multiple is so small that a quarter of an hour reaches it by chance.
func (p *played) firstExcess(s stretch, factor float64) (time.Duration, bool) {
	usual, ok := p.truth.UsualMissRatio()
	if !ok {
		return 0, false
	}
	window := 15 * time.Minute
	if factor < fleet.ExcessFactor {
		window = time.Hour
	}
	for _, m := range p.truth.Minutes {
		if !s.contains(m.End) {
			continue
		}
		if ratio, ok := p.truth.MissRatio(fleet.Span{Begin: m.End - window, End: m.End}); ok && ratio >= factor*usual {
			return m.End, true
		}
	}
	return 0, false
}

// right says whether the cause that an alert names is that of the label. Metrics
// alone cannot tell routing from content.
func right(label, told string) bool {
	if label == fleet.CauseRouting || label == fleet.CauseContent {
		return told == label || told == "routing_or_content"
	}
	return told == label
}

// quiet scores a detector on the time in which nothing happens.
func (p *played) quiet(d detector, stretches []stretch) QuietScore {
	score := QuietScore{Subject: p.subject(d.Name)}
	quiet := p.run.Length - learning
	for _, s := range stretches {
		quiet -= s.end - s.begin
	}
	score.ReplicaWeeks = float64(p.engines) * quiet.Hours() / (7 * 24)
	if d.kind == kindDemand && p.run.Scenario == growing {
		return score // where it must fire
	}
	for _, f := range p.fires[d.Name] {
		if slices.ContainsFunc(stretches, func(s stretch) bool { return s.contains(f.at) }) {
			continue
		}
		switch {
		case d.kind == kindQueue && p.queued(f.at):
		case d.kind != kindDemand && p.truth.Excess(f.at):
			score.True++
		default:
			score.False++
		}
	}
	return score
}

// demand scores a detector of what grows over weeks.
func (p *played) demand(d detector) DemandScore {
	score := DemandScore{Subject: p.subject(d.Name), Runs: 1}
	if fires := p.fires[d.Name]; len(fires) > 0 {
		score.Found, score.Days = 1, []float64{fires[0].at.Hours() / 24}
	}
	return score
}

// queued says whether a queue follows within hours of a time, or was there.
func (p *played) queued(at time.Duration) bool {
	for _, q := range p.truth.Queues {
		if q.Begin <= at+leadWithin && (q.End == 0 || q.End+lateBy >= at) {
			return true
		}
	}
	return false
}

// queues are the beginnings of the sustained queues that count: the first within
// each incident, and in quiet time all that are apart.
func (p *played) queues(stretches []stretch) []time.Duration {
	var all []time.Duration
	counted := map[int]bool{}
	last := time.Duration(-1)
	for _, q := range p.truth.Queues {
		joined := last >= 0 && q.Begin-last < apart
		last = q.End
		if q.End == 0 {
			last = p.run.Length
		}
		in := slices.IndexFunc(stretches, func(s stretch) bool { return s.contains(q.Begin) })
		if joined || counted[in] {
			continue
		}
		if in >= 0 {
			counted[in] = true
		}
		all = append(all, q.Begin)
	}
	return all
}

// inMinutes counts in hundredths of minutes: a scrape is a quarter of one.
func inMinutes(d time.Duration) float64 { return math.Round(d.Minutes()*100) / 100 }

// leads scores alerts, in order of time, on the sustained queues of a run.
func (p *played) leads(name string, fires []fire, queues []time.Duration) QueueScore {
	score := QueueScore{Subject: p.subject(name), Queues: len(queues)}
	for _, queue := range queues {
		for _, f := range fires {
			if f.at < queue && (f.at >= queue-leadWithin || f.end == 0 || f.end >= queue-leadWithin) {
				score.Leads = append(score.Leads, inMinutes(min(queue-f.at, leadWithin)))
				break
			}
		}
	}
	slices.Sort(score.Leads)
	return score
}
