package rules

import (
	"math"
	"math/rand/v2"
	"testing"
)

// study is an engine about like those of the study's profile A: bound by
// prefill, with a cache that holds most pauses.
func study() engineLoad {
	return engineLoad{
		missed: 4400, generated: 240, prompted: 40000, capacity: 1.6e6, usage: 0.2, occupancy: 0.2,
		gap: idleGap{median: usualIdleGap, sigma: usualIdleSigma},
	}
}

// plainHeadroom is the fixed point written down once more from DETECTORS
// section 7, with its own normal distribution, and with the constants as
// parameters.
func plainHeadroom(m, g, q, c, k, occ, gap, sigma, within float64) float64 {
	// phi is the standard normal distribution by Simpson's rule.
	phi := func(z float64) float64 {
		if z < -9 {
			return 0
		}
		if z > 9 {
			return 1
		}
		const n = 400
		sum, h := 0.0, z/n
		for i := 0; i <= n; i++ {
			weight := 2.0
			switch {
			case i == 0 || i == n:
				weight = 1
			case i%2 == 1:
				weight = 4
			}
			x := float64(i) * h
			sum += weight * math.Exp(-x*x/2)
		}
		return 0.5 + sum*h/3/math.Sqrt(2*math.Pi)
	}
	fb := func(t float64) float64 { return 1 - phi(math.Log(t/gap)/sigma) }
	fw := func(t float64) float64 { return 1 - phi(math.Log(t/within)) }
	u0 := m / q
	t := 0.75 * c * (1 - k) / (m + g)
	a := math.Max(0.01, u0-0.10*fb(t)-0.62*fw(t))
	for step := 0; ; step++ {
		x := math.Pow(1.06, float64(step))
		if x > 10 {
			return 10
		}
		for range 25 {
			u := math.Min(0.9, a+0.10*fb(t)+0.62*fw(t))
			rho := x * occ * u / u0
			if rho >= 0.6 {
				return x
			}
			kx := math.Min(0.97, k*x*(1-occ)/math.Max(0.15, 1-rho))
			t = (t + 0.75*c*(1-kx)/(x*(u*q+g))) / 2
		}
	}
}

func (l engineLoad) plain(within float64) float64 {
	return plainHeadroom(l.missed, l.generated, l.prompted, l.capacity, l.usage, l.occupancy, l.gap.median, l.gap.sigma, within)
}

func TestHeadroomAgainstAnotherHand(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, rnd.Float64()) }
	seen := map[bool]int{}
	for range 300 {
		l := engineLoad{
			prompted: between(1e3, 1e5), generated: between(20, 2000), capacity: between(2e4, 8e6), usage: between(0.02, 0.95),
			occupancy: between(0.01, 0.9), gap: idleGap{median: between(20, 2000), sigma: between(0.3, 2)},
		}
		l.missed = l.prompted * between(0.02, 0.8)
		h, ok := l.headroom()
		if want := l.plain(withinGap); !ok || math.Abs(h.ratio-want) > 1e-6 {
			t.Errorf("%+v: headroom %g, want %g", l, h.ratio, want)
		}
		seen[h.ratio > 1 && h.ratio < mostHeadroom]++
	}
	if seen[true] < 50 {
		t.Errorf("only %d of 300 loads have a headroom between 1 and 10", seen[true])
	}
}

// TestHeadroomFalls holds what must be so of any load: more of it, a smaller
// cache, more in use or longer pauses never leave more headroom.
func TestHeadroomFalls(t *testing.T) {
	t.Parallel()
	for name, worse := range map[string]func(l engineLoad, by float64) engineLoad{
		"load": func(l engineLoad, by float64) engineLoad {
			l.missed, l.generated, l.prompted, l.occupancy = by*l.missed, by*l.generated, by*l.prompted, by*l.occupancy
			return l
		},
		"occupancy": func(l engineLoad, by float64) engineLoad { l.occupancy *= by; return l },
		"usage":     func(l engineLoad, by float64) engineLoad { l.usage *= by; return l },
	} {
		last := math.Inf(1)
		for by := 0.5; by < 3; by *= 1.1 {
			h, ok := worse(study(), by).headroom()
			if !ok || h.ratio > last {
				t.Errorf("%s × %.2f: headroom %g after %g", name, by, h.ratio, last)
			}
			last = h.ratio
		}
		if h, _ := worse(study(), 0.5).headroom(); h.ratio <= last {
			t.Errorf("%s: headroom does not move from %g", name, last)
		}
	}
}

