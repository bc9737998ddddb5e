package rules

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

// startsIn is less than a server needs to start and to be asked for something.
const startsIn = time.Minute

// InspectOptions say what a page does not tell.
type InspectOptions struct {
	// Interval is the time between two scrapes; 0 is 15 s.
	Interval time.Duration
	// MaxNumSeqs is the engines' --max-num-seqs, MaxInFlight what the gateway
	// may hold over all its workers; 0 is unknown.
	MaxNumSeqs, MaxInFlight int
	// Untimed says that the times of the rounds are made up, so that nothing may
	// be said per second.
	Untimed bool
}

// Inspection watches one target for a while and says what it is, what can be
// read and what binds it. It rests on an Engine of its own, whose windows begin
// with the first page that is observed. It is not safe for concurrent use.
type Inspection struct {
	opts   InspectOptions
	engine *Engine

	url    string
	source string
	state  collector.State
	reason string

	rounds int
	// good counts the pages that were read; first and latest are their times.
	good          int
	first, latest time.Time
	page          collector.PageInfo
	redirected    bool
	sampled       bool
	// resetAt is when counters last began again; reset twice says that they did
	// so twice in less time than a server needs to start.
	resetAt    time.Time
	resetTwice bool
	// onPage holds the sums of the counters on the last page.
	onPage map[pageTotal]float64
	// moments holds for each engine what each page told of it.
	moments     map[string][]moment
	badUsage    bool
	inFlight    []float64
	queued      float64
	config      map[string]labels.Labels // cache_config_info by engine
	deployments map[string]*deployment
}

// pageTotal is one counter of one engine, or of the gateway where that is "".
type pageTotal struct{ engine, name string }

// deployment is what a gateway's page told of one.
type deployment struct {
	state           float64
	hasState        bool
	cooled          counter
	cooledDown      float64
	hasCooled       bool
	cooledWhileSeen float64
}

// NewInspection begins to watch the target at url.
func NewInspection(url string, o InspectOptions) (*Inspection, error) {
	engine, err := New(Options{ScrapeInterval: o.Interval})
	if err != nil {
		return nil, err
	}
	return &Inspection{
		opts: o, engine: engine, url: url, state: collector.StateUnknown, reason: "nothing was read yet",
		onPage: map[pageTotal]float64{}, moments: map[string][]moment{}, config: map[string]labels.Labels{}, deployments: map[string]*deployment{},
	}, nil
}

// SetVersion notes what the server says of itself, where no round carried it;
// empty changes nothing.
func (i *Inspection) SetVersion(version string) {
	if t := i.target(); t != nil {
		t.noteVersion(version, i.latest.UnixMilli())
	}
}

// Observe takes one round and what the page told beside it.
func (i *Inspection) Observe(r *collector.Round, p collector.PageInfo) {
	i.rounds++
	i.state, i.reason = r.State, r.Reason
	if r.Target.Source != "" {
		i.source = r.Target.Source
	}
	i.redirected = i.redirected || p.Redirected
	before := collector.PageInfo{}
	if r.State == collector.StateUp {
		before, i.page = i.page, p
		i.sampled = i.sampled || p.Sampled || r.Sampled
		i.good++
		if i.good == 1 {
			i.first = r.Time
		}
		i.latest = r.Time
	}
	i.engine.Observe(i.withLimit(r))
	if r.State == collector.StateUp {
		i.note(r, i.good > 1 && before.ProcessStart != p.ProcessStart)
	}
}

// withLimit gives the round's target the limit of requests in flight, as a
// configuration would.
func (i *Inspection) withLimit(r *collector.Round) *collector.Round {
	if i.opts.MaxInFlight <= 0 {
		return r
	}
	target, round := *r.Target, *r
	target.Gateway.Workers, target.Gateway.MaxInFlightPerWorker = 1, i.opts.MaxInFlight
	round.Target = &target
	return &round
}

// target is the one target of the engine; nil before the first round.
func (i *Inspection) target() *target {
	for _, t := range i.engine.sortedTargets() {
		return t
	}
	return nil
}

// note keeps what the windows of a page do not: every page's gauges for as long
// as is watched, and what is told per deployment.
func (i *Inspection) note(r *collector.Round, restarted bool) {
	t := i.target()
	for _, u := range t.units {
		if u.engine == "" {
			w := GatewayWindow{i.window(u)}
			if v, _, ok := w.inFlight(); ok {
				i.inFlight = append(i.inFlight, v)
			}
			continue
		}
		m := i.moment(u)
		i.moments[u.engine] = append(i.moments[u.engine], m)
	}
	i.noteResets(t, r.Time)
	clear(i.onPage)
	p := pageContext{at: r.Time.UnixMilli(), healthy: i.good > 1, restarted: restarted, partial: true}
	for _, s := range r.Samples {
		i.noteSample(s, p)
	}
}

