package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "QueueCapReached",
		Help:     "Engines of a pool refuse requests for 2 minutes, or one's queue stands still at its highest of 24 hours, of at least 8, for 5 minutes.",
		Severity: SeverityCritical,
		Settings: []Setting{
			{Name: "refused_window", Default: 2 * time.Minute, Positive: true, Help: "time over which requests must be refused again and again"},
			{Name: "window", Default: 5 * time.Minute, Positive: true, Help: "time over which a queue must stand still"},
			{Name: "waiting", Default: 8.0, Positive: true, Help: "requests that such a queue must have"},
			{Name: "band", Default: 1.0, Help: "requests by which it may differ from its highest"},
			{Name: "history", Default: 24 * time.Hour, Positive: true, Help: "time of which it must be the highest"},
		},
		Pool: func(s *settings) detector[PoolWindow] { return &queueCapReached{settings: s} },
	})
}

// queueCapReached tells that a queue is as long as it may be: from then on its
// length says nothing of what is asked.
type queueCapReached struct {
	*settings
	// peaks are the longest queues by engine.
	peaks map[string]*queuePeak
}

// capped is an engine whose queue stands still at its highest.
type capped struct {
	name    string
	waiting float64
	known   time.Duration
}

// Judge implements detector.
func (d *queueCapReached) Judge(w PoolWindow, firing time.Time) Verdict {
	still, longest := d.note(w)
	refused, went := d.refused(w)
	if w.Fresh() == 0 {
		return unknown(reasonNobodyRead)
	}
	v := Verdict{
		Active: went || len(still) > 0, Phase: PhaseWatching, Value: longest,
		Text: fmt.Sprintf("%s refused in %s; longest queue now %s", plural(int(refused), "request"), spell(d.span(w)), amount(longest)),
		Over: overText(firing, "Pool %s: no request is refused and no queue stands at its cap, the longest holds %s", w.pool.name, plural(int(longest), "request")),
		Numbers: []Number{
			{Name: "waiting", Value: longest, Unit: "requests"},
			{Name: "refused", Value: refused, Unit: "calls"},
			{Name: "engines_capped", Value: float64(len(still)), Unit: "engines"},
		},
	}
	if v.Active {
		d.tell(w, &v, refused, went, still)
	}
	return v
}

// note takes the queues into the peaks, and finds those that stand still.
func (d *queueCapReached) note(w PoolWindow) (still []capped, longest float64) {
	if d.peaks == nil {
		d.peaks = map[string]*queuePeak{}
	}
	slot := d.slotLength()
	for _, u := range w.pool.members {
		e := w.engine(u)
		n, ok := e.Gauge(gaugeWaiting)
		if !ok {
			continue
		}
		p := d.peaks[u.key()]
		if p == nil {
			p = &queuePeak{}
			d.peaks[u.key()] = p
		}
		p.note(w.ms/slot.Milliseconds(), n)
		longest = max(longest, n)
		top := p.highest()
		flat := func(v float64) bool { return v >= top-d.number("band") }
		if top >= d.number("waiting") && e.throughout(gaugeWaiting, d.duration("window"), flat) {
			still = append(still, capped{u.name(), n, min(time.Duration(len(p.Peaks))*slot, d.duration("history"))})
		}
	}
	if len(d.peaks) > len(w.pool.members) {
		d.prune(w.pool.members)
	}
	return still, longest
}

// prune forgets the peaks of engines that left.
func (d *queueCapReached) prune(members []*unit) {
	here := map[string]bool{}
	for _, u := range members {
		here[u.key()] = true
	}
	maps.DeleteFunc(d.peaks, func(key string, _ *queuePeak) bool { return !here[key] })
}

// slotLength is the time of one slot of the peaks.
func (d *queueCapReached) slotLength() time.Duration {
	return max(d.duration("history")/peakSlots, time.Second)
}

// span is the time over which refusals are counted, long enough for scrapes.
func (d *queueCapReached) span(w PoolWindow) time.Duration {
	return max(d.duration("refused_window"), 2*w.interval)
}

// refused counts what was refused in the window, and says whether it was in
// either half of it: once is a burst.
func (d *queueCapReached) refused(w PoolWindow) (n float64, went bool) {
	begin, middle := w.now.Add(-d.span(w)), w.now.Add(-d.span(w)/2)
	before, after := w.turnedAway(begin, middle), w.turnedAway(middle, w.now)
	return before + after, before > 0 && after > 0
}

// turnedAway counts the requests that engines refused in (from, to], by their
// own counters or, where they have none, by those of the gateways before them.
func (w PoolWindow) turnedAway(from, to time.Time) float64 {
	own, _ := w.sum(func(e EngineWindow) (float64, bool) {
		return e.IncreaseIn(totalTurnedAway, from.UnixMilli(), to.UnixMilli()), e.Fresh()
	})
	return max(own, w.refusedIn(from, to))
}

func (d *queueCapReached) tell(w PoolWindow, v *Verdict, refused float64, went bool, still []capped) {
	var seen, names []string
	known := d.duration("history")
	for _, s := range still {
		names = append(names, s.name)
		known = min(known, s.known)
		if len(names) <= shownOut {
			seen = append(seen, fmt.Sprintf("%s holds %s", s.name, amount(s.waiting)))
		}
	}
	e := &v.Evidence
	if len(still) > 0 {
		v.Summary = fmt.Sprintf("Pool %s: the queue of %s stands at its highest and grows no more", w.pool.name, list(names))
		e.Seen = fmt.Sprintf("Waiting, the same (±%g) at every scrape of %s: %s; the highest of the %s that are known.",
			d.number("band"), spell(d.duration("window")), strings.Join(seen, ", "), spell(known))
		e.CauseText = "A queue at its cap (--max-num-queued-reqs, or a limit before the engine): what is beyond it is refused, so that its length tells no more how much is asked. The other reading: a fixed number of clients that each wait for an answer, or gauges frozen since all requests were aborted."
	}
	if went {
		v.Summary = fmt.Sprintf("Pool %s refuses requests: %s in %s", w.pool.name, amount(refused), spell(d.span(w)))
		e.Seen = strings.TrimSpace(fmt.Sprintf("%s refused (503) in %s, in both halves of it. %s", plural(int(refused), "request"), spell(d.span(w)), e.Seen))
		e.CauseText = "Admission control of the engines: the queue is at its cap, and callers get 503. Where only a gateway tells, a proxy before the engines may answer so too."
	}
	e.Against = fmt.Sprintf("Fires when requests are refused throughout %s, or when a queue of at least %g stays within %g of its highest of %s for %s.",
		spell(d.span(w)), d.number("waiting"), d.number("band"), spell(d.duration("history")), spell(d.duration("window")))
	_, why, next := w.binding()
	e.CauseText += " What the queue waits for: " + why
	e.Next = "Shed or delay load: a higher cap makes callers wait longer and serves nobody more. " + next
	e.Confidence, e.Numbers = "high: the engines' own count", v.Numbers
	if !went {
		e.Confidence = fmt.Sprintf("medium: it stands still at the highest of %s, and no refusal was counted", spell(known))
	}
}

func (d *queueCapReached) save() (json.RawMessage, error) {
	if len(d.peaks) == 0 {
		return nil, nil
	}
	return json.Marshal(d.peaks)
}

func (d *queueCapReached) load(raw json.RawMessage) error { return json.Unmarshal(raw, &d.peaks) }
