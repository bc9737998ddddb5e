package sizing

import (
	"errors"
	"math"
	"testing"
)

// example is a worked example: what we compute, the value that the source gives
// and how far apart they may be by the source's rounding.
type example struct {
	name      string
	got, want float64
	within    float64
}

func (e example) check(t *testing.T) {
	t.Helper()
	if math.Abs(e.got-e.want) > e.within {
		t.Errorf("%s is %v, the source has %v", e.name, e.got, e.want)
	}
}

func TestMemoryExamples(t *testing.T) {
	t.Parallel()
	class70, class30 := KVBytesPerToken(80, 8, 128, 2), KVBytesPerToken(48, 8, 128, 2)
	for _, e := range []example{
		{"kv_bytes_per_token of the 70B class", class70, 327_680, 0},
		{"the same in MiB", class70 / (1 << 20), 0.3125, 0},
		{"kv_bytes_per_token of the 30B class in MiB", class30 / (1 << 20), 0.1875, 0},
		{"FP8 halves it", KVBytesPerToken(48, 8, 128, 1), class30 / 2, 0},
		{"kv_bytes_per_sequence at 142 000, 70B class, GiB", KVBytesPerSequence(class70, 142_000) / GiB, 43.33, 0.01},
		{"kv_bytes_per_sequence at 142 000, 30B class, GiB", KVBytesPerSequence(class30, 142_000) / GiB, 26.00, 0.005},
		{"kv_bytes_per_sequence at 131 072, 30B class, FP8, GiB", KVBytesPerSequence(class30/2, 131_072) / GiB, 12, 0},
		{"weight_bytes of 70B in BF16 over 4 GPUs", WeightBytes(70e9, 2, 4), 35 * GB, 0},
		{"moe_weight_bytes of Mixtral 8x22B", WeightBytes(141e9, 2, 1), 282 * GB, 0},
		{"the same over 8 GPUs", WeightBytes(141e9, 2, 8), 35 * GB, 0.3 * GB},
		{"moe_active_bytes_per_token of Mixtral 8x22B", MoEActiveBytesPerToken(39e9, 2), 78 * GB, 0},
		{"kv_budget_bytes per GPU (C)", KVBudgetBytes(80*GB, 35*GB, 4*GB, 3*GB, 1), 38 * GB, 1},
		{"kv_budget_bytes of TP 4 (C)", KVBudgetBytes(80*GB, 35*GB, 4*GB, 3*GB, 4), 152 * GB, 1},
		{"kv_budget_bytes per GPU (A)", KVBudgetBytes(80*GB*0.9, 15*GB, 0, 0, 1), 57 * GB, 1},
		{"kv_budget_bytes of TP 2 (A)", KVBudgetBytes(80*GB*0.9, 15*GB, 0, 0, 2), 114 * GB, 1},
		{"max_sequences in 114 GB", MaxSequences(114*GB, 12*GiB, 1), 8, 0},
		{"the same, not rounded", 114 * GB / (12 * GiB), 8.85, 0.005},
		{"max_sequences in 42 GB", MaxSequences(42*GB, 12*GiB, 1), 3, 0},
		{"the same, not rounded", 42 * GB / (12 * GiB), 3.26, 0.005},
		{"max_sequences at 1 500 tokens", MaxSequences(152*GB, KVBytesPerSequence(class70, 1500), 1), 309, 0},
		{"max_live_tokens", MaxLiveTokens(152*GB, class70, 1), 463_867, 0},
		{"max_sequences of a model that does not fit", MaxSequences(-3*GB, 12*GiB, 1), 0, 0},
		{"max_sequences where every GPU keeps the whole latent", MaxSequences(80*GB, GB, 8), 10, 0},
	} {
		e.check(t)
	}
}

