package rules

import (
	"math"
	"testing"
	"time"

	"kvwatch/collector"
)

// TestResidencyUsesTheUsageThatIsKnown has an engine that tells its usage on every
// page, one that does so on every other, and one that never does.
func TestResidencyUsesTheUsageThatIsKnown(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 3, Options{})
	f.calls = 0
	f.set = func(i int, p *page) {
		p.serve(1, 30_000, 3_000, 100)
		p.set(0.4, collector.VLLMKVUsage)
		if i == 2 || i == 1 && f.now.Unix()/15%2 == 0 {
			delete(p.values, p.of(collector.VLLMKVUsage))
			p.drop()
		}
	}
	f.run(20 * time.Minute)
	for key, r := range f.engine.targets {
		in, ok := f.engine.instant(f.now).unit(r.units[0]).residency(f.now.Add(-10*time.Minute).UnixMilli(), f.now.UnixMilli())
		if told := key.instance != "e2:8000"; ok != told || told && (math.Abs(in.usage-0.4) > 1e-6 || in.covered != 600) {
			t.Errorf("%s: %+v, told %t", key.instance, in, ok)
		}
	}
}
