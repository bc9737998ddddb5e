package guidellm

import (
	"math"
	"slices"

	"kvwatch/rules/sizing"
)

// maxValues is how many values of a metric of 0.1 are kept; of more, every
// second, fourth and so on, evenly over the level.
const maxValues = 1 << 20

// rawBenchmark reads a level of 0.1, which has no statistics: they are computed
// from its results.
func (r *reader) rawBenchmark() error {
	raw := rawLevel{level: newLevel(), first: math.Inf(1), last: math.Inf(-1)}
	err := r.object(func(key string) (err error) {
		switch key {
		case "mode":
			raw.kind, err = r.text()
		case "rate":
			raw.Rate, err = r.number()
		case "results":
			err = r.array(func() error { return r.result(&raw) })
		case "errors":
			err = r.array(func() error {
				raw.Requests.Errored++
				return r.skip()
			})
		case "concurrencies":
			err = r.array(func() error { return r.processing(&raw) })
		default:
			err = r.skip()
		}
		return err
	})
	if err != nil {
		return err
	}
	raw.compute()
	r.report.Levels = append(r.report.Levels, raw.Level)
	return nil
}

// rawLevel is a level of 0.1 while it is read.
type rawLevel struct {
	*level

	ttft, itl, e2e thinned
	tokens         float64
	// first and last bound the answered requests, in Unix seconds.
	first, last float64
	processing  float64
	looks       int
}

// result reads one answered request. first_token_time is how long the first
// token took, and decode_times how long each other one; all in seconds.
func (r *reader) result(raw *rawLevel) error {
	start, end := math.NaN(), math.NaN()
	one := sizing.Request{TTFT: math.NaN(), ITL: math.NaN(), TPOT: math.NaN(), E2E: math.NaN(), OutputTokens: math.NaN()}
	var gaps, sum float64
	err := r.object(func(key string) error {
		switch key {
		case "output_token_count":
			return r.numberTo(&one.OutputTokens)
		case "start_time":
			return r.numberTo(&start)
		case "end_time":
			return r.numberTo(&end)
		case "first_token_time":
			return r.numberTo(&one.TTFT)
		case "decode_times":
			return r.object(func(key string) error {
				if key != "data" {
					return r.skip()
				}
				return r.array(func() error {
					v, err := r.number()
					if v != nil {
						raw.itl.add(*v)
						gaps++
						sum += *v
					}
					return err
				})
			})
		default:
			return r.skip()
		}
	})
	raw.Requests.Successful++
	if gaps > 0 {
		one.ITL = sum / gaps
	}
	if one.E2E = end - start; !math.IsNaN(one.E2E) {
		raw.e2e.add(one.E2E)
		raw.first, raw.last = min(raw.first, start), max(raw.last, end)
	}
	if !math.IsNaN(one.TTFT) {
		raw.ttft.add(one.TTFT)
	}
	if !math.IsNaN(one.OutputTokens) {
		raw.tokens += one.OutputTokens
	}
	if len(raw.Sample) < maxSample {
		raw.Sample = append(raw.Sample, one)
	}
	return err
}

func (r *reader) processing(raw *rawLevel) error {
	return r.object(func(key string) error {
		if key != "processing" {
			return r.skip()
		}
		v, err := r.number()
		if v != nil {
			raw.processing += *v
			raw.looks++
		}
		return err
	})
}

// compute is the statistics that the report lacks.
func (raw *rawLevel) compute() {
	raw.totals = true
	if raw.kind == "asynchronous" {
		raw.kind = "constant"
	}
	raw.settle()
	raw.Latency[sizing.TTFT] = raw.ttft.distribution()
	raw.Latency[sizing.ITL] = raw.itl.distribution()
	raw.Latency[sizing.E2E] = raw.e2e.distribution()
	if raw.looks > 0 {
		mean := raw.processing / float64(raw.looks)
		raw.MeanConcurrency = &mean
	}
	if span := raw.last - raw.first; span > 0 {
		rate, tps := float64(raw.Requests.Successful)/span, raw.tokens/span
		raw.AchievedRate, raw.OutputTPS = &rate, &tps
		raw.Start, raw.End = unixTime(raw.first), unixTime(raw.last)
	}
}

// thinned keeps values evenly, however many there are.
type thinned struct {
	values []float64
	// every value of that many is kept, less the first one.
	every, seen int64
	sum         float64
}

func (t *thinned) add(v float64) {
	if t.every == 0 {
		t.every = 1
	}
	if t.seen%t.every == 0 {
		if len(t.values) == maxValues {
			for i := range t.values[:maxValues/2] {
				t.values[i] = t.values[2*i]
			}
			t.values = t.values[:maxValues/2]
			t.every *= 2
		}
		if t.seen%t.every == 0 {
			t.values = append(t.values, v)
		}
	}
	t.seen++
	t.sum += v
}

// distribution is that of the values, quantiles by linear interpolation as
// numpy, which GuideLLM 0.1 used, has them.
func (t *thinned) distribution() sizing.Distribution {
	d := sizing.Distribution{Count: t.seen, Quantiles: map[string]float64{}}
	if t.seen == 0 {
		return d
	}
	mean := t.sum / float64(t.seen)
	d.Mean = &mean
	slices.Sort(t.values)
	for name, q := range map[string]float64{sizing.P50: 0.5, sizing.P90: 0.9, sizing.P95: 0.95, sizing.P99: 0.99} {
		at := q * float64(len(t.values)-1)
		low := int(at)
		high := min(low+1, len(t.values)-1)
		d.Quantiles[name] = t.values[low] + (at-float64(low))*(t.values[high]-t.values[low])
	}
	return d
}
