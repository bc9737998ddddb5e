package rules

import (
	"fmt"
	"math"
	"time"

	"kvwatch/collector"
)

// minRequests is how many requests a window needs before a ratio or a quantile
// of it is told.
const minRequests = 5

// EngineWindow is all that a rule may see of one engine at one instant.
type EngineWindow struct {
	unitWindow
	// pool is nil until the engine's model is known.
	pool *pool
}

// GatewayWindow is all that a rule may see of one gateway at one instant.
type GatewayWindow struct {
	unitWindow
}

// TargetWindow is all that a rule may see of one target at one instant.
type TargetWindow struct {
	now time.Time
	// ms is now in Unix milliseconds.
	ms int64
	// fresh is how old the last scrape may be.
	fresh  time.Duration
	target *target
	// pool is the pool of the target's engines; nil outside of pools.
	pool *pool
}

// Scraped says whether the target was scraped lately, with whatever outcome.
func (w TargetWindow) Scraped() bool {
	return w.target.lastScrape > 0 && w.ms-w.target.lastScrape <= w.fresh.Milliseconds()
}

// unseen says why nothing is known of the target's state; "" when it is known.
func (w TargetWindow) unseen() string {
	switch {
	case !w.Scraped():
		return "the target was not scraped lately"
	case w.target.state == collector.StateUnknown:
		return "the target was not scraped since kvwatch started"
	default:
		return ""
	}
}

// unitWindow is what engines and gateways have in common.
type unitWindow struct {
	now time.Time
	// ms is now in Unix milliseconds.
	ms int64
	// fresh is how old the last page may be.
	fresh time.Duration
	unit  *unit
}

// Fresh says whether the last good page is young enough to speak of now.
func (w unitWindow) Fresh() bool {
	t := w.unit.target
	return t.lastGood > 0 && w.ms-t.lastGood <= w.fresh.Milliseconds()
}

// Gauge is the gauge as of the last page, if that page is fresh and had it.
func (w unitWindow) Gauge(g gauge) (float64, bool) {
	v := w.unit.gauges[g]
	return v.now, v.column.number != 0 && v.page == w.unit.target.page && w.Fresh()
}

// Increase is what the total gained in the window that ends now.
func (w unitWindow) Increase(t total, d time.Duration) float64 {
	return w.IncreaseIn(t, w.ms-d.Milliseconds(), w.ms)
}

// IncreaseIn is what the total gained on the pages in (from, to].
func (w unitWindow) IncreaseIn(t total, from, to int64) float64 {
	return w.unit.increase(t, from, to)
}

// HistSum and HistCount are what sum and count of a histogram gained; they are
// known as far back as their reach says.
func (w unitWindow) HistSum(h hist, d time.Duration) float64 {
	f := w.unit.hists[h]
	if f == nil || f.sumColumn.number == 0 {
		return 0
	}
	return w.unit.target.windowFor(h.sumReach()).increase(f.sumColumn, w.ms-d.Milliseconds(), w.ms)
}

// HistCount is what the histogram's count gained in the window.
func (w unitWindow) HistCount(h hist, d time.Duration) float64 {
	f := w.unit.hists[h]
	if f == nil || f.countColumn.number == 0 {
		return 0
	}
	return w.unit.target.windowFor(h.countReach()).increase(f.countColumn, w.ms-d.Milliseconds(), w.ms)
}

// windowFacts is what several rules ask of the same window within one Eval.
type windowFacts struct {
	d    time.Duration
	ms   int64
	page int32

	missed, prompted float64
	source           cacheSource
	// known says that the page has a source of missed and prompted tokens.
	known bool
	// trusted is false where the source counts more than was prompted, and is
	// the only one.
	trusted  bool
	requests float64
	covered  float64

	// residency is told where resides; both speak where residencyKnown.
	residency               residencyInputs
	resides, residencyKnown bool
}

// facts works them out once.
func (w unitWindow) facts(d time.Duration) *windowFacts {
	u := w.unit
	for i := range u.facts {
		if f := &u.facts[i]; f.d == d && f.ms == w.ms && f.page == u.target.page {
			return f
		}
	}
	f := &u.facts[u.nextFacts]
	u.nextFacts = (u.nextFacts + 1) % len(u.facts)
	*f = windowFacts{d: d, ms: w.ms, page: u.target.page}
	if f.source, f.known, f.trusted = u.windowSource(w.ms-d.Milliseconds(), w.ms); f.known {
		f.missed, f.prompted = u.missed(f.source, w.ms-d.Milliseconds(), w.ms)
	}
	f.requests = w.countRequests(d)
	f.covered = w.Increase(totalCovered, d)
	return f
}

