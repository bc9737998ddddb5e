package rules

import (
	"strings"

	"kvwatch/collector"
)

// gauge numbers the gauges that windows hold.
type gauge int

const (
	gaugeRunning gauge = iota
	gaugeWaiting
	gaugeWaitingCapacity
	gaugeWaitingDeferred
	gaugeUsage
	gaugeAwake
	gaugeInFlight
	gauges
)

// total numbers the counters that windows hold.
type total int

const (
	totalPrompt total = iota
	totalCached
	totalQueries
	totalHits
	totalGenerated
	totalPreemptions
	totalDrafts
	totalFinished
	totalRejected
	totalRequests
	totalRequestsOK
	// totalLimited are the requests answered with 429.
	totalLimited
	totalInput
	totalRedis
	totalRedisFailed
	totalPostgres
	totalPostgresFailed
	totalFailed
	totalCooldowns
	totalAnswered
	totalExternalHits
	// totalTurnedAway are the requests that an engine's admission control refused.
	totalTurnedAway
	// totalCovered is the time between good pages, totalUsage the KV usage over
	// it, and totalUsageUnknown the part of it in which that was not known: none
	// for nearly all engines, which need no column for it then.
	totalCovered
	totalUsage
	totalUsageUnknown
	totals
)

// hist numbers the histograms that windows hold.
type hist int

const (
	histPrompt hist = iota
	histComputed
	// histGenerated is read by plans alone.
	histGenerated
	histTTFT
	histITL
	// histTPOT is the time per output token of a request, one value of each.
	histTPOT
	histPrefill
	histQueueTime
	histOverhead
	histRedis
	histPostgres
	histTotalLatency
	histAPILatency
	hists
)

// reach says how far back windows are asked of what an engine or gateway tells.
// A ring of each target holds no more pages than that, since there are a thousand.
type reach int

const (
	// reachNone is that of what no window is asked of.
	reachNone reach = iota
	reachShort
	reachMiddle
	reachLong
)

// reach says how far back windows of it are asked.
func (t total) reach() reach {
	switch t {
	case totalPrompt, totalCached, totalQueries, totalHits, totalGenerated, totalExternalHits, totalCovered, totalUsage, totalUsageUnknown:
		return reachLong
	default:
		return reachShort
	}
}

// timed says whether it is a sum of time, which is counted in ticks.
func (t total) timed() bool { return t == totalCovered || t == totalUsage || t == totalUsageUnknown }

// timeTicks is how many ticks a second has. Sums of time are counted in them:
// the time between two pages is whole then, and a ring holds it as a count.
const timeTicks = 100_000

// sumReach says how far back windows of a histogram's sum are asked.
func (h hist) sumReach() reach {
	switch h {
	case histPrompt, histComputed:
		return reachLong
	case histTTFT, histQueueTime, histPrefill:
		return reachMiddle
	case histITL, histTPOT, histOverhead, histRedis, histPostgres:
		return reachShort
	default:
		return reachNone
	}
}

// countReach says the same of its count.
func (h hist) countReach() reach {
	switch h {
	case histPrompt, histTTFT:
		return reachLong
	case histQueueTime:
		return reachMiddle
	case histITL, histTPOT, histOverhead, histRedis, histPostgres:
		return reachShort
	default:
		return reachNone
	}
}

// whole says whether a histogram's sum is one of whole numbers.
func (h hist) whole() bool { return h == histPrompt || h == histComputed }

// lifelong says whether it is asked what its buckets hold of all times, of those
// before the first page too.
func (h hist) lifelong() bool { return h == histITL || h == histTPOT }

// windowed says whether quantiles of a window are asked of it.
func (h hist) windowed() bool {
	switch h {
	case histTTFT, histITL, histTPOT, histOverhead, histRedis, histPostgres:
		return true
	default:
		return false
	}
}

// gaugeOf is the gauge that a series is, by its name and the label that tells
// the series of its family apart: reason or sleep_state.
func gaugeOf(name, label string) (gauge, bool) {
	switch name {
	case collector.VLLMRunning:
		return gaugeRunning, true
	case collector.VLLMWaiting:
		return gaugeWaiting, true
	case collector.VLLMWaitingByReason:
		if label == "deferred" {
			return gaugeWaitingDeferred, true
		}
		return gaugeWaitingCapacity, true
	case collector.VLLMKVUsage:
		return gaugeUsage, true
	case collector.VLLMSleepState:
		return gaugeAwake, label == "awake"
	case collector.LiteLLMInFlight:
		return gaugeInFlight, true
	default:
		return 0, false
	}
}

// totalOf is the counter that a series is part of, by its name.
func totalOf(name string) (total, bool) {
	switch name {
	case collector.VLLMPromptTokens:
		return totalPrompt, true
	case collector.VLLMPromptCached:
		return totalCached, true
	case collector.VLLMCacheQueries:
		return totalQueries, true
	case collector.VLLMCacheHits:
		return totalHits, true
	case collector.VLLMExternalHits:
		return totalExternalHits, true
	case collector.VLLMGenerationTokens:
		return totalGenerated, true
	case collector.VLLMPreemptions:
		return totalPreemptions, true
	case collector.VLLMDrafts:
		return totalDrafts, true
	case collector.VLLMRequestSuccess:
		return totalFinished, true
	case collector.VLLMRejections:
		return totalTurnedAway, true
	case collector.LiteLLMRejected:
		return totalRejected, true
	case collector.LiteLLMRequests:
		return totalRequests, true
	case collector.LiteLLMFailed:
		return totalFailed, true
	case collector.LiteLLMInputTokens:
		return totalInput, true
	case collector.LiteLLMRedisCalls:
		return totalRedis, true
	case collector.LiteLLMRedisFailed:
		return totalRedisFailed, true
	case collector.LiteLLMPostgresCalls:
		return totalPostgres, true
	case collector.LiteLLMPostgresFailed:
		return totalPostgresFailed, true
	case collector.LiteLLMCooledDown:
		return totalCooldowns, true
	case collector.LiteLLMDeploySuccess:
		return totalAnswered, true
	default:
		return 0, false
	}
}

// histOf is the histogram and the part of it that a series is, by its name.
func histOf(name string) (h hist, part string, ok bool) {
	for _, part := range []string{collector.BucketSuffix, collector.SumSuffix, collector.CountSuffix} {
		if base, found := strings.CutSuffix(name, part); found {
			if h, ok := histNamed(base); ok {
				return h, part, true
			}
		}
	}
	return 0, "", false
}

// histNamed is the histogram with a name.
func histNamed(name string) (hist, bool) {
	switch name {
	case collector.VLLMPromptHist:
		return histPrompt, true
	case collector.VLLMComputedHist:
		return histComputed, true
	case collector.VLLMGenerationHist:
		return histGenerated, true
	case collector.VLLMTTFT:
		return histTTFT, true
	case collector.VLLMITL:
		return histITL, true
	case collector.VLLMTPOT:
		return histTPOT, true
	case collector.VLLMPrefillTime:
		return histPrefill, true
	case collector.VLLMQueueTime:
		return histQueueTime, true
	case collector.LiteLLMOverhead:
		return histOverhead, true
	case collector.LiteLLMRedisLatency:
		return histRedis, true
	case collector.LiteLLMPostgresLatency:
		return histPostgres, true
	case collector.LiteLLMTotalLatency:
		return histTotalLatency, true
	case collector.LiteLLMAPILatency:
		return histAPILatency, true
	default:
		return 0, false
	}
}
