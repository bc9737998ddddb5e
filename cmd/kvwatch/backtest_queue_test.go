package main

import (
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/rules"
)

// queueFleet is two engines of one pool, with a queue each.
type queueFleet struct {
	watch   *queueWatch
	engine  *rules.Engine
	now     time.Time
	targets [2]*collector.Target
	series  [2]*collector.Series
}

func newQueueFleet(t *testing.T) *queueFleet {
	t.Helper()
	e, err := rules.New(rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &queueFleet{watch: newQueueWatch(), engine: e, now: benchStart}
	for i, instance := range []string{"a", "b"} {
		f.targets[i] = &collector.Target{Labels: labels.FromStrings(model.JobLabel, "vllm", model.InstanceLabel, instance), Source: collector.SourceVLLM}
		f.series[i] = &collector.Series{Labels: labels.FromStrings(model.MetricNameLabel, collector.VLLMWaiting, model.JobLabel, "vllm", model.InstanceLabel, instance, "engine", "0", "model_name", "m")}
	}
	return f
}

// scrape gives both engines a page for so long, with these queues.
func (f *queueFleet) scrape(t *testing.T, d time.Duration, a, b float64) {
	t.Helper()
	for end := f.now.Add(d); f.now.Before(end); f.now = f.now.Add(15 * time.Second) {
		for i, waiting := range []float64{a, b} {
			r := collector.Round{Target: f.targets[i], Time: f.now, State: collector.StateUp, Samples: []collector.Sample{{Series: f.series[i], Value: waiting}}}
			f.watch.observe(&r)
			f.engine.Observe(&r)
		}
		if err := f.engine.Eval(t.Context(), f.now); err != nil {
			t.Fatal(err)
		}
		f.watch.place(f.engine)
	}
}

// TestSustainedQueue: requests wait at 40 % of the pairs of replica and scrape
// over ten minutes.
func TestSustainedQueue(t *testing.T) {
	t.Parallel()
	f := newQueueFleet(t)
	f.scrape(t, 3*time.Minute, 9, 9) // too short
	f.scrape(t, 20*time.Minute, 0, 0)
	began := f.now
	f.scrape(t, 20*time.Minute, 3, 0) // half of the pairs
	f.scrape(t, 30*time.Minute, 0, 0)
	again := f.now
	f.scrape(t, 15*time.Minute, 0, 1)
	spans := f.watch.spans()["vllm/m"]
	if len(spans) != 2 {
		t.Fatalf("sustained queues: %v", spans)
	}
	// 40 % of ten minutes of both, where one waits: after eight minutes.
	within := func(at, want time.Time) bool { d := at.Sub(want); return d >= -time.Minute && d <= time.Minute }
	if !within(spans[0].from, began.Add(8*time.Minute)) || !within(spans[0].to, began.Add(22*time.Minute)) {
		t.Errorf("the first is from %s to %s, it began at %s", spans[0].from, spans[0].to, began)
	}
	if !within(spans[1].from, again.Add(8*time.Minute)) || !spans[1].to.IsZero() {
		t.Errorf("the second is from %s to %s, it began at %s", spans[1].from, spans[1].to, again)
	}
	pool := map[string]string{"pool": "vllm/m"}
	for name, tc := range map[string]struct {
		labels map[string]string
		fired  time.Time
		want   time.Duration
		none   bool
	}{
		"before the first":   {pool, spans[0].from.Add(-time.Minute), time.Minute, false},
		"within the first":   {pool, spans[0].from.Add(time.Minute), 0, false},
		"between":            {pool, spans[1].from.Add(-10 * time.Minute), 10 * time.Minute, false},
		"within the last":    {pool, f.now, 0, false},
		"of a target":        {map[string]string{"job": "vllm", "instance": "b"}, spans[0].from.Add(-time.Minute), time.Minute, false},
		"of an unknown pool": {map[string]string{"pool": "x"}, benchStart, 0, true},
		"of no pool":         {map[string]string{"job": "litellm", "instance": "g"}, benchStart, 0, true},
	} {
		got, ok := f.watch.lead(tc.labels, tc.fired)
		if ok == tc.none || got != tc.want {
			t.Errorf("%s: %s, %t", name, got, ok)
		}
	}
}

func TestQueueAfterAHole(t *testing.T) {
	t.Parallel()
	f := newQueueFleet(t)
	f.scrape(t, 20*time.Minute, 0, 0)
	f.now = f.now.Add(2 * time.Hour)
	f.scrape(t, 2*time.Minute, 5, 5)
	if spans := f.watch.spans(); len(spans) != 0 {
		t.Errorf("two minutes after a hole are a sustained queue: %v", spans)
	}
}