// TestHeadroomSensitivity has the study's: the pause within a turn halved
// gives more, doubled less, by about as much (DETECTORS 6 iv).
func TestHeadroomSensitivity(t *testing.T) {
	t.Parallel()
	l := study()
	h, _ := l.headroom()
	if h.ratio < 1.3 || h.ratio > 2.2 { // the limit of the study's ramps was at 1.72 times their load
		t.Errorf("an engine about like those of the study has a headroom of %.2f", h.ratio)
	}
	if alone := l.prefillAlone(); h.ratio > 0.75*alone {
		t.Errorf("headroom %.2f: the cache should bind before prefill alone does (%.2f)", h.ratio, alone)
	}
	if halved := l.plain(withinGap/2) / h.ratio; halved < 1.05 || halved > 1.35 {
		t.Errorf("the pause within a turn halved: × %.2f", halved)
	}
	if doubled := l.plain(withinGap*2) / h.ratio; doubled < 0.6 || doubled > 0.95 {
		t.Errorf("the pause within a turn doubled: × %.2f", doubled)
	}
}

// TestHeadroomCarriesTheResidency has a load whose cache collapses at one step:
// what it collapsed to is where the next step begins, so that the steps after
// it do not recover.
func TestHeadroomCarriesTheResidency(t *testing.T) {
	t.Parallel()
	l := study()
	l.occupancy, l.usage = 0.02, 0.3 // prefill is fast: nothing but the cache can bind
	h, ok := l.headroom()
	if !ok || h.ratio == mostHeadroom {
		t.Fatalf("headroom %+v", h)
	}
	before := l.residency(l.usage, l.missed+l.generated)
	if h.residency > before/h.ratio {
		t.Errorf("at %.2f times the load blocks stay for %.1f s, at the present one for %.1f s", h.ratio, h.residency, before)
	}
	if h.missRatio < 0.4 {
		t.Errorf("it saturates at a miss ratio of %.2f", h.missRatio)
	}
}

func TestHeadroomUnknown(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]func(l *engineLoad){
		"nothing missed":    func(l *engineLoad) { l.missed = 0 },
		"nothing prompted":  func(l *engineLoad) { l.prompted = 0 },
		"nothing prefilled": func(l *engineLoad) { l.occupancy = 0 },
		"no room":           func(l *engineLoad) { l.usage = 1 },
		"not a number":      func(l *engineLoad) { l.missed = math.NaN() },
	} {
		x := study()
		l(&x)
		if h, ok := x.headroom(); ok {
			t.Errorf("%s: headroom %+v", name, h)
		}
	}
}

func TestFitIdleGap(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	r := recent{}
	for range 4000 {
		r.add(1, 90*math.Exp(1.1*rnd.NormFloat64()))
	}
	r.add(1, 5e5) // somebody slept
	if g := fitIdleGap(r.since(0, anything)); math.Abs(g.median-90) > 5 || math.Abs(g.sigma-1.1) > 0.05 || g.turns != 4001 {
		t.Errorf("fit %+v, want a median of 90 s and a sigma of 1.1", g)
	}
	if g := fitIdleGap([]float64{60, 60, 60, 60, 60}); g.sigma != leastIdleSigma {
		t.Errorf("pauses that are all alike: %+v", g)
	}
}

func BenchmarkHeadroom(b *testing.B) {
	l := study()
	l.occupancy = 0.001 // all loads are tried
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := l.headroom(); !ok {
			b.Fatal("unknown")
		}
	}
}