func TestTimeExamples(t *testing.T) {
	t.Parallel()
	prefill := PrefillTokensPerSecond(4, 989e12, 0.5, 70e9)
	request := RequestSeconds(PrefillSeconds(800, prefill), 250, 0.035)
	for _, e := range []example{
		{"tpot_floor_s", TPOTFloor(35*GB, 0, 3350*GB), 0.0104, 0.00005},
		{"the same with the KV cache of a batch", TPOTFloor(35*GB, 6.7*GB, 3350*GB), 0.01245, 0.00001},
		{"prefill_tokens_per_s", prefill, 14_129, 1},
		{"prefill_s of 800 tokens", PrefillSeconds(800, prefill), 0.057, 0.0005},
		{"request_s of 800/250 at 35 ms", request, 8.8, 0.05},
		{"replica_rps", ReplicaRPS(40, request), 4.5, 0.05},
		{"replicas of 200 RPS, not rounded", 200 / ReplicaRPS(40, request), 44.03, 0.01},
		{"replicas of 200 RPS", Replicas(200, 0, ReplicaRPS(40, request)), 45, 0},
		{"replicas with head-room", Replicas(200, 0.25, ReplicaRPS(40, request)), 56, 0},
		{"a gain of 35 % by speculation", SpeculativeTPOT(0.02, 0.35), 0.013, 1e-12},
	} {
		e.check(t)
	}
}

func TestAgentExamples(t *testing.T) {
	t.Parallel()
	for _, e := range []example{
		{"duty_cycle of decode alone", DutyCycle(40.6, 444, 60, 3756), 0.080, 0.0005},
		{"amplification", Amplification(0.09, 4, 0.44, 4), 2.95, 0.005},
		{"concurrent_sequences without margin", ConcurrentSequences(20, 0.11, 3, 0), 7, 0},
		{"concurrent_sequences", ConcurrentSequences(20, 0.11, 3, 0.20), 8, 0},
		{"the same, not rounded", 20 * 0.11 * 3 * 1.2, 7.92, 1e-9},
		{"8 sequences that are 8.000000000000002", ConcurrentSequences(20, 0.1, 4, 0), 8, 0},
		{"kv_required in GiB", KVRequired(8, 12*GiB) / GiB, 96, 0},
		{"miss_amplification", MissAmplification(142_000, 7.3*444), 43.8, 0.05},
	} {
		e.check(t)
	}
}

func TestGatewayExamples(t *testing.T) {
	t.Parallel()
	for _, e := range []example{
		{"admission_ceiling_rps per worker", AdmissionCeiling(1, 4, 0.1), 40, 1e-9},
		{"gateway_workers at 3 RPS", GatewayWorkers(3, 0.25, 40, 8, 24), 1, 0},
		{"gateway_workers by what is in flight", GatewayWorkers(3, 0, 40, 50, 24), 3, 0},
		{"gateway_workers without a cap", GatewayWorkers(81, 0, 40, 5000, 0), 3, 0},
		{"db_connections of 3 x 4 workers", DBConnections(3, 4, 10), 120, 0},
		{"db_connections of 2 x 1 worker", DBConnections(2, 1, 10), 20, 0},
		{"effective_limit without Redis", EffectiveLimit(100, 4, 3, false), 1200, 0},
		{"effective_limit with Redis", EffectiveLimit(100, 4, 3, true), 100, 0},
		{"scale_out_lag_s", ScaleOutLag(StartupFailureThreshold, StartupPeriodSeconds), 300, 0},
	} {
		e.check(t)
	}
	for _, c := range []struct {
		tokens  float64
		counter string
		want    float64
	}{
		{50_000, "python", 0.046},
		{75_000, "python", 0.053},
		{100_000, "python", 0.100},
		{50_000, "rust", 0.0049},
		{75_000, "rust", 0.0068},
		{100_000, "rust", 0.0102},
		{62_500, "python", 0.0495},
		{800, "python", 0.046},
	} {
		got, err := CountSeconds(c.tokens, c.counter)
		if err != nil {
			t.Error(err)
		}
		example{"count_s", got, c.want, 1e-9}.check(t)
	}
	if _, err := CountSeconds(131_072, "python"); err == nil {
		t.Error("nobody measured counting at 131 072 tokens")
	}
}

