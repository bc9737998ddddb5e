package sizing

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// Plan is a sizing plan as a team keeps it: what is promised, what load is
// expected, on what it runs, and what was assumed. Every key is optional unless
// a formula that is asked for needs it; a number that is absent is unknown,
// never zero. The keys that C prints in Spanish are taken as aliases.
//
// The bounds of the numbers are in the jsonschema tags: the schema for editors
// and the plan's own check read the same.
type Plan struct {
	// Plan is its name, used in series and alerts; left out, the file's.
	Plan string `yaml:"plan,omitempty"`
	// Date on which it was written: year-month-day.
	Date string `yaml:"date,omitempty" jsonschema:"format=date"`
	// Owner is who answers for it.
	Owner string `yaml:"owner,omitempty"`
	// Pool is the pool of the configuration that it is about.
	Pool string `yaml:"pool,omitempty"`
	// SLO is what is promised.
	SLO SLO `yaml:"slo,omitempty"`
	// Workload is the load that is expected.
	Workload Workload `yaml:"workload,omitempty"`
	// Model is what is served.
	Model Model `yaml:"model,omitempty"`
	// Engine is how vLLM is started.
	Engine Engine `yaml:"engine,omitempty"`
	// Hardware is what it runs on.
	Hardware Hardware `yaml:"hardware,omitempty"`
	// Gateway is the LiteLLM in front.
	Gateway Gateway `yaml:"gateway,omitempty"`
	// Headroom is what is added to each result.
	Headroom Headroom `yaml:"headroom,omitempty"`
	// Optimisations are in force.
	Optimisations []Optimisation `yaml:"optimisations,omitempty"`
	// Cost is what it costs, in one currency.
	Cost Cost `yaml:"cost,omitempty"`
	// CriticalAssumptions are numbers that the plan stands on and that are in no
	// other key. Those that formulas read: tpot_ms, hbm_efficiency, service_ms,
	// service_cv2, count_ms.
	CriticalAssumptions []Assumption `yaml:"critical_assumptions,omitempty"`
	// Validation is how the plan is checked before money is spent.
	Validation []Validation `yaml:"validation,omitempty"`
}

// SLO is what is promised.
type SLO struct {
	// TTFTP95Ms is the time to the first token, in milliseconds.
	TTFTP95Ms *float64 `yaml:"ttft_p95_ms,omitempty" jsonschema:"exclusiveMinimum=0"`
	// ITLP95Ms is the time between output tokens, in milliseconds.
	ITLP95Ms *float64 `yaml:"itl_p95_ms,omitempty" jsonschema:"exclusiveMinimum=0"`
	// TokensPerSPerUser is what a user sees of the output, in tokens per second.
	TokensPerSPerUser *float64 `yaml:"tokens_per_s_per_user,omitempty" jsonschema:"exclusiveMinimum=0"`
	// WaitMeanMs is how long a request may wait on average, in milliseconds.
	WaitMeanMs *float64 `yaml:"wait_mean_ms,omitempty" jsonschema:"exclusiveMinimum=0"`
	// RPSTarget is the rate to be sustained, in requests per second.
	RPSTarget *float64 `yaml:"rps_target,omitempty" jsonschema:"exclusiveMinimum=0"`
}

// Workload is the load. A workload without profiles is one profile, of the
// fields beside them; with profiles these are what a profile leaves out.
type Workload struct {
	// Subject says in words what the load is.
	Subject string `yaml:"subject,omitempty"`
	// Profiles are populations of users, sized separately and added.
	Profiles []Profile `yaml:"profiles,omitempty"`
	// RequestsPerDay is the average of a day.
	RequestsPerDay *float64 `yaml:"requests_per_day,omitempty" jsonschema:"exclusiveMinimum=0"`
	// ActiveHours are those of a day with traffic; left out, 24.
	ActiveHours *float64 `yaml:"active_hours,omitempty" jsonschema:"exclusiveMinimum=0,maximum=24"`
	// PeakFactor is the busy hour over the average; left out, 1.
	PeakFactor *float64 `yaml:"peak_factor,omitempty" jsonschema:"minimum=1"`
	// GrowthPerYear is by which share demand grows each year.
	GrowthPerYear *float64 `yaml:"growth_per_year,omitempty" jsonschema:"exclusiveMinimum=0"`
	Load          `yaml:",inline"`
}

// Profile is one population of users.
type Profile struct {
	// Name of the profile, unique in its plan.
	Name string `yaml:"name,omitempty"`
	Load `yaml:",inline"`
}

