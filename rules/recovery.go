package rules

import (
	"slices"
	"time"
)

const (
	// blockTime is the least covered time of a block; a block also needs the
	// blockShare-th part of the tokens that a recovery is judged on.
	blockTime  = time.Minute
	blockShare = 15
	// blocksKept is how many closed blocks are remembered.
	blocksKept = 31
	// recoveryTime is what the blocks must cover to judge a recovery, and
	// recoveryMiss how far above the usual their miss ratio may be.
	recoveryTime = 15 * time.Minute
	recoveryMiss = 1.2
)

// block adds up a stretch of group ticks.
type block struct {
	// Begin is when it began, in Unix milliseconds.
	Begin int64 `json:"begin"`
	// Missed and Prompted are tokens, Covered is seconds.
	Missed   float64 `json:"missed"`
	Prompted float64 `json:"prompted"`
	Covered  float64 `json:"covered"`
}

// recovery keeps the last blocks; both levels of D1 judge by them.
type recovery struct {
	Blocks []block `json:"blocks"`
	Open   block   `json:"open"`
	// closed says that a block closed at the last tick.
	closed bool
}

// add takes a tick that began at begin. need is the prompted tokens that a
// recovery is judged on, 0 while they are unknown.
func (r *recovery) add(begin int64, missed, prompted, covered, need, scale float64) {
	r.closed = false
	if r.Open.Begin == 0 {
		r.Open.Begin = begin
	}
	r.Open.Missed += missed
	r.Open.Prompted += prompted
	r.Open.Covered += covered
	if need <= 0 || r.Open.Covered < blockTime.Seconds()*scale || r.Open.Prompted < need/blockShare {
		return
	}
	r.Blocks = append(r.Blocks, r.Open)
	if len(r.Blocks) > blocksKept {
		r.Blocks = slices.Delete(r.Blocks, 0, len(r.Blocks)-blocksKept)
	}
	r.Open, r.closed = block{}, true
}

// recovered goes back from the newest block until the blocks cover enough time
// and tokens, all begun after the fire, and says whether their miss ratio is
// near the usual one.
func (r *recovery) recovered(fired int64, usual, need, scale float64) bool {
	var sum block
	for _, b := range slices.Backward(r.Blocks) {
		if b.Begin < fired {
			return false
		}
		sum.Missed += b.Missed
		sum.Prompted += b.Prompted
		sum.Covered += b.Covered
		if sum.Covered >= recoveryTime.Seconds()*scale && sum.Prompted >= need {
			return sum.Missed <= recoveryMiss*usual*sum.Prompted
		}
	}
	return false
}