func TestSLOExamples(t *testing.T) {
	t.Parallel()
	const node = 83_300.0
	peak := PeakOutputTPS(1.8, 5e6, 256, 16)
	required := RequiredTPS(peak, 0.63)
	nodes := Nodes(GPUs(required, 1850), 4)
	payback, err := PaybackMonths(1_826_055, 11*28_000, 11*4, 3.63, 0.70)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []example{
		{"peak_output_tps", peak, 40_000, 1e-6},
		{"the average", PeakOutputTPS(1, 5e6, 256, 24), 14_815, 0.5},
		{"required_tps", required, 63_492, 0.5},
		{"gpus", GPUs(required, 1850), 35, 0},
		{"nodes before head-room", nodes, 9, 0},
		{"nodes", NodesWithHeadroom(nodes, 0.15), 11, 0},
		{"rho_max of M/M/1 at 200 ms", RhoMax(200, 164, 1), 0.55, 0.001},
		{"rho_max of M/M/1 at 300 ms", RhoMax(300, 176, 1), 0.63, 0.001},
		{"rho_max of M/M/1 at 400 ms", RhoMax(400, 171, 1), 0.70, 0.001},
		{"rho_max of M/M/1 at 500 ms", RhoMax(500, 167, 1), 0.75, 0.001},
		{"rho_max of M/M/1 is W/(W+s)", RhoMax(0.3, 0.2, 1), 0.3 / 0.5, 1e-12},
		{"rho_max of M/D/1", RhoMax(0.3, 0.2, 0), 0.75, 1e-12},
		{"node cost of S", NodeCostPerYear(166_005, 3, 28_000), 83_335, 1},
		{"node cost of the example plan", NodeCostPerYear(166_005, 4, 41_799), 83_300, 1},
		{"eur_per_gpu_hour at 40 %", CostPerGPUHour(node, 4, 0.40), 5.94, 0.005},
		{"eur_per_gpu_hour at 55 %", CostPerGPUHour(node, 4, 0.55), 4.32, 0.005},
		{"eur_per_gpu_hour at 63 %", CostPerGPUHour(node, 4, 0.63), 3.77, 0.005},
		{"eur_per_gpu_hour at 70 %", CostPerGPUHour(node, 4, 0.70), 3.40, 0.005},
		{"eur_per_gpu_hour at 80 %", CostPerGPUHour(node, 4, 0.80), 2.97, 0.005},
		{"eur_per_gpu_hour at 100 %", CostPerGPUHour(node, 4, 1), 2.38, 0.005},
		{"eur_per_million_tokens", CostPerMillionTokens(CostPerGPUHour(node, 4, 0.63), 1850), 0.567, 0.0005},
		{"break_even_utilisation against AWS", BreakEvenUtilisation(node, 4, 3.63), 0.655, 0.0005},
		{"payback_months against AWS at 70 %", payback, 32.6, 0.05},
		{"saturation_years at 30 % growth", SaturationYears(0.40, 0.30), 3.5, 0.05},
		{"headroom_cost", HeadroomCost(0.15, node, 9), 112_455, 1e-6},
	} {
		e.check(t)
	}
	if _, err := PaybackMonths(166_005, 28_000, 4, 0.5, 0.7); !errors.Is(err, ErrNeverPaysBack) {
		t.Errorf("renting for less than the opex pays back: %v", err)
	}
}

func TestRhoMaxFromTable(t *testing.T) {
	t.Parallel()
	for wait, want := range map[float64]float64{200: 0.55, 300: 0.63, 400: 0.70, 500: 0.75, 250: 0.59} {
		got, err := RhoMaxFromTable(wait)
		if err != nil {
			t.Error(err)
		}
		example{"rho_max", got, want, 1e-12}.check(t)
	}
	for _, wait := range []float64{199, 501} {
		if rho, err := RhoMaxFromTable(wait); err == nil {
			t.Errorf("the table has %v for %v ms", rho, wait)
		}
	}
}