// Load is what one population does.
type Load struct {
	// People who work at the same time.
	People *float64 `yaml:"people,omitempty" jsonschema:"exclusiveMinimum=0"`
	// CallsPerSession are model calls, the agent's own too.
	CallsPerSession *float64 `yaml:"calls_per_session,omitempty" jsonschema:"exclusiveMinimum=0"`
	// SessionS is how long a session lasts, in seconds.
	SessionS *float64 `yaml:"session_s,omitempty" jsonschema:"exclusiveMinimum=0"`
	// PromptTokensP50 is the median prompt of a call, cached tokens included.
	PromptTokensP50 *float64 `yaml:"prompt_tokens_p50,omitempty" jsonschema:"exclusiveMinimum=0"`
	// PromptTokensP95 is its 95th percentile.
	PromptTokensP95 *float64 `yaml:"prompt_tokens_p95,omitempty" jsonschema:"exclusiveMinimum=0"`
	// OutputTokensP50 is the median output of a call.
	OutputTokensP50 *float64 `yaml:"output_tokens_p50,omitempty" jsonschema:"exclusiveMinimum=0"`
	// OutputTokensP95 is its 95th percentile.
	OutputTokensP95 *float64 `yaml:"output_tokens_p95,omitempty" jsonschema:"exclusiveMinimum=0"`
	// ContextTokensMax is the longest context of a sequence that must fit.
	ContextTokensMax *float64 `yaml:"context_tokens_max,omitempty" jsonschema:"exclusiveMinimum=0"`
	// HitRatio is the share of prompt tokens that the prefix cache holds; left out,
	// 0.
	HitRatio *float64 `yaml:"hit_ratio,omitempty" jsonschema:"minimum=0,maximum=1"`
	// FailShare is the share of turns with failing tools, FailFactor by what they
	// multiply the calls.
	FailShare  *float64 `yaml:"fail_share,omitempty" jsonschema:"minimum=0,maximum=1"`
	FailFactor *float64 `yaml:"fail_factor,omitempty" jsonschema:"minimum=1"`
	// SubagentShare is the share of sessions with subagents, Subagents how many
	// those have.
	SubagentShare *float64 `yaml:"subagent_share,omitempty" jsonschema:"minimum=0,maximum=1"`
	Subagents     *float64 `yaml:"subagents,omitempty" jsonschema:"minimum=1"`
	// DutyCycle is the share of a session in which a call is running; left out, it
	// is computed for decode alone.
	DutyCycle *float64 `yaml:"duty_cycle,omitempty" jsonschema:"exclusiveMinimum=0,maximum=1"`
}

// Model is what is served.
type Model struct {
	// Name of the model.
	Name string `yaml:"name,omitempty"`
	// ConfigJSON is the path of its Hugging Face config.json, from the plan's folder.
	ConfigJSON string `yaml:"config_json,omitempty"`
	// Parameters are all of them; ActiveParameters those that a token goes through,
	// left out for a dense model.
	Parameters       *float64 `yaml:"parameters,omitempty" jsonschema:"exclusiveMinimum=0"`
	ActiveParameters *float64 `yaml:"active_parameters,omitempty" jsonschema:"exclusiveMinimum=0"`
	// WeightDType is the type of the weights: bf16, fp8, int4, ...
	WeightDType string `yaml:"weight_dtype,omitempty"`
	// KVDType is the type of the KV cache: bf16, fp8, ... or auto, the model's.
	KVDType string `yaml:"kv_dtype,omitempty"`

	// engine is the engine's name where C's file has it beside the model.
	engine string
}

