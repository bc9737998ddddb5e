package rules

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The names of a bottleneck, as DESIGN section 11 has them.
const (
	BottleneckNone        = "none"
	BottleneckPrefixCache = "prefix_cache"
	BottleneckKV          = "kv"
	BottleneckSlots       = "slots"
	BottleneckPrefill     = "prefill"
	BottleneckDecode      = "decode"
	BottleneckGateway     = "gateway"
	BottleneckStalled     = "stalled"
	BottleneckUnknown     = "unknown"
)

// Bottleneck is what binds a target, as far as what was watched can tell.
type Bottleneck struct {
	// Name is one of the Bottleneck names.
	Name string `json:"name" jsonschema:"enum=none,enum=prefix_cache,enum=kv,enum=slots,enum=prefill,enum=decode,enum=gateway,enum=stalled,enum=unknown"`
	// Confidence goes by the requests that were watched: low under 20, high over 100.
	Confidence string `json:"confidence" jsonschema:"enum=low,enum=medium,enum=high"`
	// Summary is one sentence for a person, with what to do where that is known.
	Summary string `json:"summary"`
	// Evidence holds sentences with numbers and units, what weighs most first.
	Evidence []string `json:"evidence"`
}

const (
	// kvFull is the usage over which blocks are what is short.
	kvFull = 0.9
	// missHigh is the miss ratio that is a finding by itself; missTimes and
	// missAbove say by how much the watched one must exceed the lifetime's.
	missHigh, missTimes, missAbove = 0.5, 2.0, 0.10
	// prefillBound is the share of the time that prefill takes when it binds
	// (DETECTORS D4).
	prefillBound = 0.5
	// gatewayFull is the share of a gateway's cap in flight that is too much.
	gatewayFull = 0.8
	// flatShare and flatScrapes say what a flat top is: so many of the scrapes
	// with a queue, and at least that many, at the same number of running requests.
	flatShare, flatScrapes = 0.8, 3
	// stallSpan is how long no token must move until that is a stall: shorter
	// than this, one long prefill looks the same.
	stallSpan = 2 * time.Second
	// fewRequests and manyRequests bound the confidence.
	fewRequests, manyRequests = 20, 100
)

// moment is what one page told of an engine; NaN is unknown.
type moment struct {
	running, waiting, capacity, usage float64
}

// queued is what waits for room: requests that wait for something else (a
// grammar, a remote cache) are left out where the page tells them apart.
func (m moment) queued() float64 {
	if !math.IsNaN(m.capacity) {
		return m.capacity
	}
	return m.waiting
}

// busy says that requests run or wait.
func (m moment) busy() bool { return m.running > 0 || m.waiting > 0 }

// cacheWatched is what was prompted and missed.
type cacheWatched struct {
	// known says that the page tells it; why says why not.
	known bool
	why   string
	// missed and prompted are tokens while watched; lifeMissed and lifePrompted
	// since the process began.
	missed, prompted, lifeMissed, lifePrompted float64
	source                                     cacheSource
}

// engineWatched is all that the verdict on one engine rests on: what was
// watched, never lifetime totals but to compare the miss ratio with.
type engineWatched struct {
	// name says which engine of the page it is; empty where there is one.
	name    string
	moments []moment
	// pages counts the good pages of the target; the first may lack the engine.
	pages int
	// sampled says that each page is one of several servers': gauges are true of
	// one of them, and counters say nothing.
	sampled bool
	// span is the time between the first page and the last; 0 is unknown.
	span time.Duration
	// tokens were prompted or generated; tokensKnown says that the page tells.
	tokens      float64
	tokensKnown bool
	preemptions float64
	// requests got their first token.
	requests      float64
	requestsKnown bool
	cache         cacheWatched
	// prefill and decode are seconds of requests' time before and after their
	// first token, without the queue; NaN where unknown.
	prefill, decode float64
	// maxNumSeqs is the engine's --max-num-seqs; 0 is unknown.
	maxNumSeqs int
	// capacity is the KV cache in tokens; 0 is unknown.
	capacity float64
}

// finding is a verdict on one engine or gateway.
type finding struct {
	name, summary string
	evidence      []string
	requests      float64
	// traffic says that something was seen to be served, few that too few
	// requests were seen to judge.
	traffic, few bool
}

