package rules

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

func init() {
	alert(Alerting{
		Name:     "SLOBurn",
		Help:     "A pool misses its TTFT or ITL objective so often that its error budget burns 14.4 times too fast over 1 h and 5 m (critical), or 6 times over 6 h and 30 m.",
		Severity: SeverityWarning,
		Settings: []Setting{
			{Name: "fast_burn", Default: 14.4, Positive: true, Help: "multiple of the allowed pace that is critical"},
			{Name: "fast_window", Default: time.Hour, Positive: true, Help: "time over which it must be so"},
			{Name: "fast_recent", Default: 5 * time.Minute, Positive: true, Help: "and lately, so that it ends soon"},
			{Name: "slow_burn", Default: 6.0, Positive: true, Help: "multiple of the allowed pace that is a warning"},
			{Name: "slow_window", Default: 6 * time.Hour, Positive: true, Help: "time over which it must be so"},
			{Name: "slow_recent", Default: 30 * time.Minute, Positive: true, Help: "and lately"},
			{Name: "requests", Default: 20.0, Positive: true, Help: "requests (ITL: tokens) that the shorter window needs"},
		},
		Pool: func(s *settings) detector[PoolWindow] {
			return &sloBurn{settings: s, burns: map[string]*burn{}, seen: map[*histogram]burnMark{}}
		},
	})
}

// sloBurn holds a pool's latencies against what it promised.
type sloBurn struct {
	*settings
	// burns are by the name of the objective.
	burns map[string]*burn
	// seen is what was already counted of each engine's histogram.
	seen map[*histogram]burnMark
}

// burnLevel is one pair of windows over which a budget may burn too fast.
type burnLevel struct {
	severity     string
	limit        float64
	long, recent time.Duration
}

func (d *sloBurn) levels() []burnLevel {
	return []burnLevel{
		{SeverityCritical, d.number("fast_burn"), d.duration("fast_window"), d.duration("fast_recent")},
		{SeverityWarning, d.number("slow_burn"), d.duration("slow_window"), d.duration("slow_recent")},
	}
}

// spans keeps marks densely enough for the short windows, and far enough back
// for the long ones.
func (d *sloBurn) spans() burnSpans {
	long := max(d.duration("slow_window"), d.duration("fast_window"))
	return burnSpans{dense: d.duration("fast_recent") / 5, near: d.duration("fast_window"), sparse: long / 36, far: long}
}

// burning is how fast an objective's budget burns, at one level.
type burning struct {
	objective objective
	level     burnLevel
	long, now burnWindow
}

// Judge implements detector.
func (d *sloBurn) Judge(w PoolWindow, _ time.Time) Verdict {
	objectives := w.pool.objectives()
	if len(objectives) == 0 {
		return unknown(noObjective(sloTTFT + " and no " + sloITL))
	}
	v := Verdict{Phase: PhaseWatching}
	var found []burning
	var nearest burning
	var standing []string
	told := 0
	for _, o := range objectives {
		n := d.take(w, o)
		told += n
		if n == 0 {
			continue
		}
		b, text := d.judge(w, o, &v)
		standing = append(standing, text)
		if b.burns(d.number("requests")) {
			found = append(found, b)
		}
		if b.share() > nearest.share() || nearest.level.limit == 0 {
			nearest = b
		}
	}
	if told == 0 {
		return unknown("no engine of the pool tells the latencies that it promised, lately")
	}
	v.Value, v.Text = nearest.rate(), strings.Join(standing, "; ")
	v.Numbers = append(v.Numbers, Number{Name: "burn", Value: nearest.rate(), Unit: "times"}, Number{Name: "threshold_burn", Value: nearest.level.limit, Unit: "times"})
	v.Over = fmt.Sprintf("Pool %s no longer burns its error budget too fast: %s", w.pool.name, v.Text)
	if len(found) > 0 {
		v.Active = true
		d.tell(w, &v, found)
	}
	return v
}

// take counts what came since the Eval before, and how many engines told.
func (d *sloBurn) take(w PoolWindow, o objective) (told int) {
	all, missed := 0.0, 0.0
	for _, u := range w.pool.members {
		h := u.hists[o.hist]
		if h == nil {
			continue
		}
		if w.engine(u).Fresh() && u.hasHist(o.hist) {
			told++
		}
		now := burnMark{At: w.ms, All: h.count, Missed: h.count - h.within(o.limit.Seconds())}
		if before, ok := d.seen[h]; ok {
			all += max(now.All-before.All, 0)
			missed += max(now.Missed-before.Missed, 0)
		}
		d.seen[h] = now
	}
	for h, at := range d.seen { // engines that left the pool
		if w.ms-at.At > longWindow.Milliseconds() {
			delete(d.seen, h)
		}
	}
	b := d.burns[o.name]
	if b == nil {
		b = &burn{}
		d.burns[o.name] = b
	}
	b.add(w.ms, all, missed, d.spans())
	return told
}

