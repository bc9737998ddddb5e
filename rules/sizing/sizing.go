// Package sizing is the arithmetic of a capacity plan: from people or requests
// to sequences, KV memory, replicas, GPUs, gateway workers and money.
//
// It is arithmetic only: no I/O, no clock. There is one file for each group of
// formulas (memory, time, agents, gateway, slo), one for what a plan is (plan),
// one for a model's geometry, and worksheet, which applies the formulas to a
// plan step by step. Each formula names its source: A is the article on sizing
// for agents, C the one on capacity from an SLO, S the one from the SLO to GPUs
// and money. deploy/docs/sizing.md has them all, and where the sources err.
//
// All arithmetic is in float64 and rounded only where it is shown. Bytes are
// bytes; GB is 1e9 of them and GiB is 2^30. The functions take what a checked
// plan holds (positive counts and rates); outside of that a result may not be
// finite, and a worksheet calls it unknown.
package sizing

import "math"

// Units of sizes.
const (
	GB  = 1e9
	GiB = 1 << 30
)

// rounding is how far, relatively, a number may lie beyond a whole one by the
// arithmetic alone: 20 x 0.1 x 4 is 8 sequences, not 9.
const rounding = 1e-9

// Ceil rounds up what has to be whole, and takes a whole number that float
// arithmetic missed by a hair for what it is.
func Ceil(v float64) float64 { return math.Ceil(v - rounding*math.Max(1, math.Abs(v))) }

// Floor rounds down likewise.
func Floor(v float64) float64 { return math.Floor(v + rounding*math.Max(1, math.Abs(v))) }
