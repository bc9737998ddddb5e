package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kvwatch/rules/sizing"
)

const (
	// episodeGap is how far apart alerts about one pool may be and still belong
	// together.
	episodeGap = 30 * time.Minute
	// leadWithin is how long after an episode's first alert a queue must come to be
	// the one that it warned of.
	leadWithin = 24 * time.Hour
)

// Episode is what people would call one incident: alerts about one pool, or about
// one target, that follow each other. Those for information belong to one but
// make none.
type Episode struct {
	About    string    `json:"about"`
	Pool     string    `json:"pool,omitempty"`
	From     time.Time `json:"from"`
	Severity string    `json:"severity"`
	// To is null where something still fired at the end.
	To *time.Time `json:"to" jsonschema:"oneof_type=string;null"`
	// Alerts are how often each fired, by name.
	Alerts map[string]int `json:"alerts"`
	// Cause and Summary are of the worst alert that names them.
	Cause   string `json:"cause,omitempty"`
	Summary string `json:"summary"`
	// LeadSeconds is the time from the first alert to a sustained queue, null where
	// none came within a day.
	LeadSeconds *float64 `json:"lead_seconds" jsonschema:"oneof_type=number;null"`
	// ExcessTokens are prompt tokens computed beyond the pool's usual share while
	// alerts about the cache held; null where none did.
	ExcessTokens *float64 `json:"excess_prompt_tokens" jsonschema:"oneof_type=number;null"`

	// cache is the time of the alerts about the cache; worst ranks what Cause and
	// Summary are of.
	cacheFrom, cacheTo time.Time
	worst              int
}

// newEpisodes puts incidents together, the first that fired first.
func newEpisodes(all []Incident, end time.Time) []Episode {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Incident) int { return a.FiredAt.Compare(b.FiredAt) })
	episodes := []Episode{}
	for i := range sorted {
		if rank(sorted[i].Severity) < rank("warning") {
			continue
		}
		if at := slices.IndexFunc(episodes, func(e Episode) bool { return e.holds(&sorted[i], end) }); at >= 0 {
			episodes[at].add(&sorted[i])
			continue
		}
		e := Episode{About: sorted[i].About, Pool: sorted[i].Pool, From: sorted[i].FiredAt, To: new(sorted[i].FiredAt), Alerts: map[string]int{}}
		e.add(&sorted[i])
		episodes = append(episodes, e)
	}
	return episodes
}

// holds says whether an incident is about the same, and follows closely.
func (e *Episode) holds(i *Incident, end time.Time) bool {
	last := end
	if e.To != nil {
		last = *e.To
	}
	return e.About == i.About && i.FiredAt.Sub(last) <= episodeGap
}

// add makes an incident part of it.
func (e *Episode) add(i *Incident) {
	e.Alerts[i.Alert]++
	switch {
	case i.ResolvedAt == nil:
		e.To = nil
	case e.To != nil && i.ResolvedAt.After(*e.To):
		e.To = new(*i.ResolvedAt)
	}
	if rank(i.Severity) > rank(e.Severity) || e.Severity == "" {
		e.Severity = i.Severity
	}
	// A severe alert with a cause says more than one without.
	weight := 2 * rank(i.Severity)
	if i.Cause != "" {
		weight++
	}
	if weight > e.worst {
		e.worst, e.Cause, e.Summary = weight, i.Cause, i.Summary
	}
	if lead := i.LeadSeconds; lead != nil && e.LeadSeconds == nil {
		if queue := i.FiredAt.Add(time.Duration(*lead * float64(time.Second))).Sub(e.From); queue <= leadWithin {
			e.LeadSeconds = new(max(queue, 0).Seconds())
		}
	}
	if i.ExcessTokens != nil {
		if e.cacheFrom.IsZero() || i.ActiveAt.Before(e.cacheFrom) {
			e.cacheFrom = i.ActiveAt
		}
		switch {
		case i.ResolvedAt == nil:
			e.cacheTo = time.Unix(1<<40, 0)
		case i.ResolvedAt.After(e.cacheTo):
			e.cacheTo = *i.ResolvedAt
		}
	}
}

// addExcess counts what the cache's trouble cost, each token once.
func (e *Episode) addExcess(p *Pool, slots []sizing.Slot) {
	if e.Pool != p.Pool || e.cacheFrom.IsZero() || p.UsualMiss == nil {
		return
	}
	e.ExcessTokens = new(excessBetween(slots, *p.UsualMiss, e.cacheFrom, e.cacheTo))
}

// excessBetween is what slots between two times computed beyond the usual share.
func excessBetween(slots []sizing.Slot, usual float64, from, to time.Time) float64 {
	sum := 0.0
	for _, s := range slots {
		if s.Start.Add(sizing.SlotLength).After(from) && s.Start.Before(to) {
			sum += excess(s, usual)
		}
	}
	return sum
}

// lasted spells how long it was.
func (e *Episode) lasted() string {
	if e.To == nil {
		return "not over at the end"
	}
	return length(e.To.Sub(e.From))
}

// queue spells when a queue came.
func (e *Episode) queue() string {
	switch {
	case e.LeadSeconds == nil:
		return "none came"
	case *e.LeadSeconds == 0:
		return "was there"
	default:
		return "after " + length(time.Duration(*e.LeadSeconds*float64(time.Second)))
	}
}

// what is the summary without the pool's name, which stands beside it.
func (e *Episode) what() string {
	text, found := strings.CutPrefix(e.Summary, "Pool "+e.Pool)
	if !found {
		return e.Summary
	}
	return strings.TrimLeft(text, ": ")
}

// names lists the alerts, the most frequent first.
func (e *Episode) names() string {
	names := slices.SortedFunc(maps.Keys(e.Alerts), func(a, b string) int { return cmp.Or(e.Alerts[b]-e.Alerts[a], cmp.Compare(a, b)) })
	for i, name := range names {
		if n := e.Alerts[name]; n > 1 {
			names[i] = fmt.Sprintf("%d × %s", n, name)
		}
	}
	return strings.Join(names, ", ")
}

// episodeTable lists them, the first that fired first. Of which pool they are is
// said where there are several.
func episodeTable(all []Episode, pools int) table {
	t := table{Head: []string{"from (UTC)", "lasted", "severity", "what", "cause", "tokens beyond the usual", "queue", "alerts"}}
	for i := range all {
		e := &all[i]
		excess := ""
		if e.ExcessTokens != nil {
			excess = number(*e.ExcessTokens)
		}
		what := e.what()
		if e.Pool != "" && pools > 1 {
			what = e.Pool + ": " + what
		}
		t.Rows = append(t.Rows, []string{moment(e.From), e.lasted(), e.Severity, what, e.Cause, excess, e.queue(), e.names()})
	}
	return t
}