// urgency orders findings of several engines: the first of these wins.
func urgency(name string) int {
	return slices.Index([]string{
		BottleneckStalled, BottleneckKV, BottleneckSlots, BottleneckPrefixCache, BottleneckPrefill,
		BottleneckDecode, BottleneckGateway, BottleneckUnknown, BottleneckNone,
	}, name)
}

// judgeEngine follows DESIGN section 11: the first that holds.
func judgeEngine(w engineWatched) finding {
	f := finding{requests: w.requests, traffic: w.traffic()}
	switch {
	case w.stalled():
		f.name = BottleneckStalled
		f.summary = "requests run or wait, and no token moved: the engine hangs, one prefill takes longer than was watched, or the gauges froze when requests were aborted"
		f.evidence = []string{fmt.Sprintf("0 tokens prompted or generated over %s", w.over()), w.describeLoad()}
	case w.queue():
		f.name, f.summary, f.evidence = w.judgeQueue()
	default:
		f.name, f.summary, f.evidence = w.judgeQuiet()
		f.few = f.name == BottleneckUnknown && w.pages > 1 && w.requestsKnown && !w.sampled
	}
	return f
}

// stalled says that every page showed requests and no token moved between them.
func (w engineWatched) stalled() bool {
	if len(w.moments) < 2 || w.sampled || !w.tokensKnown || w.tokens > 0 || w.span > 0 && w.span < stallSpan {
		return false
	}
	return !slices.ContainsFunc(w.moments, func(m moment) bool { return !m.busy() })
}

// queue says that requests waited for room in half of the scrapes.
func (w engineWatched) queue() bool {
	n := len(w.queuedMoments())
	return n > 0 && 2*n >= len(w.moments)
}

func (w engineWatched) queuedMoments() []moment {
	var queued []moment
	for _, m := range w.moments {
		if m.queued() > 0 {
			queued = append(queued, m)
		}
	}
	return queued
}

// most says whether f holds in half of the moments.
func most(moments []moment, f func(moment) bool) bool {
	n := 0
	for _, m := range moments {
		if f(m) {
			n++
		}
	}
	return n > 0 && 2*n >= len(moments)
}

func full(m moment) bool { return m.usage > kvFull }

// noRoom says that what is free of the KV cache does not hold a usual prompt: an
// engine admits a request only when the whole of it fits, at whatever usage.
func (w engineWatched) noRoom(m moment) bool {
	prompt, ok := w.usualPrompt()
	return ok && w.capacity > 0 && (1-m.usage)*w.capacity < prompt
}

// usualPrompt is the mean of the prompts that were watched, in tokens.
func (w engineWatched) usualPrompt() (float64, bool) {
	if !w.cache.known || w.requests < minRequests {
		return 0, false
	}
	return w.cache.prompted / w.requests, true
}

// judgeQueue says what a queue is bound by. A cache that misses is named first:
// it makes each request larger, whatever binds in the end.
func (w engineWatched) judgeQueue() (name, summary string, evidence []string) {
	queued := w.queuedMoments()
	switch {
	case w.preemptions > 0 || slices.ContainsFunc(queued, full) || most(queued, w.noRoom):
		name = BottleneckKV
		summary = "requests wait for KV cache: add replicas or KV memory, or send fewer or shorter requests"
	case w.slotsFull(queued):
		name = BottleneckSlots
		summary = "requests wait for a slot of the batch while KV cache is free: raise --max-num-seqs, or add replicas"
	default:
		name, summary = w.judgeWork()
	}
	evidence = []string{
		fmt.Sprintf("requests waited in %d of %d scrapes, at most %.0f", len(queued), len(w.moments), peak(queued, moment.queued)),
		w.describeLoad(),
	}
	if prompt, ok := w.usualPrompt(); ok && slices.ContainsFunc(queued, w.noRoom) {
		evidence = append(evidence, fmt.Sprintf("the free KV cache held less than a usual prompt of %.0f tokens while requests waited", prompt))
	}
	if share, ok := w.prefillShare(); ok {
		evidence = append(evidence, w.describePrefill(share))
	}
	if loss, missing := w.cacheLoss(); missing {
		evidence = slices.Insert(evidence, 0, loss)
		if name == BottleneckPrefill {
			return BottleneckPrefixCache, "the prefix cache misses, and what it misses is prefilled again while requests wait: see what changed in prompts, routing or working set", evidence
		}
		summary += "; the prefix cache misses too, which makes it worse"
	}
	return name, summary, evidence
}

