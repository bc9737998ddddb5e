package rules

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"kvwatch/collector"
)

const realRecording = "../collector/testdata/"

// realTick is how often the recording is evaluated, as it was scraped.
const realTick = 5 * time.Second

// phase is one line of phases.jsonl.
type phase struct {
	T     float64 `json:"t"`
	Phase string  `json:"phase"`
}

func (p phase) at() time.Time { return time.UnixMilli(int64(p.T * 1000)) }

// readLines decodes a file of one JSON value per line.
func readLines[T any](t testing.TB, file string) []T {
	t.Helper()
	f, err := os.Open(realRecording + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	for s := bufio.NewScanner(f); s.Scan(); {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, v)
	}
	return all
}

// replayReal feeds the real recording to an engine on a virtual clock and calls
// each after every Eval.
func replayReal(t testing.TB, o Options, each func(e *Engine, now time.Time)) *Engine {
	t.Helper()
	rec, err := collector.OpenRecording(realRecording + "recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	o.ScrapeInterval = realTick
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var next time.Time
	err = rec.Replay(t.Context(), func(r *collector.Round) error {
		if next.IsZero() {
			next = r.Time.Truncate(realTick).Add(realTick)
		}
		for ; next.Before(r.Time); next = next.Add(realTick) {
			if err := e.Eval(t.Context(), next); err != nil {
				return err
			}
			each(e, next)
		}
		e.Observe(r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// labRules are the settings that the recording is too short without.
func labRules() map[string]Override {
	d1 := Override{TimeScale: 0.01, Settings: map[string]any{"resolve_prompts": 64}}
	return map[string]Override{missRising: d1, cacheCollapse: d1}
}

// transition is an alert that began or ended, in the phase it fell into.
type transition struct {
	alert, subject string
	phase          string
	state          AlertState
	after          time.Duration
	a              Alert
}

func transitions(t testing.TB, rules map[string]Override) []transition {
	t.Helper()
	phases := readLines[phase](t, "phases.jsonl")
	seen := map[string]AlertState{}
	var all []transition
	dispatch := func(_ context.Context, now time.Time, alerts []Alert) {
		for _, a := range alerts {
			key := a.Key() + a.FiredAt.String()
			if seen[key] == a.State {
				continue
			}
			seen[key] = a.State
			p := phases[0]
			for _, q := range phases {
				if !q.at().After(now) {
					p = q
				}
			}
			all = append(all, transition{
				alert: a.Name, subject: a.Labels["pool"] + a.Labels["instance"], phase: p.Phase,
				state: a.State, after: now.Sub(p.at()).Round(time.Second), a: a,
			})
		}
	}
	replayReal(t, Options{Rules: rules, Dispatch: dispatch}, func(*Engine, time.Time) {})
	return all
}

func TestShow(t *testing.T) {
	for _, ts := range []float64{0.01, 0.05, 0.1} {
		rules := labRules()
		rules["QueueGrowing"] = Override{TimeScale: ts}
		rules["KVSaturated"] = Override{TimeScale: ts}
		rules["TargetDown"] = Override{TimeScale: ts}
		_ = model.Duration(0)
		for _, tr := range transitions(t, rules) {
			t.Logf("%g %-24s %-16s %-9s %-14s +%s %s", ts, tr.alert, tr.subject, tr.state, tr.phase, tr.after, tr.a.Evidence.Cause)
		}
	}
}
