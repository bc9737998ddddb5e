package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	yaml "go.yaml.in/yaml/v3"

	"kvwatch/alerting"
	"kvwatch/rules"
)

// ruled is a set of routes and inhibitions in the words that kvwatch and
// Alertmanager share.
type ruled struct {
	Route   *ruledRoute    `yaml:"route"`
	Inhibit []ruledInhibit `yaml:"inhibit_rules"`
}

type ruledRoute struct {
	Receiver string        `yaml:"receiver,omitempty"`
	GroupBy  *[]string     `yaml:"group_by,omitempty,flow"`
	Matchers []string      `yaml:"matchers,omitempty,flow"`
	Continue bool          `yaml:"continue,omitempty"`
	Routes   []*ruledRoute `yaml:"routes,omitempty"`
}

type ruledInhibit struct {
	Source []string `yaml:"source_matchers,flow"`
	Target []string `yaml:"target_matchers,flow"`
	Equal  []string `yaml:"equal,flow,omitempty"`
}

var (
	ruledReceivers = []string{"a", "b", "c"}
	ruledLabels    = map[string][]string{
		"alertname": {"A", "B", "C"}, "severity": {"critical", "warning", "info"}, "pool": {"chat", "agents", ""}, "team": {"x", "y", ""},
	}
)

// alertsOf makes an alert of every combination of labels; an empty one is not there.
func alertsOf(at time.Time) []rules.Alert {
	sets := []map[string]string{{}}
	for _, name := range []string{"alertname", "severity", "pool", "team"} {
		var next []map[string]string
		for _, set := range sets {
			for _, value := range ruledLabels[name] {
				with := maps.Clone(set)
				if value != "" {
					with[name] = value
				}
				next = append(next, with)
			}
		}
		sets = next
	}
	out := make([]rules.Alert, 0, len(sets))
	for _, set := range sets {
		out = append(out, rules.Alert{
			Name: set["alertname"], Severity: set["severity"], Labels: set, Annotations: map[string]string{"summary": "x"},
			State: rules.StateFiring, ActiveAt: at, FiredAt: at,
		})
	}
	return out
}

// dice makes routes, inhibitions and silences that are allowed, and otherwise anything.
type dice struct{ *rand.Rand }

func (d dice) of(list []string) string { return list[d.IntN(len(list))] }

func (d dice) matcher() string {
	names := []string{"alertname", "severity", "pool", "team", "nowhere"}
	name := d.of(names)
	values := append([]string{"", "other"}, ruledLabels[name]...)
	switch d.IntN(5) {
	case 0, 1:
		return fmt.Sprintf("%s=%q", name, d.of(values))
	case 2:
		return fmt.Sprintf("%s!=%q", name, d.of(values))
	case 3:
		return fmt.Sprintf("%s=~%q", name, d.regex(values))
	default:
		return fmt.Sprintf("%s!~%q", name, d.regex(values))
	}
}

// regex is anchored at both ends by whoever reads it.
func (d dice) regex(values []string) string {
	return d.of([]string{".*", ".+", d.of(values) + "|" + d.of(values), d.of(values) + ".*", "(?i:CHAT)", "."})
}

func (d dice) matchers(most int) []string {
	var out []string
	for range d.IntN(most + 1) {
		out = append(out, d.matcher())
	}
	return out
}

func (d dice) route(depth int) *ruledRoute {
	r := &ruledRoute{}
	if depth == 0 {
		r.Receiver = d.of(ruledReceivers)
	} else {
		r.Matchers, r.Continue = d.matchers(2), d.IntN(3) == 0
		if d.IntN(2) == 0 {
			r.Receiver = d.of(ruledReceivers)
		}
	}
	switch d.IntN(5) {
	case 0:
		r.GroupBy = &[]string{"..."}
	case 1:
		r.GroupBy = &[]string{}
	case 2, 3:
		by := []string{"alertname", "pool", "severity", "nowhere"}
		d.Shuffle(len(by), func(i, j int) { by[i], by[j] = by[j], by[i] })
		by = by[:1+d.IntN(3)]
		r.GroupBy = &by
	}
	if depth < 3 {
		for range d.IntN(4 - depth) {
			r.Routes = append(r.Routes, d.route(depth+1))
		}
	}
	return r
}