// judgeWork tells a queue behind prefill from one behind decode.
func (w engineWatched) judgeWork() (name, summary string) {
	share, ok := w.prefillShare()
	switch {
	case w.sampled:
		return BottleneckUnknown, "requests wait, and what for cannot be told: " + severalServers
	case !ok && w.pages < 2:
		return BottleneckUnknown, "requests wait, but one page does not tell for what: watch longer, or give a second page"
	case !ok:
		return BottleneckUnknown, "requests wait, and what for cannot be told: no request finished, or the page lacks the latency histograms; watch longer"
	case share > prefillBound:
		return BottleneckPrefill, "requests wait for prefill: shorten prompts, make them hit the prefix cache, or add replicas"
	default:
		return BottleneckDecode, "requests wait while the engine decodes: shorten outputs, or add replicas"
	}
}

// prefillShare is how many prompts were in prefill on average, which is the
// share of the time that an engine spends on them as long as it is below 1.
// Where the time is not known it is the share of the time of requests in service.
func (w engineWatched) prefillShare() (float64, bool) {
	whole := w.span.Seconds()
	if whole <= 0 {
		whole = w.prefill + w.decode
	}
	if math.IsNaN(w.prefill) || math.IsNaN(whole) || whole <= 0 {
		return 0, false
	}
	return w.prefill / whole, true
}

// describePrefill says what prefillShare is.
func (w engineWatched) describePrefill(share float64) string {
	if w.span > 0 {
		return fmt.Sprintf("on average %.2f prompts were in prefill (time to first token without the queue)", share)
	}
	return "prefill took " + percent(share) + " of the time of requests in service"
}

// slotsFull says that the batch is as full as it gets: at max_num_seqs, or, where
// that is not known, at the same number again and again.
func (w engineWatched) slotsFull(queued []moment) bool {
	if w.maxNumSeqs > 0 {
		return most(queued, func(m moment) bool { return m.running >= float64(w.maxNumSeqs) })
	}
	top, n := peak(queued, func(m moment) float64 { return m.running }), 0
	for _, m := range queued {
		if m.running == top {
			n++
		}
	}
	return top > 0 && n >= flatScrapes && float64(n) >= flatShare*float64(len(queued))
}

// severalServers says why nothing can be rated where a balancer stands in front.
const severalServers = "each page is one of several servers', so that nothing can be rated: look at each of them by itself, not at what stands before them"

// judgeQuiet judges an engine at which nobody waits.
func (w engineWatched) judgeQuiet() (name, summary string, evidence []string) {
	loss, missing := w.cacheLoss()
	evidence = w.describe()
	switch {
	case missing:
		return BottleneckPrefixCache, "the prefix cache misses, and nothing waits yet: see what changed in prompts, routing or working set", evidence
	case w.preemptions > 0:
		return BottleneckKV, "requests were preempted for want of KV cache: add replicas or KV memory, or send fewer or shorter requests", evidence
	case most(w.moments, full):
		return BottleneckKV, "the KV cache is nearly full, and nothing waits yet", evidence
	case w.sampled:
		return BottleneckUnknown, severalServers, evidence
	case w.pages < 2:
		return BottleneckUnknown, "one page tells what is, not what goes on: watch a live server, or give a second page", evidence
	case !w.requestsKnown:
		return BottleneckUnknown, "the page does not tell requests or tokens, so that nothing can be judged", evidence
	case w.requests >= minRequests:
		if loss != "" {
			return BottleneckNone, "no clear bottleneck", evidence
		}
		return BottleneckNone, "no clear bottleneck; what the prefix cache does cannot be told", evidence
	case w.traffic():
		return BottleneckUnknown, fmt.Sprintf("only %.0f requests got a first token while it was watched, too few to judge: watch longer (--for)", w.requests), evidence
	default:
		return BottleneckNone, "idle: nothing was asked of it while it was watched", evidence
	}
}