// noteResets sees several servers behind one address where no page tells when its
// process began: their counters go up and down.
func (i *Inspection) noteResets(t *target, now time.Time) {
	again := slices.ContainsFunc(t.units, func(u *unit) bool { return u.resetAt == now.UnixMilli() })
	if !again || i.page.ProcessStart > 0 {
		return
	}
	i.resetTwice = i.resetTwice || !i.resetAt.IsZero() && now.Sub(i.resetAt) < startsIn
	i.resetAt = now
}

func (i *Inspection) window(u *unit) unitWindow {
	return unitWindow{now: i.latest, ms: i.latest.UnixMilli(), fresh: i.engine.fresh, unit: u}
}

// moment reads the gauges of the last page.
func (i *Inspection) moment(u *unit) moment {
	w := i.window(u)
	read := func(g gauge) float64 {
		if v, ok := w.Gauge(g); ok && v >= 0 {
			return v
		}
		return math.NaN()
	}
	m := moment{running: read(gaugeRunning), waiting: read(gaugeWaiting), capacity: read(gaugeWaitingCapacity), usage: math.NaN()}
	if v, ok := w.Gauge(gaugeUsage); ok {
		if v >= 0 && v <= 1 {
			m.usage = v
		} else {
			i.badUsage = true
		}
	}
	return m
}

func (i *Inspection) noteSample(s collector.Sample, p pageContext) {
	ls := s.Series.Labels
	name := ls.Get(model.MetricNameLabel)
	if _, ok := totalOf(name); ok && finite(s.Value) {
		i.onPage[pageTotal{ls.Get("engine"), name}] += s.Value
	}
	switch name {
	case collector.VLLMCacheConfig:
		i.config[ls.Get("engine")] = ls
	case collector.LiteLLMQueued:
		i.queued = max(i.queued, s.Value)
	case collector.LiteLLMDeployState:
		if d := i.deployment(ls); d != nil {
			d.state, d.hasState = s.Value, true
		}
	case collector.LiteLLMCooledDown:
		if d := i.deployment(ls); d != nil {
			increase, _, _ := d.cooled.step(s.Value, p)
			d.cooledDown, d.hasCooled = s.Value, true
			d.cooledWhileSeen += increase
		}
	}
}

// deployment finds the one that a series is of; nil for what LiteLLM counts
// without one.
func (i *Inspection) deployment(ls labels.Labels) *deployment {
	id := ls.Get("model_id")
	if id == "" || strings.EqualFold(id, "none") {
		return nil
	}
	d := i.deployments[id]
	if d == nil {
		d = &deployment{}
		i.deployments[id] = d
	}
	return d
}

// Report says what was found. It may be asked for at any time.
func (i *Inspection) Report() TargetReport {
	r := TargetReport{
		URL: i.url, Source: i.source, State: i.state, Reason: i.reason,
		Watched: i.watched(), Engines: []EngineReport{}, Cannot: []Cannot{}, Quirks: []string{},
	}
	if t := i.target(); t != nil {
		r.Version = t.version
	}
	if i.good > 0 {
		i.readInto(&r)
	}
	r.Bottleneck = i.bottleneck()
	if n := written(i.requests()); n != nil {
		r.Watched.Requests = *n
	}
	r.Quirks = append(r.Quirks, i.quirks()...)
	return r
}

func (i *Inspection) watched() Watched {
	w := Watched{Scrapes: i.rounds, Pages: i.good}
	if !i.opts.Untimed && i.good > 1 {
		w.Seconds = i.latest.Sub(i.first).Seconds()
	}
	return w
}

// span is the time between the first page and the last; 0 is unknown.
func (i *Inspection) span() time.Duration {
	if i.opts.Untimed {
		return 0
	}
	return i.latest.Sub(i.first)
}

// requests counts what was watched, over all engines or at the gateway; 0 where
// workers take turns, whose counters say nothing together.
func (i *Inspection) requests() float64 {
	n, t := 0.0, i.target()
	if t == nil || i.takesTurns() {
		return 0
	}
	for _, u := range t.units {
		if u.engine == "" {
			n += u.totals[totalRequests].sum
		} else {
			n += requestsWatched(u)
		}
	}
	return n
}

// takesTurns says whether several workers answer, each with counters of its own.
func (i *Inspection) takesTurns() bool {
	t := i.target()
	return i.sampled || i.resetTwice || t != nil && t.turns
}

// requestsWatched counts as unitWindow.Requests does, since the first page.
func requestsWatched(u *unit) float64 {
	switch {
	case u.hists[histTTFT] != nil:
		return u.hists[histTTFT].count
	case u.hists[histPrompt] != nil:
		return u.hists[histPrompt].count
	default:
		return 0
	}
}

// bottleneck applies the verdict's rule.
func (i *Inspection) bottleneck() Bottleneck {
	if i.state != collector.StateUp {
		return Bottleneck{
			Name: BottleneckUnknown, Confidence: sureness(i.requests()),
			Summary: string(i.state) + ": " + i.reason, Evidence: i.outage(),
		}
	}
	t := i.target()
	if i.source == collector.SourceLiteLLM {
		f := judgeGateway(i.gatewayWatched(t))
		return Bottleneck{Name: f.name, Confidence: sureness(f.requests), Summary: f.summary, Evidence: append(append([]string{}, f.evidence...), i.deploymentEvidence()...)}
	}
	var engines []engineWatched
	for _, u := range t.units {
		if u.engine != "" {
			engines = append(engines, i.engineWatched(u))
		}
	}
	return together(engines)
}