func (d dice) inhibit() ruledInhibit {
	in := ruledInhibit{Source: []string{d.matcher()}, Target: append([]string{d.matcher()}, d.matchers(1)...)}
	for _, name := range []string{"pool", "team"} {
		if d.IntN(2) == 0 {
			in.Equal = append(in.Equal, name)
		}
	}
	return in
}

func (d dice) ruled() ruled {
	r := ruled{Route: d.route(0), Inhibit: []ruledInhibit{}}
	for range d.IntN(3) {
		r.Inhibit = append(r.Inhibit, d.inhibit())
	}
	return r
}

// written are the ones that a person would write.
const written = `
- route: {receiver: a}
  inhibit_rules: []
- route:
    receiver: a
    group_by: [alertname, pool]
    routes:
      - {matchers: [severity="critical"], receiver: b, continue: true}
      - {matchers: [team=~"x|y"], receiver: c, group_by: ["..."], routes: [{matchers: [pool!=""]}, {matchers: [pool=""], group_by: [severity]}]}
      - {matchers: [severity="critical"], receiver: c}
  inhibit_rules:
    - {source_matchers: [alertname="A", severity="critical"], target_matchers: [severity!="critical"], equal: [pool, nowhere]}
- route:
    receiver: a
    group_by: ["..."]
    routes: [{matchers: [team="x"], group_by: [team]}, {matchers: [team="y"], group_by: []}, {receiver: b}]
  inhibit_rules:
    - {source_matchers: [severity=~"critical|warning"], target_matchers: [severity=~"warning|info"], equal: [alertname, pool]}
`

// TestAsAlertmanagerDoes gives the same routes, inhibitions, silences and alerts to
// a real Alertmanager and to kvwatch: the incidents, who is told of them, and what
// is suppressed by what are the same.
func TestAsAlertmanagerDoes(t *testing.T) {
	t.Parallel()
	const seeds = 40
	var sets []ruled
	if err := yaml.Unmarshal([]byte(written), &sets); err != nil {
		t.Fatal(err)
	}
	for seed := range seeds {
		sets = append(sets, dice{rand.New(rand.NewPCG(7, uint64(seed)))}.ruled()) //nolint:gosec // the same ones each time
	}
	file := filepath.Join(t.TempDir(), "alertmanager.yml")
	file = writeFile(t, file, "route: {receiver: a}\nreceivers: [{name: a}]\n")
	am := startServer(t, "/-/ready", "prometheus-alertmanager", func(address string) []string {
		return []string{"--config.file=" + file, "--storage.path=" + t.TempDir(), "--web.listen-address=" + address, "--cluster.listen-address="}
	})
	now := time.Now().UTC().Truncate(time.Second)
	alerts := alertsOf(now)
	post(t, am.url+"/api/v2/alerts", posted(alerts, now))
	silences := silencesOf(dice{rand.New(rand.NewPCG(8, 0))}, now) //nolint:gosec // the same ones each time
	comments := map[string]string{}                                // by the IDs that Alertmanager gave
	for _, s := range silences {
		var made struct{ SilenceID string }
		if err := json.Unmarshal(post(t, am.url+"/api/v2/silences", s), &made); err != nil {
			t.Fatal(err)
		}
		comments[made.SilenceID] = s.Comment
	}
	for i, set := range sets {
		text, err := yaml.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, "receivers: [{name: a}, {name: b}, {name: c}]\n"...)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		post(t, am.url+"/-/reload", nil)
		ours := incidentsOf(t, text, alerts, silences, now)
		if len(ours) < len(alerts) {
			t.Fatalf("set %d: %d alerts are in incidents, of %d", i, len(ours), len(alerts))
		}
		eventually(t, fmt.Sprintf("set %d is in effect and both say the same", i), func() error {
			body, err := am.get("/api/v2/alerts/groups")
			if err != nil {
				return err
			}
			if diff := cmp.Diff(alertLines(t, []byte(body), comments), ours); diff != "" {
				return fmt.Errorf("(-Alertmanager +kvwatch):\n%s\n%s", diff, text)
			}
			return nil
		})
	}
	t.Logf("%d sets of routes and inhibitions, %d alerts, %d silences: the same", len(sets), len(alerts), len(silences))
}