// Engine is how vLLM is started.
type Engine struct {
	Name    string `yaml:"name,omitempty"`
	Version string `yaml:"version,omitempty"`
	// TensorParallel is the GPUs of a replica; left out, 1.
	TensorParallel *float64 `yaml:"tensor_parallel,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	// GPUMemoryUtilization is the share of a GPU's memory that the engine takes;
	// left out, all of it.
	GPUMemoryUtilization *float64 `yaml:"gpu_memory_utilization,omitempty" jsonschema:"exclusiveMinimum=0,maximum=1"`
	// ActivationsGB and OverheadGB are what it takes of that for neither weights nor
	// KV cache, on each GPU; left out, 0.
	ActivationsGB *float64 `yaml:"activations_gb,omitempty" jsonschema:"minimum=0"`
	OverheadGB    *float64 `yaml:"overhead_gb,omitempty" jsonschema:"minimum=0"`
	// MaxNumSeqs is the --max-num-seqs that is planned.
	MaxNumSeqs *float64 `yaml:"max_num_seqs,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	// MaxNumBatchedTokens is the --max-num-batched-tokens that is planned.
	MaxNumBatchedTokens *float64 `yaml:"max_num_batched_tokens,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	// Concurrency is how many sequences a replica runs within the SLO, measured.
	Concurrency *float64 `yaml:"concurrency,omitempty" jsonschema:"exclusiveMinimum=0"`
}

// Hardware is what it runs on.
type Hardware struct {
	GPU string `yaml:"gpu,omitempty"`
	// VRAMGB is the memory of a GPU, in GB of 1e9 bytes.
	VRAMGB *float64 `yaml:"vram_gb,omitempty" jsonschema:"exclusiveMinimum=0"`
	// HBMGBPerS is its memory bandwidth, in GB per second.
	HBMGBPerS *float64 `yaml:"hbm_gb_per_s,omitempty" jsonschema:"exclusiveMinimum=0"`
	// FLOPS is its peak, in operations per second.
	FLOPS *float64 `yaml:"flops,omitempty" jsonschema:"exclusiveMinimum=0"`
	// PrefillEfficiency is the share of it that prefill reaches; left out, 0.5.
	PrefillEfficiency *float64 `yaml:"prefill_efficiency,omitempty" jsonschema:"exclusiveMinimum=0,maximum=1"`
	GPUsPerNode       *float64 `yaml:"gpus_per_node,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	// GPUs, Nodes and Replicas are what is planned.
	GPUs     *float64 `yaml:"gpus,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	Nodes    *float64 `yaml:"nodes,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	Replicas *float64 `yaml:"replicas,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	// Interconnect is how the GPUs of a replica are joined, InterReplicaNetwork how
	// the replicas are.
	Interconnect        string `yaml:"interconnect,omitempty"`
	InterReplicaNetwork string `yaml:"inter_replica_network,omitempty"`
}

