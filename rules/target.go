package rules

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

const (
	// longWindow and shortWindow are the spans that rules ask for; a third one
	// follows their settings, see middleWindow.
	longWindow  = 2 * time.Hour
	shortWindow = 10 * time.Minute
	// startSlack is by how much a machine's clock may differ from ours when a
	// process' start is held against the time of a page.
	startSlack = 60 * time.Second
	// ringSlack is by how many scrapes the rings reach back further than the
	// windows, which rarely begin on a page.
	ringSlack = 4
)

// target is one page that is read, and the windows of what stood on it.
type target struct {
	// mu guards what follows against Observe; Eval holds the engine's lock,
	// which excludes all of Observe.
	mu            sync.Mutex
	job, instance string
	source        string
	gateway       collector.GatewaySettings
	// interval is the time between two scrapes as the collector tells it; 0
	// is the global one.
	interval time.Duration

	state      collector.State
	reason     string
	stateSince time.Time
	// lastScrape and lastGood are Unix milliseconds of the last scrape and of
	// the last page; downAt is that of the last failed scrape, firstBad that
	// of the first since the last page.
	lastScrape, lastGood, downAt, firstBad int64
	// page counts the good pages.
	page int32
	// start is process_start_time_seconds of the last page, 0 when unknown.
	start       float64
	startSeries *collector.Series
	// turns says that the collector saw workers answer in turn on the last page,
	// so that counters cannot be rated.
	turns bool
	// version is what the server last said of itself, release the part of it
	// that is compared; versionAt is when it became another, in Unix
	// milliseconds, 0 when it did not.
	version   string
	release   release
	versionAt int64

	// long, middle and short hold the pages, by how far back windows are asked.
	long, middle, short *ring
	// middleWindow is the span that rules ask of the middle ring.
	middleWindow time.Duration
	units        []*unit
	slots        map[*collector.Series]*slot
	byLabels     map[uint64]*slot      // by hash of the labels
	children     map[uint64]*histChild // by hash of the labels, see childFor
	touched      []*histChild
	// order is what inOrder gives, onPage what a whole histogram has on the page
	// that is read; both are for all histograms.
	order  []int
	onPage histValues
	// prunedAt is when series that are gone were last forgotten, in Unix milliseconds.
	prunedAt int64
	// ignored is the slot of all series that no rule reads, aside that of those
	// which are not the server's own work: process, runtime, scrape.
	ignored, aside *slot
	// pageSum is a checksum of the last page but for those aside, 0 before the
	// first; sameSince is the time of the first page that was like it, in Unix
	// milliseconds.
	pageSum   uint64
	sameSince int64
	outputs   []*output
	watches   []*watch
	// open says that one of its alerts, or of its engines', has something to tell,
	// or that one of their watches is new.
	open bool
	// judgedAt is when outputs and watches were last worked out, judgedScrape
	// the scrape that was the last then, both in Unix milliseconds.
	judgedAt, judgedScrape int64
	// served are the requests that a gateway answered, by the model asked for.
	served map[string]*served
	// refused are the calls for a model that a gateway's deployments answered
	// with 503, by the model asked for.
	refused map[string]*refused
	// backends are the deployments that a gateway tells of, by model_id.
	backends map[string]*backend
}

// slot is where the values of one series go.
type slot struct {
	unit    *unit
	child   *histChild
	counter counter
	// seen is the time of the last page that had the series, in Unix milliseconds.
	seen int64
	// index is the gauge, total, bucket or histogram.
	index int32
	kind  slotKind
	// gateway is what else a gateway's series is counted in, nil for most.
	gateway *gatewaySlot
}

// gatewaySlot is one of these.
type gatewaySlot struct {
	// served counts LiteLLM's requests that were answered with a 2xx by model,
	// limited marks those that were answered with 429.
	served  *served
	limited bool
	backend *backend
	refused *refused
}

type slotKind uint8