// outage says since when a target that was read before is not any more.
func (i *Inspection) outage() []string {
	if i.good == 0 || i.opts.Untimed {
		return []string{}
	}
	return []string{"the last page was read at " + i.latest.UTC().Format(time.RFC3339)}
}

func (i *Inspection) gatewayWatched(t *target) gatewayWatched {
	w := gatewayWatched{
		pages: i.good, span: i.span(), inFlight: i.inFlight, limit: float64(i.opts.MaxInFlight),
		queued: i.queued, sampled: i.takesTurns(),
	}
	for _, u := range t.units {
		if u.engine != "" {
			continue
		}
		w.requestsKnown = u.has(totalRequests)
		if !w.sampled {
			w.rejected, w.requests, w.failed = u.totals[totalRejected].sum, u.totals[totalRequests].sum, u.totals[totalFailed].sum
		}
	}
	return w
}

func (i *Inspection) engineWatched(u *unit) engineWatched {
	w := engineWatched{
		moments: i.moments[u.engine], pages: i.good, sampled: i.takesTurns(), span: i.span(),
		prefill: math.NaN(), decode: math.NaN(), maxNumSeqs: i.opts.MaxNumSeqs,
	}
	w.capacity, _ = i.window(u).capacity()
	if u.target.engines() > 1 {
		w.name = "engine " + u.engine
	}
	if w.sampled {
		return w
	}
	w.tokens = u.totals[totalPrompt].sum + u.totals[totalGenerated].sum
	w.tokensKnown = u.has(totalPrompt) || u.has(totalGenerated)
	w.preemptions = u.totals[totalPreemptions].sum
	w.requests = requestsWatched(u)
	w.requestsKnown = w.tokensKnown || u.hasHist(histTTFT) || u.hasHist(histPrompt)
	w.cache = i.cacheWatched(u)
	w.prefill, w.decode = workWatched(u)
	return w
}

// workWatched is the time that requests spent before and after their first
// token, without the queue, in seconds; NaN is unknown. The queue's time is told
// when a request ends, the rest as it happens: its mean stands for all, unless
// those that ended came from a longer queue than those that began.
func workWatched(u *unit) (prefill, decode float64) {
	ttft, itl := u.hists[histTTFT], u.hists[histITL]
	if ttft == nil || itl == nil || !possible(ttft) || !possible(itl) {
		return math.NaN(), math.NaN()
	}
	queued, okQueue := meanWatched(u.hists[histQueueTime])
	first, okFirst := meanWatched(ttft)
	ended, okEnded := meanWatched(u.hists[histPrefill])
	switch {
	case !okFirst:
		return 0, itl.sum
	case okQueue && queued <= first:
		return (first - queued) * ttft.count, itl.sum
	case okEnded:
		return ended * ttft.count, itl.sum
	default:
		return math.NaN(), itl.sum
	}
}

// meanWatched is the mean of what a histogram gained.
func meanWatched(h *histogram) (float64, bool) {
	if h == nil || h.count <= 0 || !possible(h) {
		return 0, false
	}
	return h.sum / h.count, true
}

// possible says whether what was watched can be true, see bucketCounts.possible.
func possible(h *histogram) bool { return watchedBuckets(h).possible() }

// watchedBuckets is what a histogram gained since the first page.
func watchedBuckets(h *histogram) bucketCounts {
	b := bucketCounts{sum: h.sum, count: h.count}
	for _, j := range h.sorted {
		b.bounds = append(b.bounds, h.bounds[j])
		b.counts = append(b.counts, h.buckets[j])
	}
	return b
}

// cacheWatched reads the prefix cache from the source that gauges read.
func (i *Inspection) cacheWatched(u *unit) cacheWatched {
	if u.cachingOff {
		return cacheWatched{why: cachingOff}
	}
	now := i.latest.UnixMilli()
	s, ok, trusted := u.windowSource(0, now)
	switch {
	case !ok:
		return cacheWatched{why: noSource(u)}
	case !trusted:
		return cacheWatched{why: untrustedCounters}
	}
	c := cacheWatched{known: true, source: s}
	c.missed, c.prompted = u.missed(s, 0, now)
	life := func(t total) float64 { return u.totals[t].sum + u.totals[t].skipped }
	switch s {
	case sourceCached:
		c.lifePrompted = life(totalPrompt)
		c.lifeMissed = c.lifePrompted - life(totalCached)
	case sourceHistograms:
		prompt, computed := u.hists[histPrompt], u.hists[histComputed]
		c.lifePrompted, c.lifeMissed = prompt.sum+prompt.sumSkipped, computed.sum+computed.sumSkipped
	default:
		c.lifePrompted = life(totalQueries)
		c.lifeMissed = c.lifePrompted - life(totalHits)
	}
	return c
}
