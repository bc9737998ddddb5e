package main

import (
	"fmt"
	"math"
	"time"

	"kvwatch/rules/sizing"
	"kvwatch/rules/sizing/guidellm"
)

// kneeReport is the JSON form of `kvwatch knee REPORT`; knee.schema.json is
// generated from it.
type kneeReport struct {
	// Levels in the order of the load that they offered.
	Levels []kneeLevel `json:"levels"`
	Knee   kneePoint   `json:"knee"`
	// Warnings are what to know before believing it.
	Warnings []string `json:"warnings"`
	// File is the report's, Layout that of GuideLLM by which it was read, and
	// Version GuideLLM's own where it is written.
	File    string `json:"file"`
	Layout  string `json:"layout"`
	Version string `json:"version,omitempty"`
	Model   string `json:"model,omitempty"`
	Target  string `json:"target,omitempty"`
	// SLO is what had to hold.
	SLO string `json:"slo"`
	// Sizing is what the knee means in replicas and money.
	Sizing *kneeSizing `json:"sizing,omitempty"`
	// Baseline is how it stands against another; only with --baseline.
	Baseline *kneeBaseline `json:"baseline,omitempty"`
}

// kneeLevel is one level; what is unknown is null.
type kneeLevel struct {
	Strategy string `json:"strategy"`
	// Rate offered, null in a closed loop.
	Rate         *float64 `json:"rate" jsonschema:"oneof_type=number;null"`
	AchievedRate *float64 `json:"achieved_rate" jsonschema:"oneof_type=number;null"`
	// Concurrency of a closed loop, else the mean that was seen.
	Concurrency *float64 `json:"concurrency" jsonschema:"oneof_type=number;null"`
	TTFTP95     *float64 `json:"ttft_p95_seconds" jsonschema:"oneof_type=number;null"`
	TTFTP99     *float64 `json:"ttft_p99_seconds" jsonschema:"oneof_type=number;null"`
	ITLP95      *float64 `json:"itl_p95_seconds" jsonschema:"oneof_type=number;null"`
	ITLP99      *float64 `json:"itl_p99_seconds" jsonschema:"oneof_type=number;null"`
	OutputTPS   *float64 `json:"output_tokens_per_second" jsonschema:"oneof_type=number;null"`
	// Goodput is output tokens per second within the SLO, and GoodputFrom what it
	// was found by.
	Goodput     *float64 `json:"goodput" jsonschema:"oneof_type=number;null"`
	GoodputFrom string   `json:"goodput_from,omitempty" jsonschema:"enum=report,enum=report_unstated,enum=requests,enum=sample,enum=throughput"`
	ErrorsRatio *float64 `json:"errors_ratio" jsonschema:"oneof_type=number;null"`
	// Measured says whether all that the SLO asks for was measured.
	Measured bool `json:"measured"`
	// MeetsSLO is the SLO alone; Holds needs few errors and the offered rate too.
	MeetsSLO bool `json:"meets_slo"`
	Holds    bool `json:"holds"`
	// Why it does not hold.
	Why []string `json:"why,omitempty"`
	// Start and End bound what was measured, null where the report does not say.
	Start *time.Time `json:"start" jsonschema:"oneof_type=string;null"`
	End   *time.Time `json:"end" jsonschema:"oneof_type=string;null"`
	// PowerWatts of all GPUs over that time, and the energy of an output token; only
	// with --prometheus.url.
	PowerWatts     *float64 `json:"power_watts,omitempty"`
	JoulesPerToken *float64 `json:"joules_per_token,omitempty"`
}

// kneePoint is the knee.
type kneePoint struct {
	// Level counts from 0; null where none holds.
	Level       *int     `json:"level" jsonschema:"oneof_type=integer;null"`
	Rate        *float64 `json:"rate" jsonschema:"oneof_type=number;null"`
	Concurrency *float64 `json:"concurrency" jsonschema:"oneof_type=number;null"`
	// Reason is what ends it; "at least" where every level holds.
	Reason string `json:"reason"`
	// Goodput there, null where it is unknown.
	Goodput *float64 `json:"goodput" jsonschema:"oneof_type=number;null"`
}

