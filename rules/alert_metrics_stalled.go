package rules

import (
	"encoding/json"
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "MetricsStalled",
		Help:     "The metrics page of an engine has not changed for 10 minutes, but for its process' own series, while its pool's other engines get requests; or a gateway counts no request while some are in flight.",
		Severity: SeverityWarning, For: 10 * time.Minute,
		Settings: []Setting{
			{Name: "window", Default: 10 * time.Minute, Positive: true, Help: "time for which the page must be the same"},
			{Name: "requests", Default: 20.0, Positive: true, Help: "requests that each of the pool's other engines must have got in that time, on average"},
		},
		Target: func(s *settings) detector[TargetWindow] { return &metricsStalled{settings: s} },
	})
}

type metricsStalled struct {
	*settings
	stalledState
}

// stalledState is what survives a restart: the page that is the same, since
// when, and whether the others got requests meanwhile.
type stalledState struct {
	Sum   uint64 `json:"sum"`
	Since int64  `json:"since"`
	Busy  bool   `json:"busy,omitempty"`
}

// Judge implements detector.
func (d *metricsStalled) Judge(w TargetWindow, firing time.Time) Verdict {
	t := w.target
	if g, ok := w.gateway(); ok {
		return d.judgeGateway(g, firing)
	}
	switch {
	case w.pool == nil:
		return unknown("no pool has the target's engines")
	case t.lastGood == 0 || w.ms-t.lastGood > w.fresh.Milliseconds() || t.pageSum == 0:
		return unknown(staleReason(t, w.ms))
	}
	if d.Sum != t.pageSum {
		d.stalledState = stalledState{Sum: t.pageSum, Since: t.sameSince}
	}
	same := time.Duration(w.ms-d.Since) * time.Millisecond
	window := d.duration("window")
	v := Verdict{Phase: PhaseWatching, Value: same.Seconds(), Text: "the page changes"}
	if !firing.IsZero() {
		v.Over = fmt.Sprintf("The metrics page of %s of job %s changes again", t.instance, t.job)
	}
	if same <= w.fresh { // as at nearly all times
		return v
	}
	v.Text = "the page is the same for " + spell(same)
	v.Numbers = []Number{{Name: "same", Value: same.Seconds(), Unit: "seconds"}, {Name: "threshold", Value: window.Seconds(), Unit: "seconds"}}
	if same < window {
		return v
	}
	requests, others := w.elsewhere(min(window, longWindow))
	v.Numbers = append(v.Numbers, Number{Name: "requests_elsewhere", Value: requests, Unit: "requests"})
	v.Text = fmt.Sprintf("the page is the same for %s; %s at %s of the pool within %s", spell(same), plural(int(requests), "request"), plural(others, "other engine"), spell(window))
	// Only a page that changes ends it, not the others' rest.
	d.Busy = d.Busy || others > 0 && requests >= d.number("requests")*float64(others)
	if v.Active = d.Busy; v.Active {
		v.Since = time.UnixMilli(d.Since).UTC()
		d.tell(w, &v, same, requests, others)
	}
	return v
}

// elsewhere counts the requests that the pool's engines of other targets got.
func (w TargetWindow) elsewhere(d time.Duration) (requests float64, engines int) {
	for _, u := range w.pool.members {
		e := EngineWindow{unitWindow: unitWindow{now: w.now, ms: w.ms, fresh: u.target.freshOr(w.fresh), unit: u}, pool: w.pool}
		if u.target != w.target && e.Fresh() {
			requests += e.Requests(d)
			engines++
		}
	}
	return requests, engines
}

func (d *metricsStalled) tell(w TargetWindow, v *Verdict, same time.Duration, requests float64, others int) {
	t, window := w.target, d.duration("window")
	v.Summary = fmt.Sprintf("%s of job %s: its metrics page has not changed for %s while pool %s works", t.instance, t.job, spell(same), w.pool.name)
	v.Evidence = Evidence{
		Seen: fmt.Sprintf("Every scrape of %s is read, and for %s no value but those of its process changed; within %s %s reached %s of pool %s.",
			t.instance, spell(same), spell(window), plural(int(requests), "request"), plural(others, "other engine"), w.pool.name),
		Against:    fmt.Sprintf("Fires when the page is the same for %s while the others get at least %g requests each.", spell(window), d.number("requests")),
		CauseText:  "Either the engine counts no more (a metrics process without its engine, a proxy or cache in between), or no request reaches it.",
		Next:       "Send one request to it by its own address: if the page does not change then, restart what serves it; if it does, look why the router leaves it out.",
		Confidence: "medium: a page that stands still does not tell why", Numbers: v.Numbers,
	}
}

func (d *metricsStalled) save() (json.RawMessage, error) { return json.Marshal(d.stalledState) }

func (d *metricsStalled) load(raw json.RawMessage) error {
	return json.Unmarshal(raw, &d.stalledState)
}
