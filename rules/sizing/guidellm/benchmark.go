package guidellm

import (
	"math"
	"time"

	"kvwatch/rules/sizing"
)

// maxSample is how many requests of a level are kept.
const maxSample = 100_000

// latencyMetrics are the distributions that are kept, with how many of their units are a second.
var latencyMetrics = map[string]struct { //nolint:gochecknoglobals // a table, never written.
	metric sizing.Metric
	unit   float64
}{
	"time_to_first_token_ms":   {sizing.TTFT, 1000},
	"inter_token_latency_ms":   {sizing.ITL, 1000},
	"time_per_output_token_ms": {sizing.TPOT, 1000},
	"request_latency":          {sizing.E2E, 1},
}

// benchmark reads one entry of benchmarks: a level, or a report of 0.1 with its
// raw levels.
func (r *reader) benchmark() error {
	l := newLevel()
	raw, seen := false, false
	err := r.object(func(key string) error {
		switch key {
		case "benchmarks": // 0.1
			raw, r.raw = true, true
			return r.array(r.rawBenchmark)
		case "args": // up to 0.3
			return r.strategyIn(l)
		case "config":
			r.perBenchmarkConfig = true
			return r.strategyIn(l)
		case "worker", "backend":
			return r.about()
		case "metrics":
			seen = true
			return r.metrics(l)
		case "request_totals":
			return r.totals(l)
		case "requests":
			return r.requests(l)
		case "scheduler_state":
			return r.schedulerState(l)
		case "warnings":
			return r.ownWarnings(l)
		case "start_time":
			return r.moment(&l.Start)
		case "end_time":
			return r.moment(&l.End)
		case "warmup_duration":
			var err error
			l.WarmUp, err = r.number()
			return err
		default:
			return r.skip()
		}
	})
	if err != nil {
		return err
	}
	switch {
	case seen:
		l.settle()
		r.report.Levels = append(r.report.Levels, l.Level)
	case !raw:
		r.skipped++
	}
	return nil
}

// level is a level while it is read.
type level struct {
	sizing.Level

	kind string
	// totals says whether the report counts requests; else the distributions do.
	totals bool
}

func newLevel() *level {
	return &level{Level: sizing.Level{Latency: map[sizing.Metric]sizing.Distribution{}}}
}

// strategyIn reads args (up to 0.3) or config of one benchmark.
func (r *reader) strategyIn(l *level) error {
	return r.object(func(key string) error {
		switch key {
		case "strategy":
			return r.strategy(l)
		case "backend":
			return r.about()
		case "slo":
			return r.ownObjectives(l)
		case "target": // 0.1
			return r.textTo(&r.report.Target)
		case "model": // 0.1
			return r.textTo(&r.report.Model)
		case "warmup_number", "warmup_duration": // up to 0.3; null is none
			v, err := r.number()
			if v == nil {
				v = new(float64)
			}
			if l.WarmUp == nil || *v > 0 {
				l.WarmUp = v
			}
			return err
		default:
			return r.skip()
		}
	})
}

func (r *reader) strategy(l *level) error {
	return r.object(func(key string) (err error) {
		switch key {
		case "type_", "kind":
			l.kind, err = r.text()
		case "rate":
			l.Rate, err = r.number()
		case "streams":
			l.Streams, err = r.number()
		case "max_concurrency":
			l.MaxConcurrency, err = r.number()
		default:
			err = r.skip()
		}
		return err
	})
}

// ownObjectives are the limits that the report was made with.
func (r *reader) ownObjectives(l *level) error {
	return r.object(func(key string) error {
		metric, ok := map[string]sizing.Metric{"ttft_ms": sizing.TTFT, "tpot_ms": sizing.ITL, "e2el_ms": sizing.E2E}[key]
		if !ok {
			return r.skip()
		}
		v, err := r.number()
		if v != nil {
			if l.Own == nil {
				l.Own = map[sizing.Metric]float64{}
			}
			l.Own[metric] = *v / 1000
		}
		return err
	})
}

// metrics reads the measured part of a level.
func (r *reader) metrics(l *level) error {
	determined := math.NaN()
	err := r.object(func(key string) (err error) {
		switch key {
		case "request_totals": // from 0.4 on
			return r.totals(l)
		case "requests_per_second":
			l.AchievedRate, err = r.meanOf()
		case "request_concurrency":
			l.MeanConcurrency, err = r.meanOf()
		case "output_tokens_per_second":
			l.OutputTPS, err = r.meanOf()
		case "slo_attainment":
			l.Attained, err = r.number()
			r.attainment = true
		case "slo_determined_requests":
			err = r.numberTo(&determined)
		case "request_dispatch_delay": // from 0.8 on; null for closed loops
			l.Late, err = r.successful(1)
		case "output_token_goodput":
			l.AttainedTPS, err = r.number()
		default:
			known, ok := latencyMetrics[key]
			if !ok {
				return r.skip()
			}
			l.Latency[known.metric], err = r.successful(known.unit)
		}
		return err
	})
	if determined == 0 {
		l.Attained, l.AttainedTPS = nil, nil
	}
	return err
}

// meanOf is the mean of answered requests; nil where the distribution is empty,
// which GuideLLM writes as zeros.
func (r *reader) meanOf() (*float64, error) {
	d, err := r.successful(1)
	if d.Count == 0 {
		return nil, err
	}
	return d.Mean, err
}

