package rules

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

const replicaOutlierAlert = "ReplicaOutlier"

// outlier is the state of D6 over one engine.
func (f *fleet) outlier(instance string) *replicaOutlier {
	f.t.Helper()
	for _, u := range f.engine.pools["vllm/m"].members {
		for _, w := range u.watches {
			if d, ok := w.keeper.(*replicaOutlier); ok && u.target.instance == instance {
				return d
			}
		}
	}
	f.t.Fatalf("nobody watches %s", instance)
	return nil
}

// TestReplicaOutlierByHand holds the sum of one bad engine of five against the
// same arithmetic done by hand.
func TestReplicaOutlierByHand(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5, Options{}).learned()
	type page struct{ missed, prompted float64 }
	var past [][5]page
	read := func() (now [5]page) {
		for i, p := range f.pages {
			q := p.values[p.of(collector.VLLMPromptTokens)]
			now[i] = page{q - p.values[p.of(collector.VLLMPromptCached)], q}
		}
		return now
	}
	sums := [5]float64{}
	for i := range f.pages {
		sums[i] = f.outlier(fmt.Sprintf("e%d:8000", i)).Level.S
	}
	past = append(past, read())
	took := time.Duration(0)
	play := func(d time.Duration) {
		t.Helper()
		for end := f.now.Add(d); f.now.Before(end); {
			f.run(step)
			past = append(past, read())
			n := len(past) - 1
			heavy := f.engine.pools["vllm/m"].heavyPrompt()
			if n < 61 { // the peers' window reaches back before the first reading
				for i := range sums {
					sums[i] = f.outlier(fmt.Sprintf("e%d:8000", i)).Level.S
				}
				continue
			}
			for i := range sums {
				var peers page
				for j := range f.pages {
					if j != i {
						peers.missed += past[n][j].missed - past[n-60][j].missed
						peers.prompted += past[n][j].prompted - past[n-60][j].prompted
					}
				}
				normal := max(f.engine.pools["vllm/m"].excess.track().Baseline.usual(), peers.missed/peers.prompted)
				m, q := past[n][i].missed-past[n-1][i].missed, past[n][i].prompted-past[n-1][i].prompted
				sums[i] = max(0, min(sums[i]+m-2*normal*q, 80*heavy))
				if got := f.outlier(fmt.Sprintf("e%d:8000", i)).Level.S; math.Abs(got-sums[i]) > 1 {
					t.Fatalf("at %s: S of engine %d is %g, by hand %g", f.now, i, got, sums[i])
				}
				if took == 0 && i == 2 && sums[i] >= 40*heavy {
					took = f.now.Sub(testStart)
					if !f.firing(replicaOutlierAlert) {
						t.Errorf("at %s by hand it fires", f.now)
					}
				}
			}
		}
	}
	play(20 * time.Minute)
	f.miss[2] = 0.95
	play(20 * time.Minute)
	if took == 0 || f.alerts(replicaOutlierAlert) != 1 {
		t.Fatalf("by hand it took %s; it fired %d times", took, f.alerts(replicaOutlierAlert))
	}
	a := f.lastFired(replicaOutlierAlert)
	for label, want := range map[string]string{"job": "vllm", "instance": "e2:8000", "engine": "0", "pool": "vllm/m", "model_name": "m", "severity": SeverityWarning} {
		if a.Labels[label] != want {
			t.Errorf("label %s is %q, want %q", label, a.Labels[label], want)
		}
	}
	if a.Evidence.Cause != causeReplica || !strings.Contains(a.Evidence.Seen, "e2:8000 computed ") || !strings.Contains(a.Evidence.CauseText, "the 4 others") || a.Evidence.Cost == "" {
		t.Errorf("evidence %+v", a.Evidence)
	}
	f.miss[2] = 0.1
	if d := f.until(replicaOutlierAlert, false, time.Hour); d < 14*time.Minute || d > 40*time.Minute {
		t.Errorf("it ended after %s", d)
	}
	if s := f.resolved(replicaOutlierAlert); len(s) != 1 || !strings.HasPrefix(s[0], "e2:8000 of pool vllm/m is like its peers again") {
		t.Errorf("resolved as %q", s)
	}
}

func TestReplicaOutlierNeedsPeers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{Rules: fast()}).learnedFast()
	f.miss[2] = 0.95
	f.run(30 * time.Minute)
	if d := f.detector(replicaOutlierAlert); f.alerts(replicaOutlierAlert) > 0 || d.Phase != PhaseUnknown || !strings.HasPrefix(d.Text, "the pool has 4 engines") {
		t.Errorf("fired %d times; %s: %s", f.alerts(replicaOutlierAlert), d.Phase, d.Text)
	}
}

// TestWholePoolIsNoOutlier lets all engines of five miss: nobody stands out.
func TestWholePoolIsNoOutlier(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5, Options{Rules: fast()}).learnedFast()
	f.all(0.6)
	f.run(time.Hour)
	if f.alerts(replicaOutlierAlert) > 0 || f.alerts(cacheCollapse) != 1 {
		t.Errorf("fired %d times, the page %d times", f.alerts(replicaOutlierAlert), f.alerts(cacheCollapse))
	}
}

// TestKilledDuringAnOutlier restarts the daemon before the fire and after it,
// and reloads it.
func TestKilledDuringAnOutlier(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5, Options{Rules: fast()}).learnedFast()
	f.miss[1] = 0.95
	f.run(3 * time.Minute)
	before := f.outlier("e1:8000").Level
	if before.S == 0 || f.firing(replicaOutlierAlert) {
		t.Fatalf("S is %g before the restart, fires %t", before.S, f.firing(replicaOutlierAlert))
	}
	f.restart()
	f.run(step)
	if got := f.outlier("e1:8000").Level; got.S < before.S || got.Onset != before.Onset {
		t.Errorf("S was %g since %d, and is %g since %d", before.S, before.Onset, got.S, got.Onset)
	}
	f.until(replicaOutlierAlert, true, 20*time.Minute)
	fired := f.lastFired(replicaOutlierAlert).FiredAt
	f.restart()
	f.run(time.Minute)
	if err := f.engine.Reload(nil, fast(), step); err != nil {
		t.Fatal(err)
	}
	f.run(time.Minute)
	if !f.firing(replicaOutlierAlert) || f.alerts(replicaOutlierAlert) != 1 || !f.lastFired(replicaOutlierAlert).FiredAt.Equal(fired) {
		t.Errorf("it fired %d times", f.alerts(replicaOutlierAlert))
	}
}
