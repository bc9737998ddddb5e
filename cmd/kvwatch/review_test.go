package main

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"kvwatch/dashboards/review"
)

// TestReviewSchema holds the schema to the types.
func TestReviewSchema(t *testing.T) {
	t.Parallel()
	checkSchema(t, "review", reflect.TypeFor[review.Review]())
}

// TestReviewOfRecording: the real recording is reviewed in each form, and its
// facts are in it.
func TestReviewOfRecording(t *testing.T) {
	t.Parallel()
	o := reviewOptions{plans: []string{"../../deploy/plans/agents-30b.yaml"}}
	o.recording, o.output, o.now, o.progress, o.notes = testdata+"recording.tar.zst", "json", time.Now(), io.Discard, io.Discard
	var out bytes.Buffer
	if err := o.run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	var r review.Review
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Pools) != 1 || r.Pools[0].Engines != 2 || r.Pools[0].Requests < 2000 || len(r.Plans) != 1 {
		t.Errorf("%d pools, %d plans: %+v", len(r.Pools), len(r.Plans), r.Pools)
	}
	if hits := 1 - *r.Pools[0].UsualMiss; hits < 0.85 || hits > 0.95 {
		t.Errorf("usual hits %v", hits)
	}
	for _, form := range []string{"md", "html"} {
		o.output = form
		out.Reset()
		if err := o.run(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"TargetDown", "Plan agents-30b against pool", "How far to trust it", "learning, 0 of 6 hours"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s lacks %q", form, want)
			}
		}
	}
	o.plans = []string{"none.yaml"}
	if err := o.run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "none.yaml: no such file") {
		t.Error(err)
	}
}