// successful reads the distribution of answered requests.
func (r *reader) successful(unit float64) (sizing.Distribution, error) {
	var d sizing.Distribution
	err := r.object(func(key string) (err error) {
		if key != "successful" {
			return r.skip()
		}
		d, err = r.distribution(unit)
		return err
	})
	return d, err
}

func (r *reader) distribution(unit float64) (sizing.Distribution, error) {
	d := sizing.Distribution{Quantiles: map[string]float64{}}
	err := r.object(func(key string) error {
		switch key {
		case "count":
			return r.count(&d.Count)
		case "percentiles":
			return r.object(func(key string) error { return r.quantile(d, key, unit) })
		case "median": // percentiles had no p50 once
			return r.quantile(d, sizing.P50, unit)
		case "mean":
			v, err := r.number()
			if v != nil {
				mean := *v / unit
				d.Mean = &mean
			}
			return err
		default:
			return r.skip()
		}
	})
	return d, err
}

func (r *reader) quantile(d sizing.Distribution, name string, unit float64) error {
	v, err := r.number()
	if v != nil {
		d.Quantiles[name] = *v / unit
	}
	return err
}

// count reads how many there are.
func (r *reader) count(to *int64) error {
	v, err := r.number()
	if v != nil && *v >= 0 && *v < 1<<53 {
		*to = int64(*v)
	}
	return err
}

func (r *reader) totals(l *level) error {
	return r.object(func(key string) error {
		l.totals = true
		switch key {
		case "successful":
			return r.count(&l.Requests.Successful)
		case "errored":
			return r.count(&l.Requests.Errored)
		case "incomplete":
			return r.count(&l.Requests.Incomplete)
		default:
			return r.skip()
		}
	})
}

// requests reads the answered ones among those that the report kept.
func (r *reader) requests(l *level) error {
	return r.object(func(key string) error {
		if key != "successful" {
			return r.skip()
		}
		return r.array(func() error { return r.request(l) })
	})
}

func (r *reader) request(l *level) error {
	one := sizing.Request{TTFT: math.NaN(), ITL: math.NaN(), TPOT: math.NaN(), E2E: math.NaN(), OutputTokens: math.NaN()}
	prompt, cached := math.NaN(), math.NaN()
	err := r.object(func(key string) error {
		switch key {
		case "output_tokens":
			return r.numberTo(&one.OutputTokens)
		case "prompt_tokens":
			return r.numberTo(&prompt)
		case "cached_tokens":
			return r.numberTo(&cached)
		case "time_to_first_token_ms":
			return r.scaled(&one.TTFT, 1000)
		case "inter_token_latency_ms":
			return r.scaled(&one.ITL, 1000)
		case "time_per_output_token_ms":
			return r.scaled(&one.TPOT, 1000)
		case "request_latency":
			return r.scaled(&one.E2E, 1)
		default:
			return r.skip()
		}
	})
	if !math.IsNaN(prompt) && !math.IsNaN(cached) {
		r.prompted += prompt
		r.cached += cached
	}
	if len(l.Sample) < maxSample {
		l.Sample = append(l.Sample, one)
	}
	return err
}

func (r *reader) scaled(to *float64, unit float64) error {
	err := r.numberTo(to)
	*to /= unit
	return err
}

// schedulerState tells whether the tool found the level over-saturated.
func (r *reader) schedulerState(l *level) error {
	path := []string{"scheduler_constraints", "over_saturation", "metadata", "is_over_saturated"}
	var down func(depth int) error
	down = func(depth int) error {
		if depth == len(path) {
			var err error
			l.OverSaturated, err = r.flag()
			return err
		}
		return r.object(func(key string) error {
			if key == path[depth] {
				return down(depth + 1)
			}
			return r.skip()
		})
	}
	return down(0)
}

func (r *reader) ownWarnings(l *level) error {
	return r.array(func() error {
		return r.object(func(key string) error {
			if key != "message" {
				return r.skip()
			}
			text, err := r.text()
			if text != "" {
				l.Warnings = append(l.Warnings, text)
			}
			return err
		})
	})
}

func (r *reader) moment(to *time.Time) error {
	v, err := r.number()
	if v != nil {
		*to = unixTime(*v)
	}
	return err
}

// unixTime is a moment in Unix seconds; zero where it cannot be one.
func unixTime(s float64) time.Time {
	if !(s > 0 && s < 1e11) {
		return time.Time{}
	}
	return time.UnixMicro(int64(s * 1e6)).UTC()
}

// settle makes one of what the layouts say in several ways.
func (l *level) settle() {
	l.Strategy = l.kind
	switch l.kind {
	case "synchronous":
		one := 1.0
		l.Loop, l.Streams, l.Rate = sizing.ClosedLoop, &one, nil
	case "concurrent":
		l.Loop, l.Rate = sizing.ClosedLoop, nil
	case "throughput":
		l.Loop, l.Rate = sizing.NoLoop, nil
	default:
		l.Loop = sizing.OpenLoop
	}
	if !l.totals {
		for _, d := range l.Latency {
			l.Requests.Successful = max(l.Requests.Successful, d.Count)
		}
	}
}
