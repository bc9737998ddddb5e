package rules

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/collector"
)

// TestAlertsOnly holds an engine without derived series to the alerts of one
// with them: no detector may rest on a series.
func TestAlertsOnly(t *testing.T) {
	t.Parallel()
	var told [2][]string
	var engines [2]*Engine
	for i := range engines {
		e, err := New(Options{Rules: labRules(), ScrapeInterval: realTick, AlertsOnly: i == 1, Dispatch: func(_ context.Context, now time.Time, alerts []Alert) {
			for _, a := range alerts {
				told[i] = append(told[i], fmt.Sprint(now, a))
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		engines[i] = e
	}
	rec, err := collector.OpenRecording(realRecording + "recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var next time.Time
	err = rec.Replay(t.Context(), func(r *collector.Round) error {
		for ; !next.IsZero() && next.Before(r.Time); next = next.Add(realTick) {
			for _, e := range engines {
				if err := e.Eval(t.Context(), next); err != nil {
					return err
				}
			}
		}
		if next.IsZero() {
			next = r.Time.Truncate(realTick).Add(realTick)
		}
		for _, e := range engines {
			e.Observe(r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(told[0], told[1]); diff != "" || len(told[0]) < 100 {
		t.Errorf("%d alerts told, alone they differ (-with series +alone)\n%s", len(told[0]), diff)
	}
	for _, r := range engines[1].Recorded() {
		t.Errorf("%s is derived", r.Labels)
	}
}