// traffic says that something was seen to be served.
func (w engineWatched) traffic() bool {
	return w.requests > 0 || w.tokens > 0 || slices.ContainsFunc(w.moments, moment.busy)
}

// cacheLoss describes the prefix cache, empty where it cannot be told, and says
// whether it misses more than it should.
func (w engineWatched) cacheLoss() (text string, missing bool) {
	c := w.cache
	if !c.known || c.prompted <= 0 || w.requests < minRequests {
		return "", false
	}
	miss := min(max(c.missed/c.prompted, 0), 1)
	text = fmt.Sprintf("prefix cache missed %s of %.0f prompt tokens (%.0f requests)", percent(miss), c.prompted, w.requests)
	missing = miss > missHigh
	if c.lifePrompted > 0 {
		life := min(max(c.lifeMissed/c.lifePrompted, 0), 1)
		text += ", against " + percent(life) + " since the process began"
		missing = missing || miss > missTimes*life && miss >= life+missAbove
	}
	return text, missing
}

// describe is the evidence of an engine without a queue.
func (w engineWatched) describe() []string {
	var all []string
	if loss, _ := w.cacheLoss(); loss != "" {
		all = append(all, loss)
	}
	if len(w.moments) > 0 {
		all = append(all, w.describeLoad())
	}
	if w.pages > 1 && w.requestsKnown && !w.sampled {
		all = append(all, fmt.Sprintf("%.0f requests got a first token, %.0f tokens were prompted or generated over %s", w.requests, w.tokens, w.over()))
	}
	return all
}

// describeLoad tells running, waiting and usage, as they were at most, and
// preemptions.
func (w engineWatched) describeLoad() string {
	text := fmt.Sprintf("at most %s running, %s waiting, KV usage %s",
		told(peak(w.moments, func(m moment) float64 { return m.running }), amount),
		told(peak(w.moments, func(m moment) float64 { return m.waiting }), amount),
		told(peak(w.moments, func(m moment) float64 { return m.usage }), percent))
	if w.pages > 1 && !w.sampled {
		text += ", " + plural(int(w.preemptions), "preemption")
	}
	return text
}

// told writes a value that may be unknown.
func told(v float64, write func(float64) string) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	return write(v)
}

// over spells the time that was watched.
func (w engineWatched) over() string {
	if w.span <= 0 {
		return "the time between the pages"
	}
	return spell(w.span)
}

// peak is the greatest known value, NaN where there is none.
func peak(moments []moment, f func(moment) float64) float64 {
	top := math.NaN()
	for _, m := range moments {
		if v := f(m); !math.IsNaN(v) && !(v <= top) {
			top = v
		}
	}
	return top
}

// gatewayWatched is all that the verdict on a gateway rests on.
type gatewayWatched struct {
	// pages counts the good pages; span is the time between first and last.
	pages int
	span  time.Duration
	// inFlight holds the requests in flight on each page that told them,
	// without the scrape itself.
	inFlight []float64
	// limit is how many may be in flight; 0 is unknown.
	limit float64
	// rejected are requests that admission control refused; queued is the most
	// that waited for it.
	rejected, queued float64
	// requests were answered or failed; failed only the latter.
	requests, failed float64
	requestsKnown    bool
	// sampled says that each page is one of several workers'.
	sampled bool
}