const (
	slotIgnored slotKind = iota
	slotGauge
	slotTotal
	slotBucket
	slotSum
	slotCount
	// slotHistogram is a histogram whole, all three of them.
	slotHistogram
	slotStart
	slotBackend
	slotRefused
)

// newTarget makes a target with empty windows, the middle of which is so long.
func newTarget(job, instance string, interval, middleWindow time.Duration) *target {
	t := &target{
		job: job, instance: instance, state: collector.StateUnknown, ignored: &slot{}, aside: &slot{},
		long: newRing(longWindow), middle: newRing(middleWindow), short: newRing(shortWindow), middleWindow: middleWindow,
		slots: map[*collector.Series]*slot{}, byLabels: map[uint64]*slot{}, children: map[uint64]*histChild{},
	}
	t.reach(interval)
	return t
}

// reach lets the rings reach far enough for scrapes that are so far apart.
func (t *target) reach(interval time.Duration) {
	slack := ringSlack * interval
	t.long.reach(longWindow + slack)
	t.middle.reach(t.middleWindow + slack)
	t.short.reach(shortWindow + slack)
}

// observe takes one round.
func (t *target) observe(r *collector.Round) {
	at := r.Time.UnixMilli()
	if at <= t.lastScrape {
		return // not in order of time
	}
	t.lastScrape = at
	t.gateway = r.Target.Gateway
	t.setInterval(r.Target.Interval)
	if r.Target.Source != "" {
		t.source = r.Target.Source
	}
	if t.state != r.State {
		t.state, t.stateSince = r.State, r.Time
	}
	t.reason = r.Reason
	for _, s := range r.Stale {
		delete(t.slots, s)
	}
	if r.State != collector.StateUp {
		if t.downAt <= t.lastGood {
			t.firstBad = at
		}
		t.downAt = at
		return
	}
	t.turns = r.Sampled
	t.noteVersion(r.Version, at)
	t.readPage(at, r)
}

// setInterval takes the time between two scrapes, and lets the rings reach far
// enough for it.
func (t *target) setInterval(d time.Duration) {
	if d == t.interval {
		return
	}
	t.interval = d
	t.reach(d)
}

// intervalOr is the time between two scrapes, where global holds unless the
// target has one of its own.
func (t *target) intervalOr(global time.Duration) time.Duration {
	if t.interval > 0 {
		return t.interval
	}
	return global
}

// freshOr is for how long a page speaks of now, where global holds unless the
// target has an interval of its own.
func (t *target) freshOr(global time.Duration) time.Duration {
	if t.interval > 0 {
		return freshFor(t.interval)
	}
	return global
}

// freshFor is how long a page stays fresh when scrapes are so far apart.
func freshFor(interval time.Duration) time.Duration {
	return max(staleIntervals*interval, leastFresh)
}

// noteVersion takes what the server says of itself; after a restart it may be
// unknown for a while.
func (t *target) noteVersion(version string, at int64) {
	if version == "" || version == t.version {
		return
	}
	if t.version != "" {
		t.versionAt = at
	}
	t.version, t.release = version, parseRelease(version)
}

func (t *target) readPage(at int64, r *collector.Round) {
	p := pageContext{at: at, healthy: t.lastGood > 0 && at-t.lastGood <= gapMax, partial: t.source == collector.SourceLiteLLM}
	t.page++
	var older bool
	p.restarted, older = t.processChanged(r.Samples)
	p.sampled = t.turns || older
	for _, u := range t.units {
		if older {
			u.resetAt = at
		}
	}
	if sum := t.takeAll(r, p); sum != t.pageSum {
		t.pageSum, t.sameSince = sum, at
	}
	for _, c := range t.touched {
		if c.finish(p) == changeReset {
			c.unit.resetAt = at
		}
	}
	t.cover(p)
	t.long.push(at)
	t.middle.push(at)
	t.short.push(at)
	for _, u := range t.units {
		u.noteSleep(at)
		u.store()
	}
	for _, r := range t.refused {
		t.short.put(r.column, r.sum)
	}
	t.lastGood = at
	if at-t.prunedAt >= pruneEvery.Milliseconds() {
		t.prunedAt = at
		t.prune(at - longWindow.Milliseconds())
	}
}

