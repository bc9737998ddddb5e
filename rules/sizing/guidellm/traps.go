package guidellm

import (
	"fmt"
	"strings"

	"kvwatch/rules/sizing"
)

const (
	// fewRequests is under how many answers a P95 rests on the slowest alone.
	fewRequests = 20
	// manyCut is the share of requests cut off by the end from which a level says
	// too little of the slow ones.
	manyCut = 0.2
	// atCap is the share of its cap from which an open loop is held back by it.
	atCap = 0.9
	// lateShare is the share of the time to the first token from which requests
	// that went out late make it look better than callers would have it.
	lateShare = 0.1
	// behind is the share of its rate under which an open loop fell behind it.
	behind = 0.9
	// unitsApart is how far times that belong together may differ before one of
	// them is in another unit.
	unitsApart = 50
	// manyCached is the share of cached tokens from which prompts repeat.
	manyCached = 0.5
)

// lookForTraps warns of what makes a report say less than it seems to.
func (r *Report) lookForTraps() {
	of := func(format string, holds func(*sizing.Level) bool) {
		var names []string
		for i := range r.Levels {
			if holds(&r.Levels[i]) {
				names = append(names, levelName(&r.Levels[i]))
			}
		}
		if len(names) > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf(format, strings.Join(names, ", ")))
		}
	}
	of("no request was answered at %s: its zeros are no measurement", func(l *sizing.Level) bool { return l.Requests.Successful == 0 })
	of("percentiles of times are missing at %s", lacksPercentiles)
	of(fmt.Sprintf("fewer than %d requests were answered at %%s: a P95 there is that of the slowest request, run it longer", fewRequests), func(l *sizing.Level) bool {
		return l.Requests.Successful > 0 && l.Requests.Successful < fewRequests
	})
	of(fmt.Sprintf("more than %.0f %%%% of requests were cut off by the end at %%s: the slow ones are missing, run it longer", 100*manyCut), func(l *sizing.Level) bool {
		return l.Requests.Successful > 0 && float64(l.Requests.Incomplete) > manyCut*float64(l.Requests.Total())
	})
	of("no warm-up was left out at %s: the first requests count, with cold caches and compilation", func(l *sizing.Level) bool { return l.WarmUp != nil && *l.WarmUp == 0 })
	of("times are in mixed units at %s: they do not add up to those of whole requests; milliseconds and seconds may be mistaken for each other", mixedUnits)
	of("the cap on concurrency was reached at %s: the loop was closed there, and waiting before a request was sent is not in its times", func(l *sizing.Level) bool {
		return l.Loop == sizing.OpenLoop && l.MaxConcurrency != nil && l.MeanConcurrency != nil && *l.MeanConcurrency >= atCap**l.MaxConcurrency
	})
	of("requests went out late at %s, and the wait before is not in their times (coordinated omission): callers would wait longer than the SLO is held against here; run it from a machine that keeps the rate", wentOutLate)
	of("the rate was not kept at %s, and the report does not say how late requests went out (GuideLLM before 0.8): the wait before is not in their times (coordinated omission)", fellBehind)
	of("an open loop without a rate stands where the rate that was answered puts it: %s", func(l *sizing.Level) bool { return l.Loop == sizing.OpenLoop && l.Rate == nil })
	if r.unsorted() {
		r.Warnings = append(r.Warnings, "levels were not run in the order of their load: they are sorted here, and what an earlier one left in the caches counts for the later")
	}
	if r.CachedShare != nil && *r.CachedShare > manyCached {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%.0f %% of the prompt tokens in the kept requests were cached: the knee is that of such traffic only", 100**r.CachedShare))
	}
	for i := range r.Levels {
		for _, own := range r.Levels[i].Warnings {
			r.Warnings = append(r.Warnings, fmt.Sprintf("GuideLLM at %s: %s", levelName(&r.Levels[i]), own))
		}
	}
}

// levelName is how a level is called before levels are sorted.
func levelName(l *sizing.Level) string {
	switch {
	case l.Rate != nil:
		return fmt.Sprintf("%s %.4g req/s", l.Strategy, *l.Rate)
	case l.Strategy == "concurrent" && l.Streams != nil:
		return fmt.Sprintf("concurrent %.4g", *l.Streams)
	case l.Strategy == "":
		return "a level without a strategy"
	default:
		return l.Strategy
	}
}

// wentOutLate says whether an open loop sent its requests so late that it
// matters: GuideLLM counts times from when a request is sent.
func wentOutLate(l *sizing.Level) bool {
	late, ok := l.Late.Quantiles[sizing.P95]
	ttft, okTTFT := l.Quantile(sizing.TTFT, sizing.P95)
	return l.Loop == sizing.OpenLoop && l.Late.Count > 0 && ok && okTTFT && late > lateShare*ttft
}

// fellBehind says whether an open loop that does not tell of late requests
// answered fewer than it should have sent.
func fellBehind(l *sizing.Level) bool {
	return l.Loop == sizing.OpenLoop && l.Late.Count == 0 && l.Rate != nil && l.AchievedRate != nil && *l.AchievedRate < behind**l.Rate
}

func lacksPercentiles(l *sizing.Level) bool {
	if l.Requests.Successful == 0 {
		return false
	}
	for _, m := range []sizing.Metric{sizing.TTFT, sizing.ITL} {
		if _, ok := l.Quantile(m, sizing.P95); !ok {
			return true
		}
	}
	return false
}

// mixedUnits says whether the mean time to the first token and the tokens after
// it cannot make up the mean time of a request.
func mixedUnits(l *sizing.Level) bool {
	ttft, whole := l.Latency[sizing.TTFT], l.Latency[sizing.E2E]
	if ttft.Count == 0 || whole.Count == 0 || ttft.Mean == nil || whole.Mean == nil || *whole.Mean <= 0 || *ttft.Mean <= 0 {
		return false
	}
	return *ttft.Mean > unitsApart**whole.Mean || tooSmall(l, *ttft.Mean, *whole.Mean)
}

// tooSmall says whether first token and output together fall far short of the
// whole request; without tokens per request nothing can be said.
func tooSmall(l *sizing.Level, ttft, whole float64) bool {
	itl := l.Latency[sizing.ITL]
	if itl.Count == 0 || itl.Mean == nil || l.OutputTPS == nil || l.AchievedRate == nil || *l.AchievedRate <= 0 {
		return false
	}
	tokens := *l.OutputTPS / *l.AchievedRate
	return (ttft+*itl.Mean*tokens)*unitsApart < whole
}

// unsorted says whether open or closed loops came in another order than that of
// their load.
func (r *Report) unsorted() bool {
	var rate, streams float64
	for i := range r.Levels {
		l := &r.Levels[i]
		for _, v := range []struct{ now, last *float64 }{{l.Rate, &rate}, {l.Streams, &streams}} {
			if v.now == nil {
				continue
			}
			if *v.now < *v.last {
				return true
			}
			*v.last = *v.now
		}
	}
	return false
}
