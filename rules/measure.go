package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/rules/sizing"
)

const (
	// measurePage is how far apart the pages are that are read of a target: counters
	// lose nothing by it, and gauges are read often enough.
	measurePage = time.Minute
	// measureChunk is how much history is read at once, some 3 MB of a target, of
	// measureTargets targets or fewer.
	measureChunk   = 6 * time.Hour
	measureTargets = 32
	// measureWarm is how long before the first slot pages are read, so that its
	// counters have something to grow from.
	measureWarm = 2 * measurePage
	// measureSettle is how long after a slot's end it is read: what was scraped
	// until then is stored.
	measureSettle = 30 * time.Second
)

// Measurer tells from history what pools did, five minutes at a time. It keeps
// what it has read, so that each later Read goes over the time since only. It is
// not safe for concurrent use.
type Measurer struct {
	window time.Duration
	// engine holds the counters of what was read; it judges nothing.
	engine *Engine
	// upTo is the end of the last slot that was read.
	upTo  time.Time
	slots map[string][]sizing.Slot
	// last are the buckets of histograms at the end of the last slot, gauges what
	// pages of the slot under way showed.
	last   map[*histogram]histValues
	bounds map[*histogram][]float64
	gauges map[*unit]*gaugeMeans
	// sums are the last values of the counters of sessions, by series.
	sums map[string]counter
	// observed is when a target's page was taken last, where Observe is given them;
	// quiet are the sessions that went quiet in the slot under way, and quietBefore
	// all of them until then, by pool.
	observed    map[*target]time.Time
	quiet       map[slotOf]quiet
	quietBefore map[string]quiet
}

// gaugeMeans adds up what the pages of a slot show.
type gaugeMeans struct {
	pages, busy, queued, running, waiting, usage, inFlight float64
}

// NewMeasurer makes one that keeps so much; pools are those of the configuration.
func NewMeasurer(pools []PoolConfig, window time.Duration) (*Measurer, error) {
	e, err := New(Options{Pools: pools, AlertsOnly: true, ScrapeInterval: measurePage})
	if err != nil {
		return nil, err
	}
	return &Measurer{
		window: window, engine: e, slots: map[string][]sizing.Slot{},
		last: map[*histogram]histValues{}, bounds: map[*histogram][]float64{}, gauges: map[*unit]*gaugeMeans{}, sums: map[string]counter{},
		observed: map[*target]time.Time{}, quiet: map[slotOf]quiet{}, quietBefore: map[string]quiet{},
	}, nil
}

// Window is how far back it tells.
func (m *Measurer) Window() time.Duration { return m.window }

// Slots are what is known of a pool, in order of time. They are valid until the
// next Read.
func (m *Measurer) Slots(pool string) []sizing.Slot { return m.slots[pool] }