// takeAll puts all of a page where it belongs, and sums up what tells of the
// server's own work.
func (t *target) takeAll(r *collector.Round, p pageContext) uint64 {
	t.touched = t.touched[:0]
	sum := fnvOffset
	for i := range r.Samples {
		if t.take(r.Samples[i], p) {
			sum = addValue(sum, r.Samples[i].Value)
		}
	}
	for i := range r.Histograms {
		h := &r.Histograms[i]
		if !t.takeHistogram(h, p) {
			continue
		}
		for _, v := range h.Buckets {
			sum = addValue(sum, v)
		}
		sum = addValue(addValue(sum, h.Sum), h.Count)
	}
	return sum
}

// The constants of FNV-1a, here over values and not over bytes.
const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)

// addValue adds a value to such a checksum.
func addValue(sum uint64, v float64) uint64 { return (sum ^ math.Float64bits(v)) * fnvPrime }

// take puts one sample where it belongs, and says whether it tells of the
// server's own work.
func (t *target) take(s collector.Sample, p pageContext) (work bool) {
	sl, ok := t.slots[s.Series]
	if !ok {
		sl = t.resolve(s.Series.Labels, false)
		t.slots[s.Series] = sl
		if sl.kind == slotStart {
			t.start, t.startSeries = s.Value, s.Series
		}
	}
	sl.seen = p.at
	work = sl != t.aside && sl.kind != slotStart
	if sl.kind == slotIgnored || !finite(s.Value) {
		return work
	}
	switch sl.kind {
	case slotGauge:
		g := sl.unit.gauge(gauge(sl.index))
		switch {
		case g.page != t.page:
			g.now, g.page = s.Value, t.page
		case gauge(sl.index) == gaugeUsage: // of two models' caches the fuller one counts: shares do not add up
			g.now = max(g.now, s.Value)
		default:
			g.now += s.Value
		}
	case slotTotal:
		t.count(sl, s.Value, p)
	case slotBucket, slotSum, slotCount:
		t.touch(sl.child)
		switch sl.kind {
		case slotBucket:
			sl.child.extend() // it may be new
			sl.child.now.buckets[sl.index] = s.Value
		case slotSum:
			sl.child.now.sum = s.Value
		default:
			sl.child.now.count = s.Value
		}
	case slotRefused:
		increase, _, _ := sl.counter.step(s.Value, p)
		sl.gateway.refused.sum += increase
	case slotBackend:
		sl.gateway.backend.note(s.Value, p.at, t.page)
	case slotStart, slotIgnored, slotHistogram:
	}
	return work
}

// takeHistogram does the same with a whole histogram.
func (t *target) takeHistogram(h *collector.Histogram, p pageContext) (work bool) {
	sl, ok := t.slots[h.Series]
	if !ok {
		sl = t.resolve(h.Series.Labels, true)
		t.slots[h.Series] = sl
	}
	sl.seen = p.at
	if sl.kind != slotHistogram {
		return sl != t.aside
	}
	c := sl.child
	c.fit(hist(sl.index), h.Bounds)
	if c.page == t.page || !finite(h.Sum) && !finite(h.Count) && !slices.ContainsFunc(h.Buckets, finite) {
		return true
	}
	c.now = &t.onPage
	c.begin(t.page)
	c.read(h)
	if c.finish(p) == changeReset {
		c.unit.resetAt = p.at
	}
	c.now = nil
	return true
}

// finite says whether a value can be counted with.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func (t *target) count(sl *slot, v float64, p pageContext) {
	increase, skipped, what := sl.counter.step(v, p)
	w := sl.unit.total(total(sl.index))
	w.sum += increase
	w.skipped += skipped
	w.page = t.page
	if what == changeReset {
		sl.unit.resetAt = p.at
	}
	if g := sl.gateway; g != nil {
		g.count(sl.unit, increase, p.at)
	}
}

