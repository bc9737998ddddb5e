package rules

import (
	"cmp"
	"time"

	"kvwatch/collector"
)

// cacheSource says which series misses and prompted tokens are read from, best
// first.
type cacheSource int

const (
	// sourceCached is prompt_tokens_cached with prompt_tokens (vLLM 0.16 on).
	sourceCached cacheSource = iota
	// sourceHistograms is the sums of the request histograms (0.13 on).
	sourceHistograms
	// sourceCounters is prefix_cache_queries and _hits. Before vLLM 0.27 they
	// count a waiting request again at every step.
	sourceCounters
	cacheSources
)

// name is what a person reads of the source.
func (s cacheSource) name() string {
	switch s {
	case sourceCached:
		return collector.VLLMPromptCached + " / " + collector.VLLMPromptTokens
	case sourceHistograms:
		return "1 - " + collector.VLLMComputedHist + "_sum / " + collector.VLLMPromptHist + "_sum"
	default:
		return collector.VLLMCacheHits + " / " + collector.VLLMCacheQueries
	}
}

// key is the source's name in state files.
func (s cacheSource) key() string {
	switch s {
	case sourceCached:
		return "prompt_tokens_cached"
	case sourceHistograms:
		return "request_histograms"
	default:
		return "prefix_cache_counters"
	}
}

// offers says whether the unit's newest page had the source.
func (u *unit) offers(s cacheSource) bool {
	if u.cachingOff {
		return false
	}
	switch s {
	case sourceCached:
		return u.has(totalCached) && u.has(totalPrompt)
	case sourceHistograms:
		return u.hasHist(histComputed) && u.hasHist(histPrompt)
	default:
		return u.has(totalQueries) && u.has(totalHits)
	}
}

// missed is what the source says was computed and prompted, in tokens, on the
// pages in (from, to].
func (u *unit) missed(s cacheSource, from, to int64) (missed, prompted float64) {
	r := u.target.long
	switch s {
	case sourceCached:
		prompted = u.increase(totalPrompt, from, to)
		missed = prompted - u.increase(totalCached, from, to)
	case sourceHistograms:
		if u.hists[histPrompt] == nil || u.hists[histComputed] == nil {
			return 0, 0
		}
		prompted = r.increase(u.hists[histPrompt].sumColumn, from, to)
		missed = r.increase(u.hists[histComputed].sumColumn, from, to)
	default:
		factor := cmp.Or(u.tokensPerCount(), 1) // a ratio of blocks is one of tokens as well
		prompted = factor * u.increase(totalQueries, from, to)
		missed = prompted - factor*u.increase(totalHits, from, to)
	}
	return missed, prompted
}

// gaugeSource is the source that gauges read (DESIGN 3.4), which is not the
// detectors' order.
func (u *unit) gaugeSource() (cacheSource, bool) {
	for _, s := range []cacheSource{sourceCached, sourceCounters, sourceHistograms} {
		if u.offers(s) {
			return s, true
		}
	}
	return 0, false
}

// cacheTokens is what the window says was computed and prompted.
func (w unitWindow) cacheTokens(d time.Duration) (missed, prompted float64, s cacheSource, ok bool) {
	f := w.facts(d)
	return f.missed, f.prompted, f.source, f.known && f.trusted && w.Fresh()
}
