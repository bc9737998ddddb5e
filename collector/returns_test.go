package collector

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// counting is one of several servers: what its counters hold.
type counting struct{ counts [6]float64 }

func (p *counting) serve(n float64) {
	for i := range p.counts {
		p.counts[i] += n * float64(i+1)
	}
}

// lose takes away what one worker of the pod had counted.
func (p *counting) lose(share float64) {
	for i := range p.counts {
		p.counts[i] = float64(int(p.counts[i] * (1 - share)))
	}
}

func (p *counting) page(source string) string {
	name, label := LiteLLMInputTokens, "requested_model"
	if source == SourceVLLM {
		name, label = VLLMRequestSuccess, "finished_reason"
	}
	var b strings.Builder
	for i, n := range p.counts {
		fmt.Fprintf(&b, "%s{%s=\"m%d\"} %v\n", name, label, i, n)
	}
	return b.String()
}

// TestReturns: servers that answer in turn are told from the loss of a worker
// and from restarts by their counters alone.
func TestReturns(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		pages func(turn int, pods []*counting, random *rand.Rand) *counting
		want  bool
	}{
		{"one after the other", func(turn int, pods []*counting, _ *rand.Rand) *counting { return pods[turn%2] }, true},
		{"now this one, now that one", func(_ int, pods []*counting, random *rand.Rand) *counting { return pods[random.IntN(2)] }, true},
		{"a fifth of the pages from the other one", func(turn int, pods []*counting, _ *rand.Rand) *counting {
			return pods[map[bool]int{true: 1}[turn%5 == 4]]
		}, true},
		{"one alone", func(_ int, pods []*counting, _ *rand.Rand) *counting { return pods[0] }, false},
		{"the other one for good", func(turn int, pods []*counting, _ *rand.Rand) *counting { return pods[min(turn/20, 1)] }, false},
		{"workers die now and then", func(turn int, pods []*counting, _ *rand.Rand) *counting {
			if turn%7 == 6 {
				pods[0].lose(0.25)
			}
			return pods[0]
		}, false},
		{"restarts now and then", func(turn int, pods []*counting, _ *rand.Rand) *counting {
			if turn%6 == 5 {
				*pods[0] = counting{}
			}
			return pods[0]
		}, false},
	}
	for _, source := range []string{SourceLiteLLM, SourceVLLM} {
		for _, tt := range tests {
			t.Run(source+": "+tt.name, func(t *testing.T) {
				t.Parallel()
				r, random := newTestReader(source), rand.New(rand.NewPCG(1, 2))
				pods := []*counting{{}, {}}
				pods[0].serve(10_000)
				pods[1].serve(8700)
				for turn := range 40 {
					for _, p := range pods {
						p.serve(float64(random.IntN(20)))
					}
					r.page(t, tt.pages(turn, pods, random).page(source))
				}
				if r.info.Sampled != tt.want {
					t.Errorf("several servers: %v, want %v", r.info.Sampled, tt.want)
				}
			})
		}
	}
}

// TestReturnsSettle: an hour after the last return the counters are rated again.
func TestReturnsSettle(t *testing.T) {
	t.Parallel()
	r, pods := newTestReader(SourceLiteLLM), []*counting{{}, {}}
	pods[0].serve(1000)
	pods[1].serve(900)
	for turn := range 12 {
		r.page(t, pods[turn%2].page(SourceLiteLLM))
	}
	if !r.info.Sampled {
		t.Fatal("two servers in turn are not told")
	}
	for range int(settleAfter.Seconds())/15 + 1 {
		pods[1].serve(1)
		r.page(t, pods[1].page(SourceLiteLLM))
	}
	if r.info.Sampled {
		t.Error("they are told an hour after the last turn")
	}
}
