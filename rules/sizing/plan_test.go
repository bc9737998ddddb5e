package sizing

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// agentsPlan has every key, with the values of the 30B example.
const agentsPlan = `
plan: agents-30b
date: 2026-09-01
owner: platform
pool: agents
slo: {ttft_p95_ms: 2000, itl_p95_ms: 60, tokens_per_s_per_user: 20, wait_mean_ms: 300, rps_target: null}
workload:
  profiles:
    - {name: developers, people: 20, calls_per_session: 40.6, session_s: 3756, output_tokens_p50: 444, prompt_tokens_p50: 68000, context_tokens_max: 131072,
       hit_ratio: 0.90, fail_share: 0.09, fail_factor: 4, subagent_share: 0.44, subagents: 4, duty_cycle: 0.11}
  requests_per_day: null
  active_hours: 16
  peak_factor: 1.8
  growth_per_year: 0.30
model: {name: qwen3-coder-30b, config_json: models/qwen3-coder-30b.json, parameters: 30.5e9, active_parameters: 3.3e9, weight_dtype: bf16, kv_dtype: fp8}
engine: {name: vllm, version: "0.32", tensor_parallel: 2, gpu_memory_utilization: 0.90, activations_gb: 0, overhead_gb: 15, max_num_seqs: 8, concurrency: null}
hardware: {gpu: H100-SXM-80GB, vram_gb: 80, hbm_gb_per_s: 3350, flops: 989e12, prefill_efficiency: 0.5, gpus_per_node: 4, gpus: 4, nodes: 1, replicas: 2, interconnect: NVLink}
gateway: {workers: 1, replicas: 2, pool_limit: 10, max_connections: 100, max_in_flight_per_worker: 24, concurrent_counts: 4, counter: python, redis: true}
headroom: {peak_over_p95: 0.25, sequence_margin: 0.20, nodes: 0.15}
optimisations: [{name: prefix_caching}, {name: speculative_decoding, acceptance: 0.65, acceptance_min: 0.55, gain: 0.35}]
cost: {currency: EUR, node_capex: 166005, years: 4, node_opex_per_year: 41799, utilisation: 0.63, cloud_price_per_gpu_hour: 3.63, tokens_per_s_per_gpu: 1850}
critical_assumptions: [{name: hbm_efficiency, value: 0.55}]
validation: [{what: guidellm sweep before purchase}]
`

// articlePlan is the file that C prints, as it prints it.
const articlePlan = `
# sizing/llama70b-prod.yaml
fecha: 2026-06-01
slo:
 ttft_p95_ms: 1500
 tpot_p95_ms: 60
 rps_target: 200
workload:
 prompt_tokens_p50: 600
 prompt_tokens_p95: 1200
 output_tokens_p50: 180
 output_tokens_p95: 500
 asunto: chat productivo con RAG ligero
modelo:
 arquitectura: llama-70b-instruct
 formato_pesos: fp8
 motor: vllm-v1
hardware:
 gpu: H100-SXM-80GB
 topologia: TP=4 con NVLink intra-nodo
 red_inter_replica: 25 GbE
optimizaciones:
 - paged_attention
 - chunked_prefill
 - speculative_decoding (drafter llama-1.1b, aceptación esperada 65%)
asunciones_criticas:
 - utilizacion_hbm_eficiente: 0.55
 - head_room_pico_sobre_p95: 0.25
 - aceptacion_speculative_min: 0.55
plan_validacion:
 - benchmark vllm bench serve antes de procurement
 - canary 10% durante 7 días post-deploy
`

func decodePlan(text string) (*Plan, error) {
	p := &Plan{}
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	return p, dec.Decode(p)
}

