package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/alerting/chart"
	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/rules"
)

// TestPast reads what a chart shows: exactly the series that is asked for, parts
// of one number added up.
func TestPast(t *testing.T) {
	t.Parallel()
	store, err := history.Open(history.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	series := func(pairs ...string) *collector.Series {
		return &collector.Series{Labels: labels.FromStrings(pairs...)}
	}
	capacity := series("__name__", "kvwatch_pool_queue_waiting_requests", "pool", "p", "reason", "capacity")
	deferred := series("__name__", "kvwatch_pool_queue_waiting_requests", "pool", "p", "reason", "deferred")
	other := series("__name__", "kvwatch_pool_queue_waiting_requests", "pool", "q", "reason", "capacity")
	named := series("__name__", "kvwatch_pool_queue_waiting_requests", "pool", "p", "model_name", "m", "reason", "capacity")
	start := time.Now().Truncate(time.Minute).Add(-10 * time.Minute)
	for i := range 4 {
		at := start.Add(time.Duration(i) * time.Minute)
		v := float64(i)
		if err := store.Append(t.Context(), at, []collector.Sample{{Series: capacity, Value: v}, {Series: deferred, Value: 10}, {Series: other, Value: 100}, {Series: named, Value: 1000}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	d := &daemon{store: store}
	got, err := d.past(t.Context(), rules.Query{
		Name: "kvwatch_pool_queue_waiting_requests", Labels: map[string]string{"pool": "p", "model_name": ""},
	}, start.Add(time.Minute), start.Add(3*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	want := []chart.Point{{At: start.Add(time.Minute), Value: 11}, {At: start.Add(2 * time.Minute), Value: 12}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
