package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kvwatch/collector"
)

const (
	// lookupsPerToken is how many tokens may be looked up for one that is
	// prompted until look-ups were repeated (facts: 1.02 under real pressure).
	lookupsPerToken = 1.02
	// capacitySlack is by how much blocks times block size may differ from the
	// tokens that the engine says.
	capacitySlack = 0.1
)

// quirks says what to know, or to distrust, of this page.
func (i *Inspection) quirks() []string {
	var all []string
	add := func(yes bool, format string, args ...any) {
		if yes {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	t := i.target()
	if i.good == 0 || t == nil {
		return nil
	}
	add(i.redirected, "the page is reached by a redirect: set metrics_path to the page itself, some scrapers lose the key or get an empty page there")
	add(i.takesTurns(), "%s", sampledReason)
	add(i.good < 2, "only one page was read: totals since the process began are told, but nothing was watched")
	add(i.opts.Untimed, "the times of the pages are not known, so that nothing is told per second")
	add(i.page.ProcessStart > float64(i.latest.Add(startSlack).Unix()), "the server's clock is ahead of this one: its process began at %s", spellStart(i.page.ProcessStart))
	add(i.page.BadLines > 0, "%d lines of the page could not be read and were left out", i.page.BadLines)
	add(i.page.NotNumbers > 0, "%d values of the page are NaN or infinite and were left out", i.page.NotNumbers)
	all = append(all, i.aliases()...)
	if i.source == collector.SourceLiteLLM {
		return append(all, i.gatewayQuirks(t)...)
	}
	return append(all, i.engineQuirks(t)...)
}

func spellStart(unix float64) string { return time.Unix(int64(unix), 0).UTC().Format(time.RFC3339) }

// aliases says which families were read under another name; Ray Serve renames
// them all.
func (i *Inspection) aliases() []string {
	var all []string
	ray := 0
	for _, family := range slices.Sorted(maps.Keys(i.page.From)) {
		exposed := i.page.From[family]
		switch base := strings.TrimPrefix(family, "vllm:"); exposed {
		case family:
		case "ray_vllm_" + base, "ray_vllm:" + base:
			if ray++; ray == 1 {
				all = append(all, fmt.Sprintf("%s is read from %s (Ray Serve), and so are all that are named alike", family, exposed))
			}
		default:
			all = append(all, fmt.Sprintf("%s is read from %s%s", family, exposed, aliasEra(exposed)))
		}
	}
	return all
}

// aliasEra says what a name tells of its server.
func aliasEra(exposed string) string {
	switch {
	case strings.HasPrefix(exposed, "ray_"):
		return " (Ray Serve)"
	case strings.Contains(exposed, "gpu_prefix_cache"):
		return " (vLLM 0.11 or older; before 0.9 it counts blocks, not tokens)"
	case strings.Contains(exposed, "gpu_cache_usage"):
		return " (vLLM 0.11 or older)"
	case strings.Contains(exposed, "time_per_output_token"):
		return " (vLLM 0.15 or older)"
	default:
		return ""
	}
}

func (i *Inspection) engineQuirks(t *target) []string {
	var all []string
	n := t.engines()
	if i.page.ProcessStart == 0 {
		all = append(all, "the page does not tell when the process began: it is the multiprocess mode (several API servers), the Rust frontend or a simulator; gauges may be missing until the first request, and a restart is told by falling counters only")
	}
	if n > 1 {
		all = append(all, fmt.Sprintf("%d engines share the page (data parallelism): counters are told per engine, num_gpu_blocks is the sum over them", n))
	}
	if i.badUsage {
		all = append(all, "the page says a KV usage outside of 0 to 1, which is left out")
	}
	for _, u := range t.units {
		if u.engine == "" {
			continue
		}
		for _, text := range i.quirksOf(u) {
			if n > 1 {
				text = "engine " + u.engine + ": " + text
			}
			all = append(all, text)
		}
	}
	return all
}

// quirksOf says what to know of one engine.
func (i *Inspection) quirksOf(u *unit) []string {
	var all []string
	add := func(yes bool, format string, args ...any) {
		if yes {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	config := i.config[u.engine]
	add(u.cachingOff, "%s: no hits is no fault", cachingOff)
	add(u.sleptAt > 0, "the engine sleeps or slept: its KV cache was dropped, and misses after it wakes are expected")
	add(u.hitStep > 0, "a hybrid model: hits come in steps of %s tokens, so that none on shorter prompts is by design", amount(u.hitStep))
	add(hybrid(config.Get("kv_cache_size_tokens"), config.Get("num_gpu_blocks"), config.Get("block_size"), u.target.engines()),
		"blocks times block size is not the capacity in tokens (a hybrid or sliding-window model): what the engine says itself is taken")
	add(u.resetAt > 0 && !i.takesTurns(), "counters began again while it was watched (a restart, or an elastic scale-up)")
	queried, prompted := u.totals[totalQueries].sum, u.totals[totalPrompt].sum
	add(prompted > 0 && queried > lookupsPerToken*prompted,
		"%.2f tokens were looked up for each that was prompted: waiting requests are looked up again and again, so that prefix_cache_hits over prefix_cache_queries is not the hit ratio", queried/max(prompted, 1))
	if c := i.cacheWatched(u); c.known && c.source == sourceCounters {
		text := i.window(u).doubts(1, c.source, longWindow)
		add(text != "", "the hit ratio is read from prefix_cache_hits and _queries: %s", text)
	}
	for _, h := range []hist{histTTFT, histITL, histQueueTime} {
		add(u.hists[h] != nil && !possible(u.hists[h]), "a latency histogram holds impossible intervals, which are left out")
	}
	return slices.Compact(all)
}

// hybrid says whether the engine's own capacity is not blocks times block size.
func hybrid(tokens, blocks, size string, engines int) bool {
	capacity, ok := positive(tokens)
	n, okBlocks := positive(blocks)
	each, okSize := positive(size)
	if !ok || !okBlocks || !okSize || engines == 0 {
		return false
	}
	computed := n * each / float64(engines)
	return computed < (1-capacitySlack)*capacity || computed > (1+capacitySlack)*capacity
}

func (i *Inspection) gatewayQuirks(t *target) []string {
	var all []string
	add := func(yes bool, format string, args ...any) {
		if yes {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(i.page.ProcessStart == 0, "the page does not tell when the process began: it is the multiprocess mode, in which counters of dead workers live on")
	for _, u := range t.units {
		if u.engine != "" {
			continue
		}
		add(len(i.inFlight) > 0, "litellm_in_flight_requests counts every HTTP request, the scrape itself too: 1 is taken off")
		requests, _ := i.window(u).Total(totalRequests)
		overhead := u.hists[histOverhead]
		switch {
		case requests <= 0:
		case overhead == nil || overhead.count+overhead.countSkipped == 0:
			add(true, "the overhead has no samples among %.0f requests: LiteLLM measures it on calls that are not streamed", requests)
		default:
			n := overhead.count + overhead.countSkipped
			add(n < sampleOnly*requests, "the overhead stands for %s of the requests only: LiteLLM measures it on calls that are not streamed", percent(n/requests))
			add((overhead.sum+overhead.sumSkipped)/n > secondsAtMost, "the overhead's mean is over a minute: it is taken as milliseconds, though LiteLLM gives seconds")
		}
		add(u.resetAt > 0 && !i.takesTurns(), "counters began again while it was watched: the gateway, or one of its workers, restarted")
		for _, d := range i.deployments {
			if d.hasState && d.state > 0 {
				add(true, "litellm_deployment_state never expires: a state other than 0 says that the last call failed, not that calls fail now")
				break
			}
		}
	}
	return all
}