// silencesOf makes silences of which each is about an alertname and something else.
func silencesOf(d dice, now time.Time) []alerting.Silence {
	var out []alerting.Silence
	for i := range 4 {
		s := alerting.Silence{StartsAt: now, EndsAt: now.Add(time.Hour), CreatedBy: "test", Comment: fmt.Sprintf("s%d", i)}
		texts := []string{fmt.Sprintf("alertname=%q", d.of(ruledLabels["alertname"])), d.matcher(), d.matcher()}
		for _, text := range texts {
			m, err := alerting.ParseSilenceMatcher(text)
			if err != nil {
				panic(err)
			}
			s.Matchers = append(s.Matchers, m)
		}
		out = append(out, s)
	}
	return out
}

// posted is how alerts are posted to an Alertmanager.
func posted(alerts []rules.Alert, now time.Time) []map[string]any {
	out := make([]map[string]any, 0, len(alerts))
	for _, a := range alerts {
		out = append(out, map[string]any{"labels": a.Labels, "annotations": a.Annotations, "startsAt": now, "endsAt": now.Add(time.Hour)})
	}
	return out
}

func post(t *testing.T, address string, body any) []byte {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s (%v)", address, res.Status, answer, err)
	}
	return answer
}

// incidentsOf are the lines of kvwatch's own answer.
func incidentsOf(t *testing.T, config []byte, alerts []rules.Alert, silences []alerting.Silence, now time.Time) []string {
	t.Helper()
	var c alerting.Config
	decoder := yaml.NewDecoder(bytes.NewReader(config))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	d, err := alerting.New(alerting.Options{Config: c})
	if err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	defer d.Close()
	comments := map[string]string{}
	for _, s := range silences {
		id, err := d.Silence(s, now)
		if err != nil {
			t.Fatal(err)
		}
		comments[id] = s.Comment
	}
	d.Dispatch(t.Context(), now, alerts)
	w := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v2/alerts/groups", http.NoBody)
	d.AlertmanagerAPI(now, func() time.Time { return now }).ServeHTTP(w, request)
	return alertLines(t, w.Body.Bytes(), comments)
}

// alertLines writes an answer of /api/v2/alerts/groups as one line for each alert in
// each incident, in order; comments are those of silences by ID.
func alertLines(t *testing.T, body []byte, comments map[string]string) []string {
	t.Helper()
	var groups []struct {
		Labels   map[string]string
		Receiver struct{ Name string }
		Alerts   []struct {
			Labels map[string]string
			Status struct {
				State                   string
				SilencedBy, InhibitedBy []string
			}
		}
	}
	if err := json.Unmarshal(body, &groups); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var out []string
	for _, g := range groups {
		for _, a := range g.Alerts {
			var by []string
			for _, id := range a.Status.SilencedBy {
				by = append(by, comments[id])
			}
			slices.Sort(by)
			out = append(out, fmt.Sprintf("%s %v %v %s %v inhibited %t", g.Receiver.Name, g.Labels, a.Labels, a.Status.State, by, len(a.Status.InhibitedBy) > 0))
		}
	}
	slices.Sort(out)
	return out
}
