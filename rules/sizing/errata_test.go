package sizing

import (
	"errors"
	"math"
	"testing"
)

// These are the places where the articles err: each test has what the article
// prints, and that ours is another and the right one. deploy/docs/sizing.md lists
// them for people.

// S prints rho_max = 1 - W/(s(1+W/s)), which falls when the SLO is loosened.
func TestErratumRhoMaxFalls(t *testing.T) {
	t.Parallel()
	printed := func(wait, service float64) float64 { return 1 - wait/(service*(1+wait/service)) }
	if printed(0.3, 0.17) < printed(0.5, 0.17) {
		t.Fatal("the printed formula is not the one that falls")
	}
	last := 0.0
	for _, wait := range []float64{0.2, 0.3, 0.4, 0.5} {
		ours := RhoMax(wait, 0.17, 1)
		if ours <= last {
			t.Errorf("at %v s ours is %v, no more than before", wait, ours)
		}
		last = ours
	}
}

// S's break-even column is its own formula's result times 0.63.
func TestErratumBreakEven(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ price, printed, right float64 }{
		{6.49, 0.23, 0.366},
		{3.63, 0.41, 0.655},
		{3.41, 0.44, 0.697},
		{1.87, 0.80, 1.27},
		{2.33, 0.64, 1.02},
	} {
		ours := BreakEvenUtilisation(83_300, 4, c.price)
		example{"break-even", ours, c.right, 0.005}.check(t)
		if math.Abs(ours*0.63-c.printed) > 0.006 {
			t.Errorf("at %v the printed %v is not ours times 0.63", c.price, c.printed)
		}
	}
}

// S's payback subtracts a cost per hour that already holds the capex, and calls
// years months: 1.7 M EUR over 63 900 EUR a year are 26 years, not 27 months.
func TestErratumPayback(t *testing.T) {
	t.Parallel()
	hour := CostPerGPUHour(83_300, 4, 0.70)
	saving := (3.63 - hour) * 4 * HoursPerYear * 0.70 * 11
	if months := 1_697_000 / saving * 12; months < 300 {
		t.Errorf("the article's own saving pays back in %v months", months)
	}
	ours, err := PaybackMonths(166_005, 28_000, 4, 3.63, 0.70)
	if err != nil {
		t.Fatal(err)
	}
	example{"payback", ours, 32.6, 0.05}.check(t)
	if math.Abs(ours-27) < 1 {
		t.Error("ours is the article's")
	}
}

// 11 nodes at 178 500 USD are not 1 825 000 USD.
func TestErratumClusterCapex(t *testing.T) {
	t.Parallel()
	usd := 11 * 178_500.0
	example{"capex in USD", usd, 1_963_500, 0}.check(t)
	example{"capex in EUR", usd * 0.93, 1_826_055, 1e-6}.check(t)
}

// S's table 5.1 is half of its own formula at 24 hours.
func TestErratumPeakTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ k, printed, right float64 }{
		{1.2, 8, 16},
		{1.8, 12, 23},
		{2.5, 16, 32},
		{3.5, 22, 45},
	} {
		ours := GPUs(RequiredTPS(PeakOutputTPS(c.k, 5e6, 256, 24), 0.63), 1850)
		example{"GPUs", ours, c.right, 0}.check(t)
		if ours < 1.9*c.printed {
			t.Errorf("at k=%v ours is %v, the article has %v", c.k, ours, c.printed)
		}
	}
}

// S's summary (11 600 tokens/s, 10 GPUs, 0.37 EUR) does not follow from its chain.
func TestErratumSummary(t *testing.T) {
	t.Parallel()
	peak := PeakOutputTPS(1.8, 5e6, 256, 16)
	gpus := GPUs(RequiredTPS(peak, 0.63), 1850)
	cost := CostPerMillionTokens(CostPerGPUHour(83_300, 4, 0.63), 1850)
	if peak < 3*11_600 || gpus != 35 || math.Abs(cost-0.567) > 0.001 {
		t.Errorf("the chain gives %v tokens/s, %v GPUs, %v EUR", peak, gpus, cost)
	}
}

