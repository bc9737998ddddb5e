package rules

import (
	"fmt"
	"time"
)

func init() {
	record(Recording{
		Name: "kvwatch_prefix_cache_hit_ratio", Kind: KindGauge, Label: "window", Values: []string{"1m", "5m", "30m", "2h"},
		Help:   "Share of the prompt tokens of the window that were found in the prefix cache.",
		Engine: engineHitRatio,
		Pool:   poolHitRatio,
	})
}

// hitWindow is the span that a value of the window label names.
func hitWindow(value string) time.Duration {
	switch value {
	case "1m":
		return time.Minute
	case "5m":
		return 5 * time.Minute
	case "30m":
		return 30 * time.Minute
	default:
		return longWindow
	}
}

// enough says whether a window holds enough to tell a ratio of it: 5 requests,
// or two usual prompts where those are known.
func enough(requests, prompted, heavy float64) bool {
	return requests >= minRequests || heavy > 0 && prompted >= 2*heavy
}

func engineHitRatio(w EngineWindow, value string) Result {
	d := hitWindow(value)
	missed, prompted, source, ok := w.cacheTokens(d)
	switch {
	case !ok && w.facts(d).known:
		return w.absent(untrustedCounters)
	case !ok:
		return w.absent(noSource(w.unit))
	case prompted <= 0:
		return w.absent(reasonNoData)
	case missed < 0 && source == sourceHistograms || missed > prompted*1.01:
		return w.absent("the counters of the window contradict each other")
	case !enough(w.Requests(d), prompted, w.pool.heavyPrompt()):
		return w.absent(reasonTooLittle)
	}
	r := w.ratio(prompted-missed, prompted, d, source.name())
	if r.Reason == "" {
		r.Reason = w.doubts(r.Value, source, d)
	}
	return r
}

// noSource says why an engine has no hit ratio.
func noSource(u *unit) string {
	if u.cachingOff {
		return cachingOff
	}
	if u.has(totalPrompt) {
		return "the page tells no cached tokens: is prefix caching off (enable_prefix_caching)?"
	}
	return "the page tells neither prompted nor cached tokens"
}

// poolHitRatio adds up numerators and denominators; it never averages ratios.
func poolHitRatio(w PoolWindow, value string) Result {
	d := hitWindow(value)
	missed, prompted, requests, told, from := 0.0, 0.0, 0.0, 0, ""
	for _, u := range w.pool.members {
		e := w.engine(u)
		m, q, source, ok := e.cacheTokens(d)
		if !ok {
			continue
		}
		told++
		missed += m
		prompted += q
		requests += e.Requests(d)
		if name := source.name(); from == "" {
			from = name
		} else if from != name {
			from = "several sources"
		}
	}
	switch {
	case told == 0:
		return w.absent("no engine of the pool tells its cached tokens")
	case prompted <= 0:
		return w.absent(reasonNoData)
	case !enough(requests, prompted, w.pool.heavyPrompt()):
		return w.absent(reasonTooLittle)
	}
	return w.known(min(max(1-missed/prompted, 0), 1), d, told, fmt.Sprintf("sum over engines of %s", from))
}
