package fleet

import (
	"cmp"
	"fmt"
	"slices"
)

// Versions of vLLM between which what a page says of cached tokens differs.
const (
	// CountersOnly has nothing but the counters of look-ups, which count a
	// request that waits for memory again at every step.
	CountersOnly = "0.12.0"
	// CountersAndSums has the histogram of computed tokens beside them.
	CountersAndSums = "0.14.0"
)

// release is what a version's page says of cached tokens. In nothing else the
// simulated versions differ.
type release struct {
	version string
	// recounts says that the look-up of a request that waits for memory is
	// counted at every step.
	recounts bool
	// lacks are the families that the page does not have yet.
	lacks []string
}

// releaseOf finds a version; the newest one when it is left out.
func releaseOf(version string) (release, error) {
	cached := []string{
		"vllm:prompt_tokens_cached_total", "vllm:prompt_tokens_cached_by_source_total", "vllm:prompt_tokens_by_source_total",
	}
	all := []release{
		{version: EngineVersion},
		{version: CountersAndSums, recounts: true, lacks: cached},
		{version: CountersOnly, recounts: true, lacks: append(slices.Clone(cached), "vllm:request_prefill_kv_computed_tokens")},
	}
	version = cmp.Or(version, EngineVersion)
	for _, r := range all {
		if r.version == version {
			return r, nil
		}
	}
	return release{}, fmt.Errorf("engine version %q is not simulated: %s, %s and %s are", version, EngineVersion, CountersAndSums, CountersOnly)
}

// remove takes families off the page. What is counted in them is not seen.
func (p *page) remove(names []string) {
	for _, name := range names {
		if p.byName[name] == nil {
			p.missing(name, nil)
		}
	}
	p.families = slices.DeleteFunc(p.families, func(f *family) bool { return slices.Contains(names, f.name) })
	p.all = slices.DeleteFunc(p.all, func(s *series) bool { return slices.Contains(names, s.family.name) })
}