// S's columns of low and high opex, and its simple payback, are off.
func TestErratumOpexAndSimplePayback(t *testing.T) {
	t.Parallel()
	example{"low opex", CostPerGPUHour(55_300+13_000, 4, 0.40), 4.87, 0.005}.check(t)
	example{"high opex", CostPerGPUHour(55_300+75_000, 4, 0.40), 9.30, 0.005}.check(t)
	for _, c := range []struct{ rho, printed, right float64 }{{0.5, 54, 31.3}, {0.7, 39, 22.4}, {0.8, 34, 19.6}} {
		ours, err := PaybackMonths(166_005, 0, 4, 3.63, c.rho)
		if err != nil {
			t.Fatal(err)
		}
		example{"simple payback", ours, c.right, 0.05}.check(t)
		if ours > c.printed-10 {
			t.Errorf("at %v ours is %v, the article has %v", c.rho, ours, c.printed)
		}
	}
}

// S calls 1.87 EUR an hour, whose break-even lies at 127 %, feasible at 80 %.
func TestErratumNeverBreaksEven(t *testing.T) {
	t.Parallel()
	if u := BreakEvenUtilisation(83_300, 4, 1.87); u <= 1 {
		t.Errorf("at 1.87 EUR an hour owning breaks even at %v", u)
	}
	if _, err := PaybackMonths(166_005, 75_000, 4, 1.87, 1); !errors.Is(err, ErrNeverPaysBack) {
		t.Errorf("renting for less than high opex pays back: %v", err)
	}
}

// C takes 320 000 bytes for 327 680: 316 sequences and 475 000 tokens that are not there.
func TestErratumKilobytes(t *testing.T) {
	t.Parallel()
	perToken := KVBytesPerToken(80, 8, 128, 2)
	example{"sequences", MaxSequences(152*GB, perToken*1500, 1), 309, 0}.check(t)
	example{"tokens", MaxLiveTokens(152*GB, perToken, 1), 463_867, 0}.check(t)
	example{"C's sequences", MaxSequences(152*GB, 320_000*1500, 1), 316, 0}.check(t)
	example{"C's tokens", MaxLiveTokens(152*GB, 320_000, 1), 475_000, 0}.check(t)
}

// C's summary has 4 to 5 replicas where its worksheet has 45.
func TestErratumReplicas(t *testing.T) {
	t.Parallel()
	request := RequestSeconds(PrefillSeconds(800, PrefillTokensPerSecond(4, 989e12, 0.5, 70e9)), 250, 0.035)
	example{"replicas", Replicas(200, 0, ReplicaRPS(40, request)), 45, 0}.check(t)
}

// C divides Mixtral's active weights by 8 GPUs and calls it TP 4.
func TestErratumMixtralDecode(t *testing.T) {
	t.Parallel()
	const printed = 9.75 * GB
	perGPU := WeightBytes(39e9, 2, 4)
	example{"active weights per GPU at TP 4", perGPU, 19.5 * GB, 0}.check(t)
	example{"the printed ones are TP 8's", WeightBytes(39e9, 2, 8), printed, 0}.check(t)
	example{"tpot_floor_s at TP 4", TPOTFloor(perGPU, 0, 3350*GB), 0.0058, 0.00005}.check(t)
}

// G rounds 6.006 replicas to 6, which leaves the peak above the goodput.
func TestErratumGoodputReplicas(t *testing.T) {
	t.Parallel()
	example{"replicas", Replicas(20_000, 0, 3_330), 7, 0}.check(t)
	example{"cost", CostPerMillionTokens(11, 3_330), 0.918, 0.0005}.check(t)
}

// A rounds 6.6 sequences to 8 without a word; it takes a margin of 20 % to get there.
func TestErratumSequencesWithoutMargin(t *testing.T) {
	t.Parallel()
	example{"without margin", ConcurrentSequences(20, 0.11, 3, 0), 7, 0}.check(t)
	example{"with margin", ConcurrentSequences(20, 0.11, 3, 0.2), 8, 0}.check(t)
}
