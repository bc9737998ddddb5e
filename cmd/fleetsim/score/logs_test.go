package score

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/cmd/fleetsim/fleet"
)

// What is kept of a score with logs is another than that without.
func TestLogsAreKeptApart(t *testing.T) {
	t.Parallel()
	o := Options{Entries: []Entry{{"affinity_low_traffic", "A", 10 * time.Minute}}, Seeds: Seeds(1, 1), Parallel: 1, Keep: t.TempDir()}
	for _, want := range []struct {
		logs     bool
		detector string
	}{{false, "D1 warn"}, {true, logsRouting}, {true, logsRouting}, {false, "D1 warn"}} {
		o.Logs = want.logs
		r, err := Score(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Quiet[0].Detector != want.detector {
			t.Errorf("with logs %t: %+v", want.logs, r.Quiet[0])
		}
	}
}

func TestLogsCorpus(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, e := range Logs() {
		found[e.Scenario] = true
		if e.Length > logsWeek || e.Profile != "A" {
			t.Errorf("%+v", e)
		}
	}
	for _, name := range logScenarios {
		if !found[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestLogsMarkdown(t *testing.T) {
	t.Parallel()
	about := func(scenario, detector string) Subject { return Subject{scenario, "A", detector} }
	r := Result{Seeds: Seeds(TableSeed, 2)}
	for i, d := range logDetectors {
		found := IncidentScore{Subject: about("affinity_forgotten_once", d.Name), Cause: fleet.CauseRouting, Incidents: 2}
		if i == 0 {
			found.Found, found.Minutes, found.CausesTold, found.CausesRight = 2, []float64{1, 3}, 2, 1
		}
		r.Incidents = append(r.Incidents, found, IncidentScore{Subject: about("restarts", d.Name), Incidents: 10, Fires: 4 * (1 - min(i, 1))})
		r.Quiet = append(r.Quiet, QuietScore{Subject: about("affinity_forgotten_once", d.Name), ReplicaWeeks: 1, False: 3},
			QuietScore{Subject: about("healthy_week", d.Name), ReplicaWeeks: 4, False: i}, QuietScore{Subject: about("restarts", d.Name), ReplicaWeeks: 4})
	}
	_, text, _ := strings.Cut(r.LogsMarkdown(), "shorter.\n\n")
	want := `| target | wanted | reached |  |
|---|---|---|---|
| D7 routing: the gateway forgets once (A) | 100 %, 1 min | 100 %, 2.0 min | **missed** |
| D7 routing: false alarms per replica-week | 0 | 0 (0 in 8) | met |
| D7 content: false alarms per replica-week | 0 | 0.12 (1 in 8) | **missed** |

Why those are missed:

- *D7 routing: the gateway forgets once (A)*: ` + reasons["D7 routing: the gateway forgets once (A)"] + `

### Incidents: found, median / p90 minutes; cause right

| scenario | runs | cause | D7 routing | D7 content | turn boundary |
|---|---|---|---|---|---|
| affinity_forgotten_once (A) | 2 | routing | 100 % 2.0 / 2.8; 1 of 2 | - | - |

### Quiet time: false + true fires per replica-week; events that are no incidents: fires per event

| scenario | replica-weeks | events | D7 routing | D7 content | turn boundary |
|---|---|---|---|---|---|
| healthy_week (A) | 4.0 | - | 0 + 0 | 0.25 + 0 | 0.5 + 0 |
| restarts (A) | 4.0 | 10 | 0 + 0; 0.4 | 0 + 0; 0 | 0 + 0; 0 |
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