// judgeGateway follows DESIGN section 11. A gateway is never called well for
// want of anything to read.
func judgeGateway(w gatewayWatched) finding {
	f := finding{requests: w.requests, traffic: w.traffic(), evidence: w.describe()}
	crowded := 0
	for _, v := range w.inFlight {
		if w.limit > 0 && v > gatewayFull*w.limit {
			crowded++
		}
	}
	switch {
	case w.rejected > 0:
		f.name, f.summary = BottleneckGateway, "the gateway refuses requests: add workers, or raise max_in_flight_requests_per_worker if the engines have room"
	case crowded > 0 && 2*crowded >= len(w.inFlight):
		f.name, f.summary = BottleneckGateway, "the gateway is near its limit of requests in flight: add workers"
	case w.sampled:
		f.name, f.summary = BottleneckUnknown, "each page is one of several workers', so that nothing can be rated: give LiteLLM a PROMETHEUS_MULTIPROC_DIR, or scrape each worker and each pod by itself"
	case w.pages < 2:
		f.name, f.summary = BottleneckUnknown, "one page tells what is, not what goes on: watch a live gateway, or give a second page"
	case len(w.inFlight) == 0:
		f.name, f.summary = BottleneckUnknown, "the page does not tell the requests in flight, so that the gateway's load cannot be judged"
	case !f.traffic:
		f.name, f.summary = BottleneckNone, "idle: nothing was asked of it while it was watched"
	case !w.requestsKnown:
		f.name, f.summary = BottleneckUnknown, "requests are in flight, but the page does not count those that were answered"
	case w.requests < minRequests:
		f.name, f.summary = BottleneckUnknown, fmt.Sprintf("only %.0f requests were counted while it was watched, too few to judge: watch longer (--for)", w.requests)
	case w.limit <= 0:
		f.name, f.summary = BottleneckNone, "no clear bottleneck: nothing was refused; how near its limit the gateway is cannot be told without that limit (--max-in-flight)"
	default:
		f.name, f.summary = BottleneckNone, "no clear bottleneck"
	}
	return f
}

func (w gatewayWatched) traffic() bool {
	return w.requests > 0 || slices.ContainsFunc(w.inFlight, func(v float64) bool { return v > 0 })
}

func (w gatewayWatched) describe() []string {
	var all []string
	if len(w.inFlight) > 0 {
		text := fmt.Sprintf("at most %.0f requests in flight", slices.Max(w.inFlight))
		if w.limit > 0 {
			text += fmt.Sprintf(" of %.0f", w.limit)
		}
		all = append(all, text)
	}
	if w.rejected > 0 || w.queued > 0 {
		all = append(all, fmt.Sprintf("%.0f requests refused, at most %.0f queued for admission", w.rejected, w.queued))
	}
	if w.pages > 1 && w.requestsKnown && !w.sampled {
		text := fmt.Sprintf("%.0f requests, of which %.0f failed", w.requests, w.failed)
		if w.span > 0 {
			text += " over " + spell(w.span)
		}
		all = append(all, text)
	}
	return all
}

// together makes one verdict of those on the engines of a page.
func together(engines []engineWatched) Bottleneck {
	if len(engines) == 0 {
		return Bottleneck{
			Name: BottleneckUnknown, Confidence: sureness(0), Evidence: []string{},
			Summary: "the page names no engine yet: it has served nothing since it began",
		}
	}
	var found []finding
	requests, worst := 0.0, 0
	for i, e := range engines {
		f := judgeEngine(e)
		f.nameEngine(e.name)
		found = append(found, f)
		requests += f.requests
		if urgency(f.name) < urgency(found[worst].name) {
			worst = i
		}
	}
	f := found[worst]
	b := Bottleneck{Name: f.name, Confidence: sureness(requests), Summary: f.summary, Evidence: f.evidence}
	if f.quiet() {
		b.Evidence = nil
		for _, f := range found {
			b.Evidence = append(b.Evidence, f.evidence...)
		}
	}
	// Engines that share a page share its traffic.
	if f.few && requests >= minRequests {
		b.Name, b.Summary = BottleneckNone, "no clear bottleneck"
	}
	if b.Evidence == nil {
		b.Evidence = []string{}
	}
	return b
}

// quiet says that nothing was found.
func (f finding) quiet() bool { return f.name == BottleneckUnknown || f.name == BottleneckNone }

// nameEngine says of which engine of a page the finding speaks.
func (f *finding) nameEngine(name string) {
	if name == "" {
		return
	}
	for i, text := range f.evidence {
		f.evidence[i] = name + ": " + text
	}
	if !f.quiet() {
		f.summary = name + ": " + f.summary
	}
}

// sureness goes by the size of the sample.
func sureness(requests float64) string {
	switch {
	case requests < fewRequests:
		return "low"
	case requests > manyRequests:
		return "high"
	default:
		return "medium"
	}
}