// count counts what a series of a gateway's requests gained.
func (g *gatewaySlot) count(u *unit, increase float64, at int64) {
	if g.served != nil {
		u.add(totalRequestsOK, increase)
		g.served.add(at, increase)
	}
	if g.limited {
		u.add(totalLimited, increase)
	}
}

// touch begins a child's page.
func (t *target) touch(c *histChild) {
	if c.page == t.page {
		return
	}
	c.begin(t.page)
	t.touched = append(t.touched, c)
}

// cover adds the time since the page before, and the usage over it.
func (t *target) cover(p pageContext) {
	dt := 0.0
	if p.healthy {
		dt = float64(p.at-t.lastGood) / 1000
	}
	for _, u := range t.units {
		u.addTime(totalCovered, dt)
		if g := &u.gauges[gaugeUsage]; g.column.number != 0 && g.page == t.page {
			u.addTime(totalUsage, min(max(g.now, 0), 1)*dt)
		} else if dt > 0 {
			u.addTime(totalUsageUnknown, dt)
		}
	}
}

// processChanged says whether another process answers than on the page before:
// one that was started since, or an older one, as after a rolling replacement
// behind one address, or where the machine's clock is wrong. What an older one
// counted before this page is not known, so that nothing is added on it.
func (t *target) processChanged(samples []collector.Sample) (restarted, older bool) {
	last, start := t.start, t.startOn(samples)
	if start > 0 {
		t.start = start
	}
	if last == 0 || start == 0 || math.Abs(start-last) < 1 {
		return false, false
	}
	older = start < last || int64(start*1000) < t.lastGood-startSlack.Milliseconds()
	return !older, older
}

// startOn finds the process' start on a page, 0 where it is not exposed. The
// first time nothing is compared with it, so take may find it as well.
func (t *target) startOn(samples []collector.Sample) float64 {
	if t.startSeries == nil {
		return 0
	}
	for i := range samples {
		if samples[i].Series == t.startSeries {
			return samples[i].Value
		}
	}
	for i := range samples {
		if samples[i].Series.Labels.Get(model.MetricNameLabel) == collector.ProcessStart {
			return samples[i].Value
		}
	}
	return 0
}

// resolve finds the place of a series by its labels; a series that comes back
// goes on where it was. whole says that it is that of a whole histogram.
func (t *target) resolve(ls labels.Labels, whole bool) *slot {
	key := ls.Hash()
	if sl, ok := t.byLabels[key]; ok {
		if ls.Get(model.MetricNameLabel) == collector.VLLMCacheConfig {
			sl.unit.readConfig(ls)
		}
		return sl
	}
	sl := t.newSlot(ls, whole)
	if sl.kind != slotIgnored || sl.unit != nil {
		t.byLabels[key] = sl
	}
	return sl
}

func (t *target) newSlot(ls labels.Labels, whole bool) *slot {
	name := ls.Get(model.MetricNameLabel)
	switch {
	case name == collector.ProcessStart:
		return &slot{kind: slotStart}
	case strings.HasPrefix(name, "litellm_"):
		return t.unitSlot(t.unitFor("", ""), name, ls, whole)
	case strings.HasPrefix(name, "vllm:"):
		engine := ls.Get("engine")
		if engine == "" {
			engine = "0"
		}
		u := t.unitFor(engine, ls.Get("model_name"))
		if name == collector.VLLMCacheConfig {
			u.readConfig(ls)
			return &slot{unit: u}
		}
		return t.unitSlot(u, name, ls, whole)
	default:
		return t.aside
	}
}

// unitSlot is the place of a series of an engine or a gateway.
func (t *target) unitSlot(u *unit, name string, ls labels.Labels, whole bool) *slot {
	if !whole {
		return t.seriesSlot(u, name, ls)
	}
	h, ok := histNamed(name)
	if !ok {
		return t.ignored
	}
	return &slot{unit: u, kind: slotHistogram, index: int32(h), child: t.childFor(u, h, ls)}
}