// judge says how an objective stands, and gives the first level at which it
// burns too fast, else the one that is nearest to that.
func (d *sloBurn) judge(w PoolWindow, o objective, v *Verdict) (nearest burning, text string) {
	b := d.burns[o.name]
	for i, l := range d.levels() {
		x := burning{objective: o, level: l, long: b.window(w.ms, l.long), now: b.window(w.ms, l.recent)}
		v.Numbers = append(v.Numbers,
			Number{Name: fmt.Sprintf("%s_burn_%s", o.name, compact(l.long)), Value: x.long.rate(), Unit: "times"},
			Number{Name: fmt.Sprintf("%s_burn_%s", o.name, compact(l.recent)), Value: x.now.rate(), Unit: "times"})
		if i == 0 {
			text = fmt.Sprintf("%s: %s of %s %ss missed it in %s", o.name, percent(x.now.share()), amount(x.now.all), o.of, spell(x.now.span))
		}
		if i == 0 || !nearest.burns(d.number("requests")) && (x.burns(d.number("requests")) || x.share() > nearest.share()) {
			nearest = x
		}
	}
	return nearest, text
}

// rate is the slower of the two windows' paces: both must be too fast.
func (b burning) rate() float64 { return min(b.long.rate(), b.now.rate()) }

// share is how near the pace is to the level's limit.
func (b burning) share() float64 {
	if b.level.limit == 0 {
		return 0
	}
	return b.rate() / b.level.limit
}

// burns says whether the pace is too fast, of as many requests as it takes.
func (b burning) burns(requests float64) bool {
	return b.now.all >= requests && b.rate() >= b.level.limit
}

// compact names a window as people write it in queries: 1h, 5m.
func compact(d time.Duration) string { return model.Duration(d).String() }

func (d *sloBurn) tell(w PoolWindow, v *Verdict, found []burning) {
	worst := found[0]
	var seen, against []string
	for _, b := range found {
		if b.level.severity == SeverityCritical {
			v.Severity, worst = SeverityCritical, b
		}
		o := b.objective
		seen = append(seen, fmt.Sprintf("%s: %s of %s %ss took over %s in %s, and %s of %s in the last %s.", o.name,
			percent(b.long.share()), amount(b.long.all), o.of, spellSeconds(o.limit.Seconds()), spell(b.long.span), percent(b.now.share()), amount(b.now.all), spell(b.now.span)))
		against = append(against, fmt.Sprintf("%s: promised is %s to %s of the %ss; the rest, %s, is used up %.1f and %.1f times too fast, fires at %g times over %s and %s.",
			o.name, spellSeconds(o.limit.Seconds()), percent(objectiveShare), o.of, percent(errorBudget), b.long.rate(), b.now.rate(), b.level.limit, spell(b.level.long), spell(b.level.recent)))
	}
	v.Value = worst.long.rate()
	what := "first tokens come later than promised"
	if worst.objective.name == sloITL {
		what = "tokens come slower than promised"
	}
	v.Summary = fmt.Sprintf("Pool %s: %s (%s), the error budget burns %.1f times too fast", w.pool.name, what, worst.objective.name, v.Value)
	if worst.long.span < worst.level.long {
		seen = append(seen, fmt.Sprintf("Nothing older than %s is known.", spell(worst.long.span)))
	}
	why, next := w.latencyCause(worst.objective)
	v.Evidence = Evidence{
		Seen: strings.Join(seen, " "), Against: strings.Join(against, " "), CauseText: why, Next: next,
		Cost:       fmt.Sprintf("At this pace the error budget of 30 days is gone in %s.", spellSeconds(30*24*time.Hour.Seconds()/v.Value)),
		Confidence: confidence(worst.now.all), Numbers: v.Numbers,
	}
}

// latencyCause says what makes an objective's latency long now.
func (w PoolWindow) latencyCause(o objective) (why, next string) {
	waiting, told := w.sum(func(e EngineWindow) (float64, bool) { return e.waitingForCapacity() })
	if o.name == sloTTFT && waiting > 0 {
		_, why, next = w.binding()
		return fmt.Sprintf("%s waiting. %s", plural(int(waiting), "request"), why), next
	}
	if o.name == sloTTFT {
		p, timed := w.prefillShare(prefillWindow)
		why = "Nothing waits at this moment"
		if told == 0 {
			why = "How many requests wait is not known"
		}
		if timed > 0 {
			why += fmt.Sprintf("; prefill occupancy is %.2f over %s", p.ratio(), spell(prefillWindow))
		}
		cause, next := w.prefillCause(prefillWindow)
		return why + ". " + cause, next
	}
	running, _ := w.sum(func(e EngineWindow) (float64, bool) { return e.Gauge(gaugeRunning) })
	why = fmt.Sprintf("Decoding is slow: %s in %s.", plural(int(running), "running request"), plural(w.Fresh(), "engine"))
	if preempted, ok := w.preempted(); ok && preempted > 0 {
		why += fmt.Sprintf(" %s in 5 min: each makes its request stand still.", plural(int(preempted), "preemption"))
	}
	return why, "Fewer requests per engine (max-num-seqs) or more engines; smaller prefill chunks (max-num-batched-tokens) where long prompts interrupt decoding."
}

// burnState is what a state file holds of it.
type burnState struct {
	Burns map[string]*burn `json:"burns"`
}

// save implements keeper.
func (d *sloBurn) save() (json.RawMessage, error) {
	if len(d.burns) == 0 {
		return nil, nil
	}
	return json.Marshal(burnState{Burns: d.burns})
}

// load implements keeper.
func (d *sloBurn) load(raw json.RawMessage) error {
	var s burnState
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	for name, b := range s.Burns {
		if b != nil {
			d.burns[name] = b
		}
	}
	return nil
}
