package fleet

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Leaping over steps gives the run that every step on its own gives: the same
// pages whenever somebody looks. Only when evicted blocks are counted differs:
// at the end of a leap.
func TestLeapsEqualSteps(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config Config
		until  time.Duration
	}{
		{"preemption", preemptionConfig(), 3 * time.Minute},
		{"timeouts", timeoutConfig(), 4 * time.Minute},
		{"the demo", DemoConfig(1, time.Time{}), 4 * time.Minute},
		{"an older version that waits for memory", olderVersion(preemptionConfig()), 3 * time.Minute},
		{"profile B", Config{Profile: "B", Seed: 2, WarmUp: -1, Load: 1.5}, 10 * time.Minute},
	}
	for _, test := range watched(tests) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			leaping, err := newFleet(test.config)
			if err != nil {
				t.Fatal(err)
			}
			stepping, err := newFleet(test.config)
			if err != nil {
				t.Fatal(err)
			}
			stepping.singleSteps = true
			for now := time.Duration(0); now <= test.until; now += 61 * time.Second {
				leaping.Step(now)
				stepping.Step(now)
				for i := range leaping.engines {
					samePage(t, now, enginePage(t, leaping, i), enginePage(t, stepping, i))
				}
				samePage(t, now, gatewayPage(t, leaping), gatewayPage(t, stepping))
			}
			if calls := stepping.Truth().Calls + stepping.Truth().Failed; calls < 50 {
				t.Errorf("only %d calls", calls)
			}
		})
	}
}

func olderVersion(config Config) Config {
	config.EngineVersion = CountersOnly
	return config
}

func samePage(t *testing.T, now time.Duration, leaping, stepping readPage) {
	t.Helper()
	for key, want := range stepping.values {
		if strings.Contains(key, "vllm:kv_block_") {
			continue
		}
		if got, ok := leaping.values[key]; !ok || math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Fatalf("%v: %s is %v, step by step %v", now, key, got, want)
		}
	}
}

// A leap's steps end when they would one by one, and done is the inverse of that.
func TestLeapTimes(t *testing.T) {
	t.Parallel()
	for _, growth := range []time.Duration{0, 1, 50 * time.Nanosecond, 3 * time.Millisecond} {
		l := leap{began: time.Hour, first: 12 * time.Millisecond, growth: growth, steps: 2000}
		end, step := l.began, l.first
		for n := range l.steps {
			if got := l.done(end); got != n {
				t.Fatalf("growth %v: %d steps are done after %v, want %d", growth, got, end-l.began, n)
			}
			if got := l.done(end + step - 1); got != n {
				t.Fatalf("growth %v: %d steps are done just before step %d ends", growth, got, n+1)
			}
			end += step
			step += growth
			if got := l.after(n + 1); got != end {
				t.Fatalf("growth %v: step %d ends at %v, want %v", growth, n+1, got, end)
			}
		}
		if l.end() != end || l.done(end+time.Hour) != l.steps {
			t.Errorf("growth %v: the leap ends at %v, want %v", growth, l.end(), end)
		}
	}
}