// Gateway is the LiteLLM in front.
type Gateway struct {
	// Workers of a replica; left out, 1.
	Workers  *float64 `yaml:"workers,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	Replicas *float64 `yaml:"replicas,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	// PoolLimit is the database connections of a worker; left out, 10.
	PoolLimit *float64 `yaml:"pool_limit,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	// MaxConnections is what the database takes.
	MaxConnections *float64 `yaml:"max_connections,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	// MaxInFlightPerWorker is the admission cap of a worker; left out, none.
	MaxInFlightPerWorker *float64 `yaml:"max_in_flight_per_worker,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	// ConcurrentCounts is how many prompts a worker counts at once; left out, 4.
	ConcurrentCounts *float64 `yaml:"concurrent_counts,omitempty" jsonschema:"minimum=1,multipleOf=1"`
	// Counter of tokens: python or rust; left out, python.
	Counter string `yaml:"counter,omitempty" jsonschema:"enum=python,enum=rust"`
	// Redis says whether limits are shared; left out, they are not.
	Redis *bool `yaml:"redis,omitempty"`
}

// Headroom is what is added to a result, as shares; left out, nothing.
type Headroom struct {
	// PeakOverP95 is added to rates.
	PeakOverP95 *float64 `yaml:"peak_over_p95,omitempty" jsonschema:"minimum=0"`
	// SequenceMargin is added to concurrent sequences.
	SequenceMargin *float64 `yaml:"sequence_margin,omitempty" jsonschema:"minimum=0"`
	// Nodes is added to nodes that follow from a throughput.
	Nodes *float64 `yaml:"nodes,omitempty" jsonschema:"minimum=0"`
}

// Optimisation is something that is switched on.
type Optimisation struct {
	Name string `yaml:"name,omitempty"`
	// Acceptance is the share of drafted tokens that is expected to be accepted,
	// AcceptanceMin the least for which it is worth it.
	Acceptance    *float64 `yaml:"acceptance,omitempty" jsonschema:"minimum=0,maximum=1"`
	AcceptanceMin *float64 `yaml:"acceptance_min,omitempty" jsonschema:"minimum=0,maximum=1"`
	// Gain is the share of the time per output token that it saves.
	Gain *float64 `yaml:"gain,omitempty" jsonschema:"minimum=0,exclusiveMaximum=1"`
	Note string   `yaml:"note,omitempty"`
}

// Cost is what it costs.
type Cost struct {
	Currency string `yaml:"currency,omitempty"`
	// NodeCapex is the price of a node, written off over Years.
	NodeCapex *float64 `yaml:"node_capex,omitempty" jsonschema:"minimum=0"`
	Years     *float64 `yaml:"years,omitempty" jsonschema:"exclusiveMinimum=0"`
	// NodeOpexPerYear is energy, people, maintenance and space of a node.
	NodeOpexPerYear *float64 `yaml:"node_opex_per_year,omitempty" jsonschema:"minimum=0"`
	// Utilisation is the share of the time that the GPUs are used, sustained.
	Utilisation *float64 `yaml:"utilisation,omitempty" jsonschema:"exclusiveMinimum=0,maximum=1"`
	// CloudPricePerGPUHour is what renting costs.
	CloudPricePerGPUHour *float64 `yaml:"cloud_price_per_gpu_hour,omitempty" jsonschema:"exclusiveMinimum=0"`
	// TokensPerSPerGPU is the output that a GPU gives within the SLO, measured.
	TokensPerSPerGPU *float64 `yaml:"tokens_per_s_per_gpu,omitempty" jsonschema:"exclusiveMinimum=0"`
}

// Assumption is a number that the plan stands on.
type Assumption struct {
	Name  string   `yaml:"name,omitempty"`
	Value *float64 `yaml:"value,omitempty"`
}

// Validation is a check before money is spent.
type Validation struct {
	What string `yaml:"what,omitempty"`
}

// once takes a value from an alias; both names of a key at once are an error.
func once[T comparable](value *T, alias T, key, aliasKey string) error {
	var none T
	switch {
	case alias == none:
		return nil
	case *value != none:
		return fmt.Errorf("%s: %s is the same key: give one of them", key, aliasKey)
	}
	*value = alias
	return nil
}

// onceList is once for lists.
func onceList[T any](value *[]T, alias []T, key, aliasKey string) error {
	switch {
	case alias == nil:
		return nil
	case *value != nil:
		return fmt.Errorf("%s: %s is the same key: give one of them", key, aliasKey)
	}
	*value = alias
	return nil
}

// UnmarshalYAML decodes strictly, takes the aliases and checks every number.
func (p *Plan) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Plan
	in := struct {
		Plain          *plain         `yaml:",inline"`
		Fecha          string         `yaml:"fecha"`
		Modelo         Model          `yaml:"modelo"`
		Motor          Engine         `yaml:"motor"`
		Optimizaciones []Optimisation `yaml:"optimizaciones"`
		Asunciones     []Assumption   `yaml:"asunciones_criticas"`
		Validacion     []Validation   `yaml:"plan_validacion"`
	}{Plain: (*plain)(p)}
	if err := unmarshal(&in); err != nil {
		return err
	}
	err := errors.Join(
		once(&p.Date, in.Fecha, "date", "fecha"),
		once(&p.Model, in.Modelo, "model", "modelo"),
		once(&p.Engine, in.Motor, "engine", "motor"),
		onceList(&p.Optimisations, in.Optimizaciones, "optimisations", "optimizaciones"),
		onceList(&p.CriticalAssumptions, in.Asunciones, "critical_assumptions", "asunciones_criticas"),
		onceList(&p.Validation, in.Validacion, "validation", "plan_validacion"),
	)
	if err != nil {
		return err
	}
	if err := p.place(); err != nil {
		return err
	}
	return p.check()
}

// tensorParallelIn finds the GPUs of a replica in a topology as C writes it.
var tensorParallelIn = regexp.MustCompile(`^TP\s*=\s*(\d+)\b`)

// place moves what C's file says elsewhere to where it belongs: the engine's
// name beside the model, tensor parallelism in the topology, head-room and
// acceptance among the assumptions.
func (p *Plan) place() error {
	if p.Model.engine != "" {
		if err := once(&p.Engine.Name, p.Model.engine, "engine", "motor"); err != nil {
			return err
		}
		p.Model.engine = ""
	}
	if m := tensorParallelIn.FindStringSubmatch(p.Hardware.Interconnect); m != nil && p.Engine.TensorParallel == nil {
		gpus, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return fmt.Errorf("hardware: interconnect: %w", err)
		}
		p.Engine.TensorParallel = &gpus
	}
	var kept []Assumption
	for _, a := range p.CriticalAssumptions {
		var err error
		switch a.Name {
		case "head_room_pico_sobre_p95":
			err = once(&p.Headroom.PeakOverP95, a.Value, "critical_assumptions", a.Name)
		case "aceptacion_speculative_min":
			err = p.acceptanceMin(a.Value)
		case "utilizacion_hbm_eficiente":
			kept = append(kept, Assumption{Name: assumedHBMEfficiency, Value: a.Value})
		default:
			kept = append(kept, a)
		}
		if err != nil {
			return err
		}
	}
	p.CriticalAssumptions = kept
	return nil
}

func (p *Plan) acceptanceMin(value *float64) error {
	for i := range p.Optimisations {
		if o := &p.Optimisations[i]; o.Name == speculativeDecoding {
			return once(&o.AcceptanceMin, value, "critical_assumptions", "aceptacion_speculative_min")
		}
	}
	p.Optimisations = append(p.Optimisations, Optimisation{Name: speculativeDecoding, AcceptanceMin: value})
	return nil
}

// UnmarshalYAML decodes strictly and takes the aliases.
func (s *SLO) UnmarshalYAML(unmarshal func(any) error) error {
	type plain SLO
	in := struct {
		Plain *plain   `yaml:",inline"`
		TPOT  *float64 `yaml:"tpot_p95_ms"`
	}{Plain: (*plain)(s)}
	if err := unmarshal(&in); err != nil {
		return err
	}
	return once(&s.ITLP95Ms, in.TPOT, "slo", "tpot_p95_ms")
}

// UnmarshalYAML decodes strictly and takes the aliases.
func (w *Workload) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Workload
	in := struct {
		Plain  *plain `yaml:",inline"`
		Asunto string `yaml:"asunto"`
	}{Plain: (*plain)(w)}
	if err := unmarshal(&in); err != nil {
		return err
	}
	return once(&w.Subject, in.Asunto, "workload", "asunto")
}

// UnmarshalYAML decodes strictly and takes the aliases.
func (m *Model) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Model
	in := struct {
		Plain        *plain `yaml:",inline"`
		Arquitectura string `yaml:"arquitectura"`
		Formato      string `yaml:"formato_pesos"`
		Motor        string `yaml:"motor"`
	}{Plain: (*plain)(m)}
	if err := unmarshal(&in); err != nil {
		return err
	}
	m.engine = in.Motor
	return errors.Join(
		once(&m.Name, in.Arquitectura, "model", "arquitectura"),
		once(&m.WeightDType, in.Formato, "model", "formato_pesos"),
	)
}

// UnmarshalYAML decodes strictly; a text is the engine's name.
func (e *Engine) UnmarshalYAML(unmarshal func(any) error) error {
	if unmarshal(&e.Name) == nil {
		return nil
	}
	type plain Engine
	return unmarshal((*plain)(e))
}

// UnmarshalYAML decodes strictly and takes the aliases.
func (h *Hardware) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Hardware
	in := struct {
		Plain     *plain `yaml:",inline"`
		Topologia string `yaml:"topologia"`
		Red       string `yaml:"red_inter_replica"`
	}{Plain: (*plain)(h)}
	if err := unmarshal(&in); err != nil {
		return err
	}
	return errors.Join(
		once(&h.Interconnect, in.Topologia, "hardware", "topologia"),
		once(&h.InterReplicaNetwork, in.Red, "hardware", "red_inter_replica"),
	)
}

// optimisationText is an optimisation as C writes it: a name, and in brackets
// what else there is to say, the acceptance too.
var (
	optimisationText = regexp.MustCompile(`^(\w+)(?:\s*\((.*)\))?$`)
	acceptanceText   = regexp.MustCompile(`(?:aceptación|acceptance)\D*?(\d+(?:\.\d+)?)\s*%`)
)

// UnmarshalYAML decodes strictly; a text is a name with a note.
func (o *Optimisation) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if unmarshal(&text) != nil {
		type plain Optimisation
		return unmarshal((*plain)(o))
	}
	m := optimisationText.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("optimisations: %q is no name: write {name: ..., note: ...}", text)
	}
	o.Name, o.Note = m[1], m[2]
	if m := acceptanceText.FindStringSubmatch(o.Note); m != nil {
		percent, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return fmt.Errorf("optimisations: %q: %w", text, err)
		}
		share := percent / 100
		o.Acceptance = &share
	}
	return nil
}

// UnmarshalYAML decodes strictly; one key with a number is a name and its value.
func (a *Assumption) UnmarshalYAML(unmarshal func(any) error) error {
	var entry map[string]any
	if unmarshal(&entry) == nil && len(entry) == 1 && !isAssumptionKey(entry) {
		var pair map[string]*float64
		if err := unmarshal(&pair); err != nil {
			return err
		}
		for name, value := range pair {
			a.Name, a.Value = name, value
		}
		return nil
	}
	type plain Assumption
	return unmarshal((*plain)(a))
}

// isAssumptionKey says whether an entry has name or value, and is no pair.
func isAssumptionKey(entry map[string]any) bool {
	_, named := entry["name"]
	_, valued := entry["value"]
	return named || valued
}

// UnmarshalYAML decodes strictly; a text is what is to be done.
func (v *Validation) UnmarshalYAML(unmarshal func(any) error) error {
	if unmarshal(&v.What) == nil {
		return nil
	}
	type plain Validation
	return unmarshal((*plain)(v))
}