func readPlan(t *testing.T, text string) *Plan {
	t.Helper()
	p, err := decodePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// keys of the plan that have a number, with it.
func numbersGiven(p *Plan) map[string]float64 {
	given := map[string]float64{}
	for _, n := range p.numbers() {
		if *n.value != nil {
			given[n.key] = **n.value
		}
	}
	return given
}

func TestPlanHasEveryKey(t *testing.T) {
	t.Parallel()
	p := readPlan(t, agentsPlan)
	given := numbersGiven(p)
	for _, key := range []string{
		"slo.ttft_p95_ms", "workload.profiles.developers.hit_ratio", "workload.growth_per_year", "model.parameters", "engine.overhead_gb",
		"hardware.flops", "gateway.max_in_flight_per_worker", "headroom.nodes", "optimisations.speculative_decoding.gain", "cost.tokens_per_s_per_gpu",
		"critical_assumptions.hbm_efficiency.value",
	} {
		if _, ok := given[key]; !ok {
			t.Errorf("%s has no number: %v", key, given)
		}
	}
	if p.Plan != "agents-30b" || p.Date != "2026-09-01" || p.Engine.Version != "0.32" || p.Validation[0].What != "guidellm sweep before purchase" || !*p.Gateway.Redis {
		t.Errorf("%+v", p)
	}
	if p.SLO.RPSTarget != nil {
		t.Error("null is a number")
	}
}

// TestArticlePlan: C's own file loads, and says the same by our keys.
func TestArticlePlan(t *testing.T) {
	t.Parallel()
	want := readPlan(t, `
date: 2026-06-01
slo: {ttft_p95_ms: 1500, itl_p95_ms: 60, rps_target: 200}
workload: {prompt_tokens_p50: 600, prompt_tokens_p95: 1200, output_tokens_p50: 180, output_tokens_p95: 500, subject: chat productivo con RAG ligero}
model: {name: llama-70b-instruct, weight_dtype: fp8}
engine: {name: vllm-v1, tensor_parallel: 4}
hardware: {gpu: H100-SXM-80GB, interconnect: TP=4 con NVLink intra-nodo, inter_replica_network: 25 GbE}
headroom: {peak_over_p95: 0.25}
optimisations:
  - {name: paged_attention}
  - {name: chunked_prefill}
  - {name: speculative_decoding, acceptance: 0.65, acceptance_min: 0.55, note: "drafter llama-1.1b, aceptación esperada 65%"}
critical_assumptions: [{name: hbm_efficiency, value: 0.55}]
validation: [{what: benchmark vllm bench serve antes de procurement}, {what: canary 10% durante 7 días post-deploy}]
`)
	if diff := cmp.Diff(want, readPlan(t, articlePlan), cmp.AllowUnexported(Model{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestPlanWritten: what is written is read again, with the same meaning.
func TestPlanWritten(t *testing.T) {
	t.Parallel()
	for _, text := range []string{agentsPlan, articlePlan, "{}"} {
		p := readPlan(t, text)
		written, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, readPlan(t, string(written)), cmp.AllowUnexported(Model{})); diff != "" {
			t.Errorf("-read +written\n%s\n%s", diff, written)
		}
		if bytes.Contains(written, []byte("null")) {
			t.Errorf("what is absent is written:\n%s", written)
		}
	}
}

func TestPlanRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ plan, want string }{
		{"planed: x", "field planed not found"},
		{"slo:\n  ttft: 3", "line 2: field ttft not found"},
		{"workload: {profiles: [{name: a, poeple: 3}]}", "field poeple not found"},
		{"slo: {itl_p95_ms: fast}", "cannot unmarshal"},
		{"slo: {itl_p95_ms: 60, tpot_p95_ms: 60}", "slo: tpot_p95_ms is the same key"},
		{"date: 2026-09-01\nfecha: 2026-09-01", "date: fecha is the same key"},
		{"model: {name: a}\nmodelo: {arquitectura: b}", "model: modelo is the same key"},
		{"optimisations: [a]\noptimizaciones: [b]", "optimisations: optimizaciones is the same key"},
		{"engine: {name: a}\nmodel: {motor: b}", "engine: motor is the same key"},
		{"headroom: {peak_over_p95: 0.2}\ncritical_assumptions: [{head_room_pico_sobre_p95: 0.25}]", "critical_assumptions: head_room_pico_sobre_p95 is the same key"},
		{"date: September", `date is "September": write year-month-day`},
		{"slo: {itl_p95_ms: 0}", "slo: itl_p95_ms is 0: more than 0"},
		{"slo: {itl_p95_ms: .nan}", "slo: itl_p95_ms is NaN"},
		{"workload: {hit_ratio: 1.5}", "workload: hit_ratio is 1.5: at most 1"},
		{"workload: {profiles: [{name: a}, {name: b, hit_ratio: -1}]}", "workload: profiles: 1: hit_ratio is -1: at least 0"},
		{"workload: {profiles: [{name: a}, {name: a}]}", `workload: profiles: 1: name "a" is there twice`},
		{"workload: {profiles: [{name: a}, {people: 3}]}", "workload: profiles: 1: name is missing"},
		{"workload: {profiles: [{name: a.b}]}", "holds one of"},
		{"workload: {people: 3, profiles: [{name: a}]}", "workload: people stands beside profiles"},
		{"engine: {tensor_parallel: 1.5}", "engine: tensor_parallel is 1.5: a whole number"},
		{"optimisations: [{name: speculative_decoding, gain: 1}]", "optimisations: 0: gain is 1: less than 1"},
		{"optimisations: [{gain: 0.1}]", "optimisations: 0: name is missing"},
		{"optimisations: ['two words']", "is no name"},
		{"model: {weight_dtype: fp7}", `model: weight_dtype: "fp7" is not a known type`},
		{"model: {kv_dtype: fp7}", `model: kv_dtype: "fp7" is not a known type`},
		{"model: {parameters: 1e9, active_parameters: 2e9}", "model: active_parameters is 2e+09: no more than parameters"},
		{"gateway: {counter: go}", `gateway: counter is "go"`},
		{"critical_assumptions: [{name: a}]", "critical_assumptions: 0: a has no value"},
		{"critical_assumptions: [{value: 1}]", "critical_assumptions: 0: name is missing"},
		{"critical_assumptions: [{a: 1}, {a: 2}]", "critical_assumptions: 1: a is there twice"},
		{"critical_assumptions: [{tpot_ms: 0}]", "critical_assumptions: 0: tpot_ms is 0: more than 0"},
		{"critical_assumptions: [{hbm_efficiency: 55}]", "critical_assumptions: 0: hbm_efficiency is 55: at most 1"},
	} {
		if _, err := decodePlan(c.plan); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.plan, err, c.want)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	p := readPlan(t, agentsPlan)
	for _, c := range []struct {
		key, value, number string
		want               float64
	}{
		{"engine.tensor_parallel", "4", "engine.tensor_parallel", 4},
		{"workload.profiles.developers.people", "40", "workload.profiles.developers.people", 40},
		{"workload.profiles.0.people", "40", "workload.profiles.developers.people", 40},
		{"workload.profiles[0].people", "40", "workload.profiles.developers.people", 40},
		{"workload.people", "40", "workload.profiles.developers.people", 40},
		{"slo.rps_target", "3", "slo.rps_target", 3},
		{"workload.requests_per_day", "5e6", "workload.requests_per_day", 5e6},
		{"optimisations.speculative_decoding.gain", "0.2", "optimisations.speculative_decoding.gain", 0.2},
		{"critical_assumptions.hbm_efficiency.value", "0.6", "critical_assumptions.hbm_efficiency.value", 0.6},
		{"cost", "{utilisation: 0.4}", "cost.utilisation", 0.4},
	} {
		changed, err := p.Set(c.key, c.value)
		if err != nil {
			t.Errorf("%s: %v", c.key, err)
			continue
		}
		if got := numbersGiven(changed)[c.number]; got != c.want {
			t.Errorf("%s=%s: %s is %v", c.key, c.value, c.number, got)
		}
	}
	if changed, err := p.Set("slo.itl_p95_ms", ""); err != nil || changed.SLO.ITLP95Ms != nil {
		t.Errorf("an empty value is not absent: %v, %v", changed, err)
	}
	if changed, err := p.Set("model.kv_dtype", "bf16"); err != nil || changed.Model.KVDType != "bf16" || p.Model.KVDType != "fp8" {
		t.Errorf("the type is not set, or the plan itself was changed: %v", err)
	}
	two, err := p.Set("workload.profiles", "[{name: a, people: 1}, {name: b, people: 2}]")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		plan             *Plan
		key, value, want string
	}{
		{p, "engine.tensor", "4", "field tensor not found"},
		{p, "workload.profiles.testers.people", "4", `there is no entry "testers"`},
		{p, "plan.name.x", "4", "there is nothing below it"},
		{p, "engine.tensor_parallel", "[", "did not find"},
		{p, "workload.hit_ratio", "90", "at most 1"},
		{p, ".", "1", "there is no key"},
		{two, "workload.people", "3", "the plan has 2 profiles: write workload.profiles.a.people"},
	} {
		if _, err := c.plan.Set(c.key, c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v; want %s", c.key, c.value, err, c.want)
		}
	}
}

func FuzzPlan(f *testing.F) {
	for _, text := range []string{agentsPlan, articlePlan, "{}", "workload: {profiles: [{name: a}, {name: b}]}", "optimisations: [a (b 5%)]", "motor: x", "cost: [1]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := decodePlan(text)
		if err != nil {
			return
		}
		written, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodePlan(string(written)); err != nil {
			t.Errorf("what is written is not read: %v\n%s", err, written)
		}
		for _, s := range Size(p, class30()).Steps {
			if s.Value != nil && (math.IsNaN(*s.Value) || math.IsInf(*s.Value, 0)) {
				t.Errorf("%s is %v", s.Name, *s.Value)
			}
		}
	})
}
