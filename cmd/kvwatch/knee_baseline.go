package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"kvwatch/rules/sizing"
)

// errSeveral is a saved result of several reports.
var errSeveral = errors.New("this is the comparison of several reports: save the result of one")

// largestSaved is over how many bytes a file is no saved result.
const largestSaved = 16 << 20

// kneeBaseline is how a knee stands against a baseline.
type kneeBaseline struct {
	File string `json:"file"`
	// Goodput and AchievedRate at the baseline's knee, null where they are unknown.
	Goodput      *float64 `json:"goodput" jsonschema:"oneof_type=number;null"`
	AchievedRate *float64 `json:"achieved_rate" jsonschema:"oneof_type=number;null"`
	// GoodputChange and RateChange are shares: -0.1 is a tenth less.
	GoodputChange *float64 `json:"goodput_change" jsonschema:"oneof_type=number;null"`
	RateChange    *float64 `json:"rate_change" jsonschema:"oneof_type=number;null"`
	// Threshold is how much may be lost.
	Threshold  float64 `json:"threshold"`
	Regression bool    `json:"regression"`
	// Why it is one, or why it cannot be told.
	Why []string `json:"why,omitempty"`
}

// readBaseline reads a saved result, or a report of GuideLLM.
func (k *knees) readBaseline(ctx context.Context, file string) (*kneeReport, error) {
	saved, err := readSavedKnee(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if saved == nil {
		return k.report(ctx, file)
	}
	if saved.SLO != k.objectives.String() {
		return nil, fmt.Errorf("%s was found under %s, and now it is %s: two knees compare under one SLO only", file, saved.SLO, k.objectives)
	}
	saved.File = file
	return saved, nil
}

// readSavedKnee reads a result of knee --output=json; nil where the file is
// something else.
func readSavedKnee(file string) (*kneeReport, error) {
	info, err := os.Stat(file)
	if err != nil || info.Size() > largestSaved {
		return nil, nil //nolint:nilerr,nilnil // whoever reads it as a report says what is wrong.
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var shape struct {
		Levels, Reports, Benchmarks json.RawMessage
	}
	if json.Unmarshal(text, &shape) != nil || shape.Benchmarks != nil {
		return nil, nil //nolint:nilnil // as above.
	}
	if shape.Reports != nil {
		return nil, errSeveral
	}
	if shape.Levels == nil {
		return nil, nil //nolint:nilnil // as above.
	}
	var saved kneeReport
	if err := json.Unmarshal(text, &saved); err != nil {
		return nil, err
	}
	if at := saved.Knee.Level; at != nil && (*at < 0 || *at >= len(saved.Levels)) {
		return nil, fmt.Errorf("its knee is level %d, and it has %d levels", *at, len(saved.Levels))
	}
	return &saved, nil
}

// compare holds the knee against the baseline's.
func (r *kneeReport) compare(base *kneeReport, mayLose float64) {
	b := &kneeBaseline{File: base.File, Threshold: mayLose}
	r.Baseline = b
	was, is := base.at(), r.at()
	switch {
	case was == nil:
		b.Why = append(b.Why, "the baseline has no knee")
		return
	case is == nil:
		b.Goodput, b.AchievedRate, b.Regression = was.Goodput, was.AchievedRate, true
		b.Why = append(b.Why, "there is no knee any more: "+r.Knee.Reason)
		return
	}
	b.Goodput, b.AchievedRate = was.Goodput, was.AchievedRate
	b.GoodputChange, b.RateChange = change(was.Goodput, is.Goodput), change(was.AchievedRate, is.AchievedRate)
	var lost []string
	for what, by := range map[string]*float64{"goodput": b.GoodputChange, "load": b.RateChange} {
		if by != nil && *by < -mayLose {
			lost = append(lost, fmt.Sprintf("the %s at the knee fell by %.1f %%, more than %g %%", what, -100**by, 100*mayLose))
		}
	}
	slices.Sort(lost)
	switch {
	case b.GoodputChange == nil && b.RateChange == nil:
		b.Why = []string{"neither goodput nor load at the knee are known on both sides"}
	case len(lost) > 0 && r.openEnded():
		b.Why = append(lost, "but every level holds: the load was not great enough to tell")
	default:
		b.Regression, b.Why = len(lost) > 0, lost
	}
}

// openEnded says whether the knee is only the least that it can be.
func (r *kneeReport) openEnded() bool { return r.Knee.Reason == sizing.ReasonAtLeast }

// change is by which share a value changed; nil where it cannot be told.
func change(was, is *float64) *float64 {
	if was == nil || is == nil || *was <= 0 {
		return nil
	}
	by := *is / *was - 1
	return &by
}