// Requests counts the requests of the window: those that got a first token, or
// those that finished where first tokens are not counted.
func (w unitWindow) Requests(d time.Duration) float64 { return w.facts(d).requests }

func (w unitWindow) countRequests(d time.Duration) float64 {
	if w.unit.hists[histTTFT] != nil {
		return w.HistCount(histTTFT, d)
	}
	return w.HistCount(histPrompt, d)
}

// Total is the source's own total as far as it is known, resets corrected.
func (w unitWindow) Total(t total) (float64, bool) {
	v := w.unit.totals[t]
	return v.sum + v.skipped, v.column.number != 0 && !w.sampled()
}

// sampled says that the pages are those of several workers in turn.
func (w unitWindow) sampled() bool { return w.unit.target.turns }

// Covered is the share of the window that good pages cover.
func (w unitWindow) Covered(d time.Duration) float64 {
	return min(w.facts(d).covered/d.Seconds(), 1)
}

// quality judges a value that was computed over the window d.
func (w unitWindow) quality(d time.Duration) (Quality, float64) {
	switch {
	case w.sampled():
		return QualitySampled, 0
	case w.unit.target.versionAt > w.ms-d.Milliseconds():
		return QualityVersionStep, 0
	case w.unit.resetAt > w.ms-d.Milliseconds():
		return QualityReset, 0
	}
	// A window rarely begins and ends on a page: two pages less are still whole.
	covered, slack := w.Covered(d), 2*w.fresh.Seconds()/3/d.Seconds()
	if covered+slack < 1 {
		return QualityPartial, covered
	}
	return QualityOK, 0
}

// known is a result that was computed over the window d (0: from the last page).
func (w unitWindow) known(v float64, d time.Duration, from string) Result {
	r := Result{Value: v, Known: true, Quality: QualityOK, From: from}
	switch {
	case d > 0:
		r.Quality, r.Coverage = w.quality(d)
		r.Known = r.Quality != QualitySampled
	case w.sampled():
		r.Quality, r.Reason = QualitySampled, sampledGauge
		return r
	}
	switch r.Quality {
	case QualityReset:
		r.Reason = "a counter began again inside the window; nothing was added or lost"
	case QualityPartial:
		r.Reason = "pages cover only a part of the window"
	case QualitySampled:
		r.Reason = sampledReason
	case QualityVersionStep:
		t := w.unit.target
		r.Reason = fmt.Sprintf("the server became %s at %s, within the window: what is counted may have changed with it", t.version, clock(time.UnixMilli(t.versionAt)))
	case QualityOK, QualityStale, QualityAbsent:
	}
	return r
}

const sampledReason = "several workers answer behind one address, each with counters of its own: give LiteLLM a PROMETHEUS_MULTIPROC_DIR, or scrape each worker and each pod"

// sampledGauge is what a gauge says that one of several workers told.
const sampledGauge = "the value of one worker of several, whichever answered, and not their sum: give LiteLLM a PROMETHEUS_MULTIPROC_DIR, or scrape each worker and each pod"

// absent is a result without a value; a stale unit says so instead, and one
// that is several workers in turn.
func (w unitWindow) absent(reason string) Result {
	if !w.Fresh() {
		return w.stale()
	}
	if w.sampled() {
		return Result{Quality: QualitySampled, Reason: sampledReason}
	}
	return Result{Quality: QualityAbsent, Reason: reason}
}

func (w unitWindow) stale() Result {
	return Result{Quality: QualityStale, Reason: staleReason(w.unit.target, w.ms)}
}

// staleReason says since when there was no page, and why.
func staleReason(t *target, now int64) string {
	if t.lastGood == 0 {
		return "no page was read yet"
	}
	age := time.Duration(now-t.lastGood) * time.Millisecond
	text := fmt.Sprintf("no page for %s", spell(age))
	if t.state != collector.StateUp {
		text += fmt.Sprintf(" (%s)", t.state)
	}
	return text
}

// ratio is part over whole where the window holds enough, else absent.
func (w unitWindow) ratio(part, whole float64, d time.Duration, from string) Result {
	if whole <= 0 || math.IsNaN(part) {
		return w.absent(reasonNoData)
	}
	return w.known(min(max(part/whole, 0), 1), d, from)
}

const (
	reasonNoData    = "nothing was prompted in the window"
	reasonTooLittle = "fewer than 5 requests and less than 2 usual prompts in the window"
)

// capacity is the engine's KV cache in tokens.
func (w unitWindow) capacity() (float64, bool) {
	c := w.unit.capacity
	if w.unit.sharedBlocks() {
		c /= float64(w.unit.target.engines())
	}
	return c, c > 0
}
