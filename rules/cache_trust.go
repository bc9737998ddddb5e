package rules

import (
	"fmt"
	"time"

	"kvwatch/collector"
)

const (
	// wakeGrace is how long after sleep an empty cache is expected. Sleep drops
	// the KV cache, whatever its level.
	wakeGrace = 30 * time.Minute
	// cachingOff is why an engine without a prefix cache has no hit ratio.
	cachingOff = "prefix caching is switched off (enable_prefix_caching=False)"
)

// contaminated says whether the cache counters of the pages in (from, to]
// counted far more tokens than were prompted: before vLLM 0.27 a request that
// waits is looked up again at every step, and each look-up is counted.
func (u *unit) contaminated(from, to int64) bool { return u.overcounted(from, to, guardFactor) }

// overcounted says the same of a given factor.
func (u *unit) overcounted(from, to int64, factor float64) bool {
	if !u.has(totalPrompt) {
		return false
	}
	queried, prompted := u.increase(totalQueries, from, to), u.increase(totalPrompt, from, to)
	return queried > factor*prompted+guardSlack*u.pool.heavyPrompt()
}

// windowSource is the source that gauges read of the pages in (from, to]:
// contaminated counters only where there is nothing else, which trusted tells.
func (u *unit) windowSource(from, to int64) (s cacheSource, ok, trusted bool) {
	s, ok = u.gaugeSource()
	if !ok || s != sourceCounters || !u.contaminated(from, to) {
		return s, ok, true
	}
	if u.offers(sourceHistograms) {
		return sourceHistograms, true, true
	}
	return s, true, false
}

// tokensPerCount is how many tokens the prefix cache counters count at once: a
// block of them before vLLM 0.9. It is 0 where the block size is not known.
func (u *unit) tokensPerCount() float64 {
	if u.target.release.before(0, 9) {
		return u.blockSize
	}
	return 1
}

// doubts is what a person should know of a hit ratio v that was read from s
// over the window d; empty is nothing.
func (w unitWindow) doubts(v float64, s cacheSource, d time.Duration) string {
	rel, version := w.unit.target.release, w.unit.target.version
	preempted := w.Increase(totalPreemptions, min(d, shortWindow))
	switch {
	case w.sleptWithin(d):
		return "the engine slept within the window and dropped its cache: misses after it woke are expected"
	case v == 0 && w.unit.hitStep > 0:
		return fmt.Sprintf("a hybrid model: hits come in steps of %s tokens only, so that none on shorter prompts is by design", amount(w.unit.hitStep))
	case s != sourceCounters || rel.since(0, 27):
		return ""
	case rel.before(0, 11) && preempted > 0:
		return fmt.Sprintf("too high: vLLM %s counts the own blocks of preempted requests as hits (%s; corrected in 0.11)", version, plural(int(preempted), "preemption"))
	case rel.known:
		return fmt.Sprintf("vLLM %s counts a waiting request again at every step (corrected in 0.27): not to be trusted while requests wait", version)
	default:
		return "before vLLM 0.27 these counters count a waiting request again at every step: not to be trusted while requests wait"
	}
}

// sleptWithin says whether the engine slept at some time in the window.
func (w unitWindow) sleptWithin(d time.Duration) bool {
	return w.unit.sleptAt > 0 && w.unit.sleptAt > w.ms-d.Milliseconds()
}

// cold says whether a page at the given time still shows what sleep emptied.
func (u *unit) cold(at int64, scale float64) bool {
	return u.sleptAt > 0 && at-u.sleptAt <= scaled(wakeGrace, scale).Milliseconds()
}

// readTrust takes from cache_config_info what says how far hits can be trusted.
func (u *unit) readTrust(get func(string) string) {
	u.cachingOff = get("enable_prefix_caching") == "False"
	u.blockSize, _ = positive(get("block_size"))
	u.hitStep = 0
	for _, label := range []string{"mamba_block_size", "cache_hit_alignment_tokens", "prefix_match_unit"} {
		if v, ok := positive(get(label)); ok && v > u.blockSize {
			u.hitStep = max(u.hitStep, v)
		}
	}
	if v, ok := positive(get("mamba_block_size")); ok {
		u.hitStep = max(u.hitStep, v)
	}
}

// noteSleep keeps when the engine was last seen asleep.
func (u *unit) noteSleep(at int64) {
	if g := &u.gauges[gaugeAwake]; g.column.number != 0 && g.page == u.target.page && g.now == 0 {
		u.sleptAt = at
	}
}

const untrustedCounters = "the cache counters count over 1.2 times what was prompted (before vLLM 0.27 a waiting request counts again at every step), and the page has no " +
	collector.VLLMPromptCached + " to read instead"
