package fleet

import (
	"fmt"
	"strings"
	"time"
)

// Profile is hardware together with the work that it is given: prompts, pauses
// and rates as measured in production, and not made shorter for a demo.
type Profile struct {
	Name, Description string
	Hardware          Hardware
	Workload          Workload
}

// Profiles lists all profiles in the order in which they are documented.
func Profiles() []Profile {
	return []Profile{
		{
			Name: "A", Description: "bound by prefill: 1.6M KV tokens, 24 000 prompt tokens a second",
			Hardware: server(1_600_000, 24_000, 9500*time.Microsecond), Workload: agentWorkload(50),
		},
		{
			Name: "B", Description: "tight in KV: 1.2M KV tokens, 70 000 prompt tokens a second",
			Hardware: server(1_200_000, 70_000, 12500*time.Microsecond), Workload: agentWorkload(50),
		},
		{
			Name: "C", Description: "0.65M KV tokens, room for some 8 live sequences; prefixes lie in a tier outside",
			Hardware: offloaded(server(650_000, 40_000, 12*time.Millisecond)), Workload: agentWorkload(70),
		},
		{
			Name: "quantS", Description: "as C, with 0.36M KV tokens",
			Hardware: offloaded(server(360_000, 40_000, 12*time.Millisecond)), Workload: agentWorkload(35),
		},
		{
			Name: "quantL", Description: "as C, with 2.4M KV tokens",
			Hardware: offloaded(server(2_400_000, 40_000, 12*time.Millisecond)), Workload: agentWorkload(155),
		},
	}
}

// profileNamed finds a profile.
func profileNamed(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("unknown profile %q: there are %s", name, strings.Join(names, ", "))
}

// server is an engine with so many KV tokens that computes so many prompt
// tokens a second and whose step takes so long before any sequence is in it.
func server(kvTokens int, prefillPerSecond float64, step time.Duration) Hardware {
	return Hardware{
		KVBlocks: kvTokens / 16, BlockSize: 16, MaxSeqs: 256, StepTokens: 4096, MaxModelLen: 262_144,
		Step: step, StepPerSeq: 250 * time.Microsecond, StepPerContextToken: 5 * time.Nanosecond,
		PrefillPerSecond: prefillPerSecond,
	}
}

// offloaded keeps the prefixes of an engine in a tier of 24M tokens outside of
// its KV memory.
func offloaded(h Hardware) Hardware {
	h.OffloadBlocks = 24_000_000 / h.BlockSize
	return h
}

// agentWorkload are coding agents, so many sessions begun in an hour for each
// engine. The figures that it is made to reach, of a call: 444 tokens of
// output, 68 000 of prompt with 63 000 of them cached (medians). Of a session:
// 3 turns (6.1 on average) and 15 calls (40.6); 4.1 minutes between two turns.
// Sessions last for 17 minutes (median) and 49 on average, where 4 and 63 were
// measured: half of them have three turns or more, and two such pauses alone
// take longer. A and B have as many sessions as prefill bears 1.7 times: it is busy for a
// fifth (A) and a tenth (B) of the time.
func agentWorkload(sessionsPerHour float64) Workload {
	return Workload{
		SessionsPerHour: sessionsPerHour,
		SystemPrompts:   []int{9216, 13_312, 17_408},
		FirstTokens:     Spread{Median: 7000, Sigma: 1},
		TurnTokens:      Spread{Median: 900, Sigma: 1.2},
		SecondTokens:    Spread{Median: 2500, Sigma: 1.2},
		CallTokens:      Spread{Median: 900, Sigma: 1.2},
		OutputTokens:    Spread{Median: 325, Sigma: 0.8},
		CallsPerTurn:    Spread{Median: 4.5, Sigma: 0.87},
		TurnsPerSession: Spread{Median: 3, Sigma: 1.05},
		ToolSeconds:     Spread{Median: 2, Sigma: 1.2},
		TurnSeconds:     Spread{Median: 250, Sigma: 1.5},
		MaxContext:      165_000,
		SummaryTokens:   Spread{Median: 12_000, Sigma: 0.4},
		TurnRewrites:    0.25,
		CallRewrites:    0.02,
		Plain:           0.1,
		Patience:        2,
	}
}

// chatWorkload is people who chat: short prompts and no tools.
func chatWorkload() Workload {
	return Workload{
		SystemPrompts:   []int{1024},
		FirstTokens:     Spread{Median: 250, Sigma: 1},
		TurnTokens:      Spread{Median: 120, Sigma: 1},
		CallTokens:      Spread{Median: 120, Sigma: 1},
		OutputTokens:    Spread{Median: 350, Sigma: 0.7},
		CallsPerTurn:    Spread{Median: 1},
		TurnsPerSession: Spread{Median: 3, Sigma: 0.7},
		ToolSeconds:     Spread{Median: 2, Sigma: 0.5},
		TurnSeconds:     Spread{Median: 45, Sigma: 1},
		RestSeconds:     Spread{Median: 3, Sigma: 0.5},
		MaxContext:      16_000,
		Plain:           0.1,
		Patience:        2,
	}
}
