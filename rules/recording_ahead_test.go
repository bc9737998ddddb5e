package rules

import "testing"

// TestRealPressure holds the detectors of pressure to the recording: they fire
// where its README names a working set that overflows and outputs that fill the
// cache, and not while all is well or the caches are roomy.
func TestRealPressure(t *testing.T) {
	t.Parallel()
	rules := labRules()
	for _, name := range []string{"PrefillSaturated", kvSeatShortage} {
		rules[name] = Override{TimeScale: 0.1}
	}
	all := transitions(t, rules)
	for _, name := range []string{"PrefillSaturated", kvSeatShortage} {
		for _, phase := range []string{"working_set", "kv_pressure"} {
			if _, ok := find(all, name, phase, StateFiring); !ok {
				t.Errorf("%s does not fire in %s", name, phase)
			}
		}
		for _, phase := range []string{"steady", "affinity_loss", "recover", "calm"} {
			if tr, ok := find(all, name, phase, StateFiring); ok {
				t.Errorf("%s fires in %s: %s", name, phase, tr.a.Evidence.Seen)
			}
		}
	}
}