func (t *target) seriesSlot(u *unit, name string, ls labels.Labels) *slot {
	if g, ok := gaugeOf(name, ls.Get("reason")+ls.Get("sleep_state")); ok {
		return &slot{unit: u, kind: slotGauge, index: int32(g)}
	}
	if name == collector.LiteLLMDeployState {
		return &slot{unit: u, kind: slotBackend, gateway: &gatewaySlot{backend: t.backendFor(ls.Get(labelModelID))}}
	}
	if name == collector.LiteLLMDeploySuccess || name == collector.LiteLLMDeployFailure {
		t.backendFor(ls.Get(labelModelID)).serves(ls.Get(labelRequestedModel))
	}
	if name == collector.LiteLLMDeployFailure && ls.Get("exception_status") == "503" {
		return &slot{unit: u, kind: slotRefused, gateway: &gatewaySlot{refused: t.refusedFor(ls.Get(labelRequestedModel))}}
	}
	if c, ok := totalOf(name); ok {
		sl := &slot{unit: u, kind: slotTotal, index: int32(c)}
		if c == totalRequests {
			sl.gateway = t.requestsSlot(ls)
		}
		return sl
	}
	h, part, ok := histOf(name)
	if !ok {
		return t.ignored
	}
	sl := &slot{unit: u, child: t.childFor(u, h, ls)}
	switch part {
	case collector.SumSuffix:
		sl.kind = slotSum
	case collector.CountSuffix:
		sl.kind = slotCount
	default:
		le, err := strconv.ParseFloat(ls.Get(labels.BucketLabel), 64)
		if err != nil {
			return t.ignored
		}
		i := u.hist(h).bound(le)
		sl.kind, sl.index = slotBucket, int32(i)
		sl.child.room(i)
	}
	return sl
}

// requestsSlot is what a gateway's requests are counted in by how they were answered.
func (t *target) requestsSlot(ls labels.Labels) *gatewaySlot {
	switch status := ls.Get("status_code"); {
	case strings.HasPrefix(status, "2"):
		return &gatewaySlot{served: t.servedFor(ls.Get(labelRequestedModel))}
	case status == "429":
		return &gatewaySlot{limited: true}
	default:
		return nil
	}
}

// childFor finds the histogram that a series is part of by all of its labels
// but name and le.
func (t *target) childFor(u *unit, h hist, ls labels.Labels) *histChild {
	key, _ := ls.HashWithoutLabels(nil, labels.BucketLabel) // and without the name
	key = key*fnvPrime + uint64(h)
	c, ok := t.children[key]
	if !ok {
		c = &histChild{unit: u, family: u.hist(h)}
		t.children[key] = c
	}
	return c
}

// unitFor finds or makes the engine, or the gateway where engine is "".
func (t *target) unitFor(engine, modelName string) *unit {
	for _, u := range t.units {
		if u.engine == engine {
			if modelName != "" && u.modelName != modelName {
				u.modelName = modelName
			}
			return u
		}
	}
	u := &unit{target: t, engine: engine, modelName: modelName}
	t.units = append(t.units, u)
	return u
}

// subject holds the labels of the target's series, and of those of a gateway.
func (t *target) subject() labels.Labels {
	return labels.FromStrings("job", t.job, "instance", t.instance)
}

// pool is the pool of the target's first engine that has one, nil where none has.
func (t *target) pool() *pool {
	for _, u := range t.units {
		if u.pool != nil {
			return u.pool
		}
	}
	return nil
}

// poolName is that pool's name, "" where there is none.
func (t *target) poolName() string {
	if p := t.pool(); p != nil {
		return p.name
	}
	return ""
}

// engines counts the engines on the page.
func (t *target) engines() int {
	n := 0
	for _, u := range t.units {
		if u.engine != "" {
			n++
		}
	}
	return n
}
