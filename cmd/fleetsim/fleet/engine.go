package fleet

import (
	"cmp"
	"slices"
	"time"
)

// longContext is the context length, in tokens, at which one prompt token
// costs twice as much to compute as at the beginning.
const longContext = 150_000

// Hardware describes one engine: its memory and what a step of it costs.
type Hardware struct {
	// KVBlocks is the number of KV blocks, BlockSize the tokens in one.
	KVBlocks, BlockSize int
	// OffloadBlocks are the blocks of a cache tier outside of that memory. With
	// it, prefixes that no live sequence references lie there and not in the
	// KV memory; 0 is no such tier.
	OffloadBlocks int
	// MaxSeqs is the most sequences in a batch (--max-num-seqs).
	MaxSeqs int
	// StepTokens is the most tokens computed in one step (--max-num-batched-tokens).
	StepTokens int
	// MaxModelLen is the longest sequence in tokens (--max-model-len).
	MaxModelLen int
	// Step is what any step takes; StepPerSeq and StepPerContextToken are added
	// for each sequence that decodes and for each token of their contexts.
	Step, StepPerSeq, StepPerContextToken time.Duration
	// PrefillPerSecond is how many prompt tokens are computed in a second at
	// the beginning of a context; later ones cost (1 + context/150 000) as much.
	PrefillPerSecond float64
}

// defaultHardware is a fast engine of 480 000 KV tokens.
func defaultHardware() Hardware {
	return Hardware{
		KVBlocks: 30_000, BlockSize: 16, MaxSeqs: 64, StepTokens: 8192, MaxModelLen: 131_072,
		Step: 9 * time.Millisecond, StepPerSeq: 150 * time.Microsecond, StepPerContextToken: 10 * time.Nanosecond,
		PrefillPerSecond: 40_000,
	}
}

// withDefaults fills each field that was left at zero.
func (h Hardware) withDefaults(d Hardware) Hardware {
	return Hardware{
		KVBlocks: cmp.Or(h.KVBlocks, d.KVBlocks), BlockSize: cmp.Or(h.BlockSize, d.BlockSize),
		OffloadBlocks: cmp.Or(h.OffloadBlocks, d.OffloadBlocks),
		MaxSeqs:       cmp.Or(h.MaxSeqs, d.MaxSeqs), StepTokens: cmp.Or(h.StepTokens, d.StepTokens),
		MaxModelLen: cmp.Or(h.MaxModelLen, d.MaxModelLen),
		Step:        cmp.Or(h.Step, d.Step), StepPerSeq: cmp.Or(h.StepPerSeq, d.StepPerSeq),
		StepPerContextToken: cmp.Or(h.StepPerContextToken, d.StepPerContextToken),
		PrefillPerSecond:    cmp.Or(h.PrefillPerSecond, d.PrefillPerSecond),
	}
}

// request is one call as an engine sees it.
type request struct {
	prompt prompt
	// outputTokens is how many it will generate, known to the simulator only.
	outputTokens, maxTokens int

	arrived, queued, scheduled, firstToken, lastToken time.Duration

	// cached is what the cache held when it was first scheduled.
	cached    int
	computed  int // tokens whose KV is there
	generated int
	preempted int
	aborted   bool
	lease     lease

	// call is told of the first token and of the end.
	call caller
}

// caller has sent an engine a request.
type caller interface {
	// answering is told that the first token has left, finished that the last
	// one has.
	answering()
	finished()
	// lostBy is told by an engine that went down with the request, released by
	// one that has dropped it because its client is gone.
	lostBy(e *engine)
	released()
}

// target is how many tokens must be computed before the next one is sampled.
func (r *request) target() int { return r.prompt.tokens + r.generated }

func (r *request) decoding() bool { return r.generated > 0 && r.computed >= r.target()-1 }

// engine is one vLLM replica: a waiting queue, first come first served, and a
// batch that advances in steps.
type engine struct {
	fleet   *Fleet
	index   int
	cache   *cache
	waiting []*request
	running []*request
	// partial is the one request whose prefill is under way.
	partial *request
	// chunk is how many of its prompt tokens each request computes in this
	// step, in the order of running.
	chunk []int
	// failed is the look-up of the head of the queue, where the step under way
	// had no memory for it.
	failed failedLookUp
	// finished are those that the step under way has finished.
	finished []*request
	stepping bool
	leap     leap
	down     bool
	// absent says that it was not built yet: nobody scrapes it.
	absent bool
	// turn counts steps and restarts: an event of an earlier one is void.
	turn    uint64
	metrics *engineMetrics
	truth   EngineTruth
}