func newKneeReport(file string, read *guidellm.Report, slo sizing.Objectives, judged []sizing.JudgedLevel, knee sizing.Knee) *kneeReport {
	r := &kneeReport{
		Levels: make([]kneeLevel, len(judged)), Warnings: append([]string{}, read.Warnings...),
		File: file, Layout: read.Layout, Version: read.Version, Model: read.Model, Target: read.Target, SLO: slo.String(),
		Knee: kneePoint{Level: knee.Level, Reason: knee.Reason},
	}
	for i := range judged {
		r.Levels[i] = newKneeLevel(&judged[i])
	}
	if at := r.at(); at != nil {
		r.Knee.Rate, r.Knee.Concurrency, r.Knee.Goodput = at.Rate, at.Concurrency, at.Goodput
	}
	return r
}

// at is the level at the knee; nil where there is none.
func (r *kneeReport) at() *kneeLevel {
	if r.Knee.Level == nil {
		return nil
	}
	return &r.Levels[*r.Knee.Level]
}

func newKneeLevel(j *sizing.JudgedLevel) kneeLevel {
	quantile := func(m sizing.Metric, q string) *float64 {
		if v, ok := j.Quantile(m, q); ok {
			return &v
		}
		return nil
	}
	l := kneeLevel{
		Strategy: j.Strategy, Rate: j.Rate, AchievedRate: j.AchievedRate, Concurrency: j.Concurrency(),
		TTFTP95: quantile(sizing.TTFT, sizing.P95), TTFTP99: quantile(sizing.TTFT, sizing.P99),
		ITLP95: quantile(sizing.ITL, sizing.P95), ITLP99: quantile(sizing.ITL, sizing.P99),
		OutputTPS: j.OutputTPS, Goodput: j.Goodput, GoodputFrom: j.GoodputFrom, ErrorsRatio: j.ErrorsRatio(),
		Measured: j.Measured, MeetsSLO: j.MeetsSLO, Holds: j.Holds, Why: j.Why,
	}
	if !j.Start.IsZero() && j.End.After(j.Start) {
		l.Start, l.End = &j.Start, &j.End
	}
	return l
}

// warnOfKnee warns of what makes this knee say less than it seems to.
func (r *kneeReport) warnOfKnee(read *guidellm.Report, demand kneeDemand) {
	warn := func(format string, a ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, a...)) }
	at := r.at()
	switch {
	case at == nil:
		warn("no level holds: begin the test with less load, or see why the lowest one fails")
		return
	case r.Knee.Reason == sizing.ReasonAtLeast:
		warn("every level holds: the load was never great enough to find the knee; what is found is the least that it is")
	case !r.Levels[*r.Knee.Level+1].Measured:
		warn("the level past the knee was not measured: the knee may lie higher")
	}
	if later := r.holdsAgain(); later > 0 {
		warn("level %d holds although level %d does not: the target was not steady, or the levels are too short; the lowest that fails counts", later, *r.Knee.Level+1)
	}
	switch at.GoodputFrom {
	case sizing.FromSample:
		warn("the goodput is an estimate from the requests that the report kept")
	case sizing.FromReportUnknown:
		warn("the goodput is the report's own, by objectives that it does not state")
	case sizing.FromThroughput:
		if r.SLO == "none" {
			break
		}
		warn("the report does not say which requests were within the SLO: the goodput at the knee is the whole throughput there")
	}
	if planned := demand.hitRatio; planned != nil && read.CachedShare != nil && math.Abs(*planned-*read.CachedShare) > 0.2 {
		warn("the plan expects %.0f %% of the prompt tokens from the cache, and in the test it was %.0f %%: the knee is not that of the plan's traffic", 100**planned, 100**read.CachedShare)
	}
}

// holdsAgain is the first level past the knee that holds again; 0 where none does.
func (r *kneeReport) holdsAgain() int {
	for i := *r.Knee.Level + 2; i < len(r.Levels); i++ {
		if r.Levels[i].Holds {
			return i
		}
	}
	return 0
}