// Pools are the names of the pools of which something is known, sorted.
func (m *Measurer) Pools() []string {
	var names []string
	for name, slots := range m.slots {
		if len(slots) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Read reads what history has gained, six hours at a time, up to the last slot that is
// over at now. Where it fails, the next Read goes on from there.
func (m *Measurer) Read(ctx context.Context, now time.Time, scan ScanFunc) error {
	to := now.Add(-measureSettle).Truncate(sizing.SlotLength)
	first := to.Add(-m.window)
	if m.upTo.Before(first) { // at the start, or after a long pause
		if err := m.observe(ctx, first.Add(-measureWarm), first, scan); err != nil {
			return err
		}
		m.turn()
		m.upTo = first
	}
	for m.upTo.Before(to) {
		end := m.nextChunk()
		if end.After(to) {
			end = to
		}
		if err := m.chunk(ctx, m.upTo, end, scan); err != nil {
			return err
		}
		m.upTo = end
	}
	for name, slots := range m.slots {
		old, _ := slices.BinarySearchFunc(slots, first, func(s sizing.Slot, t time.Time) int { return s.Start.Compare(t) })
		m.slots[name] = slices.Delete(slots, 0, old)
	}
	return nil
}

// nextChunk is the end of what is read next. Of a large fleet it is less: all of
// it is in memory at once.
func (m *Measurer) nextChunk() time.Time {
	long := measureChunk * measureTargets / time.Duration(max(len(m.engine.targets), measureTargets))
	long = max(long.Truncate(sizing.SlotLength), sizing.SlotLength)
	return m.upTo.Add(long).Truncate(long)
}

// observe takes pages without measuring between them.
func (m *Measurer) observe(ctx context.Context, from, to time.Time, scan ScanFunc) error {
	rounds, err := m.rounds(ctx, from, to, scan)
	for _, r := range rounds {
		m.take(r)
	}
	return err
}

// chunk measures the slots between two times.
func (m *Measurer) chunk(ctx context.Context, from, to time.Time, scan ScanFunc) error {
	rounds, err := m.rounds(ctx, from, to, scan)
	if err != nil {
		return err
	}
	sessions, err := m.sessions(ctx, from, to, scan)
	if err != nil {
		return err
	}
	for end := from.Truncate(sizing.SlotLength).Add(sizing.SlotLength); !end.After(to); end = end.Add(sizing.SlotLength) {
		for len(rounds) > 0 && !rounds[0].round.Time.After(end) {
			m.take(rounds[0])
			rounds = rounds[1:]
		}
		m.measure(end, sessions)
	}
	return ctx.Err()
}

// measuredRound is a page of a target.
type measuredRound struct {
	target *target
	round  *collector.Round
}

// rounds reads the pages after from, up to to, in order of time.
func (m *Measurer) rounds(ctx context.Context, from, to time.Time, scan ScanFunc) ([]measuredRound, error) {
	from, to = from.Add(time.Millisecond), to.Add(time.Millisecond) // a scan includes its beginning and not its end
	for _, t := range m.engine.targets {
		clear(t.slots) // series are found by their labels: each chunk brings others
	}
	replays, err := scanUp(ctx, from, to, scan)
	if err != nil {
		return nil, fmt.Errorf("reading which targets history knows: %w", err)
	}
	matchName := labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(Reads(), "|"))
	var all []measuredRound
	var errs []error
	for _, r := range replays {
		m.thin(r)
		r.begin(nil) // all are needed at once
		matchers := []*labels.Matcher{equal("job", r.target.Labels.Get("job")), equal("instance", r.target.Labels.Get("instance")), matchName}
		if err := scan(ctx, from, to, matchers, r.series()); err != nil {
			errs = append(errs, fmt.Errorf("reading the history of %s: %w", r.target.Labels.Get("instance"), err))
			continue
		}
		t := m.engine.addTarget(r.target)
		delete(m.engine.byPointer, r.target)
		for i := range r.rounds {
			all = append(all, measuredRound{target: t, round: &r.rounds[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b measuredRound) int { return a.round.Time.Compare(b.round.Time) })
	return all, errors.Join(errs...)
}

// thin leaves one page a minute.
func (m *Measurer) thin(r *replay) {
	next := int64(math.MinInt64)
	r.ups = slices.DeleteFunc(r.ups, func(p history.Point) bool {
		if p.T < next {
			return true
		}
		next = p.T + (measurePage - measurePage/8).Milliseconds()
		return false
	})
}

// take observes one page and notes its gauges.
func (m *Measurer) take(r measuredRound) {
	t := r.target
	t.observe(r.round)
	if r.round.State != collector.StateUp {
		return
	}
	for _, u := range t.units {
		g := m.gauges[u]
		if g == nil {
			g = &gaugeMeans{}
			m.gauges[u] = g
		}
		value := func(of gauge) float64 {
			if w := u.gauges[of]; w.column.number != 0 && w.page == t.page {
				return w.now
			}
			return 0
		}
		g.pages++
		g.running += value(gaugeRunning)
		if value(gaugeRunning) > 0 {
			g.busy++
		}
		g.waiting += value(gaugeWaiting)
		if value(gaugeWaiting) > 0 {
			g.queued++
		}
		g.usage += value(gaugeUsage)
		g.inFlight += value(gaugeInFlight)
	}
}

// measure closes the slot that ends now.
func (m *Measurer) measure(end time.Time, sessions map[slotOf]quiet) {
	n := m.engine.instant(end)
	m.engine.expire(n)
	m.engine.assign(n)
	start := end.Add(-sizing.SlotLength)
	for _, p := range m.engine.sortedPools() {
		s := sizing.Slot{Start: start}
		for _, u := range p.members {
			m.add(&s, n.unit(u))
		}
		if s.Engines == 0 {
			continue // nothing is known: no slot, and not one of zeros
		}
		if len(m.engine.pools) == 1 { // else it is not known whose calls gateways hold
			m.addGateways(&s, n)
		}
		if q, ok := sessions[slotOf{p.name, start.Unix()}]; ok {
			s.Sessions, s.SessionCalls = q.sessions, q.calls
		}
		m.slots[p.name] = append(m.slots[p.name], s)
	}
	m.turn()
}

// turn begins the next slot.
func (m *Measurer) turn() {
	clear(m.gauges)
	alive := map[*histogram]bool{}
	for _, t := range m.engine.targets {
		for _, u := range t.units {
			for _, h := range u.hists {
				if h == nil {
					continue
				}
				alive[h] = true
				last := m.last[h]
				last.buckets = append(last.buckets[:0], h.buckets...)
				last.sum, last.count = h.sum, h.count
				m.last[h] = last
			}
		}
	}
	for h := range m.last {
		if !alive[h] {
			delete(m.last, h)
			delete(m.bounds, h)
		}
	}
}

// add adds what an engine did in the slot that ends now.
func (m *Measurer) add(s *sizing.Slot, w unitWindow) {
	u, g := w.unit, m.gauges[w.unit]
	covered := w.Increase(totalCovered, sizing.SlotLength)
	if g == nil || covered <= 0 || w.sampled() {
		return
	}
	s.Engines++
	s.EngineSeconds += covered
	s.BusySeconds += covered * g.busy / g.pages
	s.QueuedSeconds += covered * g.queued / g.pages
	s.RunningSeconds += covered * g.running / g.pages
	plus(&s.Running, g.running/g.pages)
	plus(&s.Waiting, g.waiting/g.pages)
	if capacity, ok := (EngineWindow{unitWindow: w}).capacity(); ok {
		plus(&s.Capacity, capacity)
		plus(&s.KVTokens, capacity*min(g.usage/g.pages, 1))
	}
	s.Requests += w.countRequests(sizing.SlotLength)
	s.Output += w.Increase(totalGenerated, sizing.SlotLength)
	from := w.ms - sizing.SlotLength.Milliseconds()
	if source, ok, trusted := u.windowSource(from, w.ms); ok && trusted {
		missed, prompted := u.missed(source, from, w.ms)
		s.Missed += max(missed, 0)
		s.Prompted += prompted
	}
	s.PrefillSeconds += max(w.HistSum(histTTFT, sizing.SlotLength)-w.HistSum(histQueueTime, sizing.SlotLength), 0)
	s.WaitSeconds += w.HistSum(histQueueTime, sizing.SlotLength)
	s.Waited += w.HistCount(histQueueTime, sizing.SlotLength)
	s.PromptTokens.Add(m.gained(u.hists[histPrompt]))
	s.OutputTokens.Add(m.gained(u.hists[histGenerated]))
	s.TTFT.Add(m.gained(u.hists[histTTFT]))
	s.ITL.Add(m.gained(u.hists[histITL]))
	if tpot := u.hists[histTPOT]; tpot != nil {
		s.TPOT.Add(m.gained(tpot))
	} else {
		s.TPOT.Add(m.gained(u.hists[histITL]))
	}
}

// addGateways adds what the gateways held.
func (m *Measurer) addGateways(s *sizing.Slot, n instant) {
	for _, t := range m.engine.sortedTargets() {
		for _, u := range t.units {
			w := n.unit(u)
			if u.engine != "" || w.sampled() {
				continue
			}
			if g := m.gauges[u]; g != nil && u.gauges[gaugeInFlight].column.number != 0 {
				plus(&s.InFlight, g.inFlight/g.pages)
			}
			if b := m.gained(u.hists[histOverhead]); overheadUnit(bucketCounts{sum: b.Sum, count: b.Count}) != millisecond {
				s.Overhead.Add(b)
			}
		}
	}
}

// gained is what a histogram gained since the last slot.
func (m *Measurer) gained(h *histogram) sizing.Histogram {
	if h == nil {
		return sizing.Histogram{}
	}
	last := m.last[h]
	g := sizing.Histogram{Sum: h.sum - last.sum, Count: h.count - last.count}
	bounds := m.bounds[h]
	if len(bounds) != len(h.sorted) {
		bounds = nil
		for _, i := range h.sorted {
			bounds = append(bounds, h.bounds[i])
		}
		m.bounds[h] = bounds
	}
	g.Bounds = bounds
	below := 0.0
	for _, i := range h.sorted {
		c := h.buckets[i]
		if i < len(last.buckets) {
			c -= last.buckets[i]
		}
		g.Counts = append(g.Counts, max(c-below, 0))
		below = max(below, c)
	}
	return g
}

// plus adds to a number that may not be known yet.
func plus(to **float64, v float64) {
	if *to != nil {
		v += **to
	}
	*to = &v
}

// slotOf names a slot of a pool, quiet is what its sessions were that ended.
type slotOf struct {
	pool  string
	start int64
}

type quiet struct{ sessions, calls float64 }

// sessionCalls is the summary whose count and sum the rules derive from logs.
const sessionCalls = "kvwatch_pool_session_calls"

// sessions reads how many sessions went quiet in each slot, and their calls.
func (m *Measurer) sessions(ctx context.Context, from, to time.Time, scan ScanFunc) (map[slotOf]quiet, error) {
	found := map[slotOf]quiet{}
	matcher := labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, sessionCalls+collector.SumSuffix+"|"+sessionCalls+collector.CountSuffix)
	err := scan(ctx, from.Add(time.Millisecond), to.Add(time.Millisecond), []*labels.Matcher{matcher}, func(ls labels.Labels, points []history.Point) error {
		key, isSum := ls.String(), strings.HasSuffix(ls.Get(model.MetricNameLabel), collector.SumSuffix)
		last := m.sums[key]
		for _, p := range points {
			if p.IsStale() {
				continue
			}
			more, _, _ := last.step(p.V, pageContext{at: p.T})
			at := slotOf{ls.Get("pool"), time.UnixMilli(p.T - 1).Truncate(sizing.SlotLength).Unix()}
			q := found[at]
			if isSum {
				q.calls += more
			} else {
				q.sessions += more
			}
			found[at] = q
		}
		m.sums[key] = last
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the history of sessions: %w", err)
	}
	return found, nil
}
