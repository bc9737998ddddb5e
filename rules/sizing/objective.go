package sizing

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Metric is something that a load test measures of each request.
type Metric string

// The metrics on which an objective can be set.
const (
	// TTFT is the time to the first token.
	TTFT Metric = "ttft"
	// ITL is the time between output tokens, without the first.
	ITL Metric = "itl"
	// TPOT is the time per output token, the first one included.
	TPOT Metric = "tpot"
	// E2E is the time of the whole request.
	E2E Metric = "e2e"
	// Attainment is the share of requests within the objectives that the report
	// itself was made with.
	Attainment Metric = "attainment"
)

// Quantiles that a report has, by their names in objectives.
const (
	P50 = "p50"
	P90 = "p90"
	P95 = "p95"
	P99 = "p99"
)

// quantiles are the names that objectives may use.
var quantiles = []string{P50, P90, P95, P99} //nolint:gochecknoglobals // a table, never written.

// Objective is one promise: a percentile within a limit, or a least share of
// requests within the report's own objectives.
type Objective struct {
	Metric   Metric
	Quantile string
	// Limit in seconds, at most; of Attainment a share, at least.
	Limit float64
}

// Name is how the objective is written: ttft_p95, attainment.
func (o Objective) Name() string {
	if o.Metric == Attainment {
		return string(Attainment)
	}
	return string(o.Metric) + "_" + o.Quantile
}

// String is the objective with its limit, as ParseObjective reads it.
func (o Objective) String() string {
	if o.Metric == Attainment {
		return fmt.Sprintf("attainment=%s%%", strconv.FormatFloat(100*o.Limit, 'g', 6, 64))
	}
	return o.Name() + "=" + Seconds(o.Limit)
}

// held says whether a value is within the limit. A time may be the limit.
func (o Objective) held(v float64) bool {
	if o.Metric == Attainment {
		return v >= o.Limit
	}
	return v <= o.Limit
}

// ParseObjective reads an objective: ttft_p95=500ms, itl_p99=0.06s, e2e_p95=8s,
// attainment=95%. A time without a unit is refused: reports mix seconds and
// milliseconds, and a limit that is read in the wrong one always or never holds.
func ParseObjective(text string) (Objective, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return Objective{}, errors.New("write NAME=LIMIT, as in ttft_p95=500ms")
	}
	if name == string(Attainment) {
		share, err := ParseShare(value)
		return Objective{Metric: Attainment, Limit: share}, err
	}
	metric, quantile, _ := strings.Cut(name, "_")
	o := Objective{Metric: Metric(metric), Quantile: quantile}
	if !slices.Contains([]Metric{TTFT, ITL, TPOT, E2E}, o.Metric) || !slices.Contains(quantiles, quantile) {
		return Objective{}, fmt.Errorf("%q is no objective: write ttft, itl, tpot or e2e with _%s, or attainment", name, strings.Join(quantiles, ", _"))
	}
	limit, err := time.ParseDuration(value)
	switch {
	case err != nil && isNumber(value):
		return Objective{}, fmt.Errorf("%s has no unit: write %sms or %ss", value, value, value)
	case err != nil:
		return Objective{}, fmt.Errorf("%q is no time: write it as in 500ms", value)
	case limit <= 0:
		return Objective{}, fmt.Errorf("%s is no limit: give more than 0", value)
	}
	o.Limit = limit.Seconds()
	return o, nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// ParseShare reads a share over 0: 95% or 0.95.
func ParseShare(text string) (float64, error) {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v > 0 && v <= 1) {
		return 0, fmt.Errorf("%q is no share: write it as in 95%%", text)
	}
	return v, nil
}

// Objectives are promises that have to hold together. None at all is a batch:
// whatever is measured is within them.
type Objectives []Objective

// String lists them.
func (o Objectives) String() string {
	if len(o) == 0 {
		return "none"
	}
	texts := make([]string, len(o))
	for i := range o {
		texts[i] = o[i].String()
	}
	return strings.Join(texts, ", ")
}

// Use is what a pool is for.
type Use string

// Uses with objectives of their own (G, the SLO by use).
const (
	Chat    Use = "chat"
	Copilot Use = "copilot"
	Batch   Use = "batch"
	Agent   Use = "agent"
)

// Uses are all of them.
func Uses() []Use { return []Use{Chat, Copilot, Batch, Agent} }

// Objectives are those of the use, as G gives them: a chat 500 ms to the first
// token at P99 and 50 ms between tokens, a copilot 300 ms, a batch none. An agent
// promises the time of each step, which depends on its steps: who asks says it.
func (u Use) Objectives() Objectives {
	switch u {
	case Chat:
		return Objectives{{TTFT, P99, 0.5}, {ITL, P95, 0.05}}
	case Copilot:
		return Objectives{{TTFT, P99, 0.3}}
	case Batch, Agent:
	}
	return nil
}

// Objectives are the promises of a plan that a load test can be held to.
func (s SLO) Objectives() Objectives {
	var all Objectives
	if s.TTFTP95Ms != nil {
		all = append(all, Objective{TTFT, P95, *s.TTFTP95Ms / 1000})
	}
	if s.ITLP95Ms != nil {
		all = append(all, Objective{ITL, P95, *s.ITLP95Ms / 1000})
	}
	return all
}

// With takes more objectives; one of the same name is replaced.
func (o Objectives) With(more ...Objective) Objectives {
	all := slices.Clone(o)
	for _, m := range more {
		at := slices.IndexFunc(all, func(have Objective) bool { return have.Name() == m.Name() })
		if at < 0 {
			all = append(all, m)
		} else {
			all[at] = m
		}
	}
	return all
}

// Seconds spells a time, in seconds, in the unit that suits it.
func Seconds(s float64) string {
	if s < 1 {
		return strconv.FormatFloat(1000*s, 'g', 4, 64) + "ms"
	}
	return strconv.FormatFloat(s, 'g', 4, 64) + "s"
}