// failedLookUp is what was looked up, and found, of a request for which there
// was no memory.
type failedLookUp struct {
	tokens, hit int
}

// start gives the engine an empty cache and a fresh page.
func (e *engine) start(cacheEnabled bool) {
	hw := e.fleet.config.Hardware
	e.cache = newCache(hw.KVBlocks, hw.BlockSize)
	e.cache.enabled = cacheEnabled
	e.cache.tier = hw.OffloadBlocks
	e.waiting, e.running, e.partial = nil, nil, nil
	e.stepping, e.down, e.absent = false, false, false
	e.turn++
	e.metrics = newEngineMetrics(e.fleet, e)
}

// stop kills the process: all of its requests fail.
func (e *engine) stop() {
	lost := slices.Concat(e.running, e.waiting)
	e.waiting, e.running, e.partial = nil, nil, nil
	e.leap = leap{}
	e.turn++
	e.down = true
	e.truth.Restarts++
	for _, r := range lost {
		r.call.lostBy(e)
	}
}

// enqueue takes a request at the present time.
func (e *engine) enqueue(r *request) {
	r.arrived, r.queued = e.fleet.now, e.fleet.now
	e.waiting = append(e.waiting, r)
	if len(e.waiting) == 1 {
		e.cutLeap() // it may be admitted with the next step
	}
	e.step()
}

// abort drops a request whose client has gone.
func (e *engine) abort(r *request) {
	if i := slices.Index(e.waiting, r); i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
		if i == 0 {
			e.cutLeap() // the next one may fit
		}
		r.call.released()
		return
	}
	if slices.Contains(e.running, r) {
		r.aborted = true // the step under way has counted it: it leaves with that step
		e.cutLeap()
	}
}

// step begins the next step unless one is under way.
func (e *engine) step() {
	if e.stepping || e.down || len(e.waiting)+len(e.running) == 0 {
		return
	}
	duration := e.schedule()
	if len(e.running) == 0 {
		return // the head of the queue does not fit and nothing can make room
	}
	e.stepping = true
	e.turn++
	e.leap = leap{began: e.fleet.now, first: duration, steps: 1}
	e.lengthen()
	e.fleet.queue.at(e.leap.end(), e, occasionStepEnds, e.turn)
}

// happen ends the step, or the leap of steps, that is under way.
func (e *engine) happen(_ occasion, stamp uint64) {
	if e.turn == stamp && !e.down {
		e.finishStep()
	}
}

// schedule decides what each sequence computes in the next step and returns
// how long that takes.
func (e *engine) schedule() time.Duration {
	hw := e.fleet.config.Hardware
	budget := hw.StepTokens
	duration := hw.Step
	e.failed = failedLookUp{}
	e.chunk = e.chunk[:0]
	for i := 0; i < len(e.running); i++ {
		r := e.running[i]
		chunk := 1
		if !r.decoding() {
			chunk = min(r.target()-r.computed, budget)
		}
		if !e.room(i, chunk) {
			i-- // r itself was the youngest and is waiting again
			continue
		}
		e.chunk = append(e.chunk, chunk)
		budget -= chunk
		duration += e.cost(r, chunk)
	}
	for len(e.waiting) > 0 && budget > 0 && e.partial == nil && len(e.running) < hw.MaxSeqs && e.admit() {
		r := e.running[len(e.running)-1]
		chunk := min(r.target()-r.computed, budget)
		if !e.cache.grow(&r.lease, r.computed+chunk, e.fleet.now) {
			e.preempt(len(e.running) - 1)
			break
		}
		e.chunk = append(e.chunk, chunk)
		budget -= chunk
		duration += e.cost(r, chunk)
		if r.computed+chunk < r.target() {
			e.partial = r
		}
	}
	return duration
}

// cost is what a chunk of a request adds to a step.
func (e *engine) cost(r *request, chunk int) time.Duration {
	hw := e.fleet.config.Hardware
	if r.decoding() {
		return hw.StepPerSeq + time.Duration(r.computed)*hw.StepPerContextToken
	}
	perToken := (1 + float64(r.computed)/longContext) / hw.PrefillPerSecond
	return time.Duration(float64(chunk) * perToken * float64(time.Second))
}