// kneeDemand is what has to be served, and at what price.
type kneeDemand struct {
	tps, rps float64
	price    float64
	currency string
	hitRatio *float64
}

// demandOf is the demand that the flags give, else the plan's peak with its
// head-room.
func (o kneeOptions) demandOf(plan *planFile) kneeDemand {
	d := kneeDemand{tps: o.demandTPS, rps: o.demandRPS, price: o.price, currency: o.currency}
	if plan == nil {
		return d
	}
	w := sizing.Size(plan.Plan, plan.config())
	value := func(name string) float64 {
		if s, ok := w.Step(name); ok && s.Value != nil {
			return *s.Value
		}
		return 0
	}
	if d.tps == 0 && d.rps == 0 {
		headroom := 1.0
		if plan.Headroom.PeakOverP95 != nil {
			headroom += *plan.Headroom.PeakOverP95
		}
		d.tps, d.rps = value("peak_output_tps")*headroom, value("peak_rps")*headroom
	}
	if d.price == 0 {
		gpus := 1.0
		if plan.Engine.TensorParallel != nil {
			gpus = *plan.Engine.TensorParallel
		}
		if d.price = value("eur_per_gpu_hour") * gpus; plan.Cost.Currency != "" {
			d.currency = plan.Cost.Currency
		}
	}
	d.hitRatio = plan.Workload.HitRatio
	return d
}

// kneeSizing is what a knee means in replicas and money.
type kneeSizing struct {
	// TestedReplicas that the target had; what follows is of one.
	TestedReplicas float64 `json:"tested_replicas"`
	// DemandTPS and DemandRPS are what has to be served at the peak.
	DemandTPS float64 `json:"demand_output_tokens_per_second,omitempty"`
	DemandRPS float64 `json:"demand_requests_per_second,omitempty"`
	// Replicas that it takes, each at its knee: none is spare.
	Replicas float64 `json:"replicas,omitempty"`
	// PricePerHour of a replica, and what a million output tokens within the SLO cost.
	PricePerHour   float64 `json:"replica_price_per_hour,omitempty"`
	CostPerMillion float64 `json:"cost_per_million_tokens,omitempty"`
	Currency       string  `json:"currency,omitempty"`
	// CostPerHour is that of all replicas.
	CostPerHour float64 `json:"cost_per_hour,omitempty"`
}

// size turns the knee into replicas and money, where the knee has a goodput and
// somebody asked.
func (r *kneeReport) size(d kneeDemand, tested float64) {
	at := r.at()
	if at == nil || at.Goodput == nil || *at.Goodput <= 0 || d.tps == 0 && d.rps == 0 && d.price == 0 {
		return
	}
	s := &kneeSizing{TestedReplicas: tested, DemandTPS: d.tps, DemandRPS: d.rps}
	goodput := *at.Goodput / tested
	if d.tps > 0 {
		s.Replicas = sizing.Ceil(d.tps / goodput)
	}
	if d.rps > 0 && at.AchievedRate != nil && *at.AchievedRate > 0 {
		s.Replicas = max(s.Replicas, sizing.Ceil(d.rps/(*at.AchievedRate/tested)))
	}
	if d.price > 0 {
		s.PricePerHour, s.Currency = d.price, d.currency
		s.CostPerMillion = sizing.CostPerMillionTokens(d.price, goodput)
		s.CostPerHour = d.price * s.Replicas
	}
	r.Sizing = s
}

// kneeComparison is the JSON form of several reports.
type kneeComparison struct {
	Reports []*kneeReport `json:"reports"`
	// Best is the file with the greatest goodput at its knee; null where none has one.
	Best *string `json:"best" jsonschema:"oneof_type=string;null"`
	// Failed are reports that could not be read.
	Failed []string `json:"failed"`
}

func newKneeComparison(reports []*kneeReport, failed []error) *kneeComparison {
	c := &kneeComparison{Reports: reports, Failed: []string{}}
	for _, err := range failed {
		c.Failed = append(c.Failed, err.Error())
	}
	best := 0.0
	for _, r := range reports {
		if g := r.Knee.Goodput; g != nil && *g > best {
			best, c.Best = *g, &r.File
		}
	}
	return c
}