// room makes sure that request i of the batch can grow by chunk tokens,
// preempting the youngest as often as it takes. False when that was i itself.
func (e *engine) room(i, chunk int) bool {
	r := e.running[i]
	for !e.cache.grow(&r.lease, r.computed+chunk, e.fleet.now) {
		youngest := len(e.running) - 1
		e.preempt(youngest)
		if youngest == i {
			return false
		}
	}
	return true
}

// preempt sends a request of the batch back to the head of the queue.
func (e *engine) preempt(i int) {
	r := e.running[i]
	e.running = slices.Delete(e.running, i, i+1)
	e.cache.release(&r.lease, e.fleet.now)
	r.computed = 0
	r.preempted++
	if e.partial == r {
		e.partial = nil
	}
	e.waiting = slices.Insert(e.waiting, 0, r)
	e.metrics.preemptions.add(1)
	e.truth.Preemptions++
}

// admit moves the head of the queue into the batch if its prompt fits.
func (e *engine) admit() bool {
	r := e.waiting[0]
	reserve := e.cache.usable / 100
	if len(e.running) == 0 {
		reserve = 0
	}
	want := r.prompt
	want.tokens = r.target()
	hit, ok := e.cache.acquire(&r.lease, want, reserve)
	if !ok {
		e.failed = failedLookUp{want.tokens, hit}
		return false
	}
	e.waiting = slices.Delete(e.waiting, 0, 1)
	e.running = append(e.running, r)
	r.computed = hit
	e.truth.MissedTokens += uint64(r.target() - hit)
	if r.preempted == 0 {
		r.cached, r.scheduled = hit, e.fleet.now
		e.metrics.admitted(r)
		e.truth.LookedUpTokens += uint64(r.prompt.tokens)
		e.truth.Admitted++
		if r.scheduled-r.queued > time.Second {
			e.truth.Delayed++
		}
	}
	return true
}

// finishStep books what the step, or leap of steps, computed and begins the
// next one.
func (e *engine) finishStep() {
	e.stepping = false
	if e.leap.steps > 1 {
		e.land()
	} else {
		e.finishOne()
	}
	e.leap = leap{}
	for _, r := range e.finished {
		e.finish(r)
	}
	clear(e.finished)
	e.finished = e.finished[:0]
	e.step()
}

// finishOne books a single step.
func (e *engine) finishOne() {
	now := e.fleet.now
	kept := e.running[:0]
	tokens, decoded := 0, 0
	for i, r := range e.running {
		r.computed += e.chunk[i]
		if r.aborted {
			e.drop(r)
			continue
		}
		if r.computed < r.target() {
			kept = append(kept, r)
			continue
		}
		if e.partial == r {
			e.partial = nil
		}
		if r.generated > 0 {
			e.metrics.decoded(now-r.lastToken, 1)
		} else {
			tokens += r.prompt.tokens - r.cached
			e.first(r)
		}
		decoded++
		r.generated++
		r.lastToken = now
		if r.generated >= r.outputTokens {
			e.finished = append(e.finished, r)
			continue
		}
		kept = append(kept, r)
	}
	clear(e.running[len(kept):])
	e.running = kept
	if e.recounts() {
		e.metrics.lookedUp(e.failed)
	}
	e.metrics.generation.add(float64(decoded))
	e.truth.GeneratedTokens += uint64(decoded)
	e.metrics.iteration.observe(float64(tokens + decoded))
}

// recounts says whether the step under way counts the look-up of a request that
// it had no memory for, as each step of some versions does.
func (e *engine) recounts() bool { return e.fleet.release.recounts && e.failed.tokens > 0 }

// first books a request's first token.
func (e *engine) first(r *request) {
	r.firstToken = e.fleet.now
	e.truth.PromptTokens += uint64(r.prompt.tokens)
	e.truth.CachedTokens += uint64(r.cached)
	e.metrics.firstToken(r)
	r.call.answering()
}

// finish lets go of a request that has all of its tokens.
func (e *engine) finish(r *request) {
	e.cache.release(&r.lease, e.fleet.now)
	e.metrics.finished(r)
	r.call.finished()
}

// drop lets go of a request whose client has gone; vLLM does not count those.
func (e *engine) drop(r *request) {
	if e.partial == r {
		e.partial = nil
	}
	e.cache.release(&r.lease, e.fleet.now)
	r.call.released()
}
