package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"github.com/klauspost/compress/zstd"

	"kvwatch/rules/sizing"
)

// realReport unpacks a report of a real run.
func realReport(t *testing.T, name string) string {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("../../rules/sizing/guidellm/testdata", name+".json.zst"))
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	text, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// sweepLike makes a report of 0.7's layout with G's table in it: offered rate,
// TTFT P99 in milliseconds, output tokens per second. It is made, not recorded.
func sweepLike(t *testing.T, scale float64) string {
	t.Helper()
	var levels []map[string]any
	start := 1_800_000_000.0
	for _, row := range [][3]float64{{2, 95, 480}, {8, 140, 1900}, {14, 240, 3060}, {17, 460, 3330}, {20, 760, 3700}} {
		of := func(mean, q float64) any {
			return map[string]any{"successful": map[string]any{"mean": mean, "count": 500, "percentiles": map[string]any{"p95": q, "p99": q}}}
		}
		levels = append(levels, map[string]any{
			"config": map[string]any{"strategy": map[string]any{"type_": "constant", "rate": row[0] * scale}},
			"metrics": map[string]any{
				"request_totals":      map[string]any{"successful": 500, "errored": 0, "incomplete": 3, "total": 503},
				"requests_per_second": of(row[0]*scale, 0), "output_tokens_per_second": of(row[2]*scale, 0), "request_concurrency": of(row[0], 0),
				"time_to_first_token_ms": of(row[1]/2, row[1]), "inter_token_latency_ms": of(15, 20), "request_latency": of(3, 5),
			},
			"start_time": start, "end_time": start + 60, "warmup_duration": 6.0,
		})
		start += 100
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"version": 2, "guidellm_version": "0.7.3"}, "config": map[string]any{}, "benchmarks": levels})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), fmt.Sprintf("sweep-%g.json", scale))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// runKnee runs the command with what its flags have by default.
func runKnee(t *testing.T, o kneeOptions) (string, error) {
	t.Helper()
	o.progress, o.currency = io.Discard, "EUR"
	if o.threshold == "" {
		o.threshold = "10%"
	}
	if o.replicas == 0 {
		o.replicas = 1
	}
	var out bytes.Buffer
	err := o.run(t.Context(), &out)
	return out.String(), err
}

func kneeJSON(t *testing.T, o kneeOptions) *kneeReport {
	t.Helper()
	o.output = "json"
	text, err := runKnee(t, o)
	if err != nil {
		t.Fatal(err)
	}
	var r kneeReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// TestKneeOfRealReports: the knees of the real runs, under SLOs that the lowest,
// some and all levels hold.
func TestKneeOfRealReports(t *testing.T) {
	t.Parallel()
	sweep, constant := realReport(t, "sweep-0.8.1"), realReport(t, "constant-0.3.1")
	for _, c := range []struct {
		file, slo string
		level     int
		reason    string
	}{
		{sweep, "ttft_p95=500ms", 0, "level 1 does not hold: ttft_p95 506.4ms is over 500ms"},
		{sweep, "ttft_p95=1s", 1, "level 2 does not hold: no request was answered"},
		{sweep, "ttft_p95=100ms", -1, "no level holds"},
		{constant, "ttft_p95=1s", 0, "level 1 does not hold: ttft_p95 2.581s is over 1s"},
		{constant, "ttft_p95=3s", 2, "at least"},
	} {
		r := kneeJSON(t, kneeOptions{reports: []string{c.file}, slo: []string{c.slo}})
		level := -1
		if r.Knee.Level != nil {
			level = *r.Knee.Level
		}
		if level != c.level || !strings.Contains(r.Knee.Reason, c.reason) || len(r.Levels) != 3 {
			t.Errorf("%s, %s: level %d, %q", filepath.Base(c.file), c.slo, level, r.Knee.Reason)
		}
	}
	through := kneeJSON(t, kneeOptions{reports: []string{sweep}, use: "batch"}).Levels[2]
	if through.Measured || through.MeetsSLO || through.TTFTP95 != nil || through.OutputTPS != nil {
		t.Errorf("the level that finished nothing: %+v", through)
	}
}

// TestKneeToReplicas is G's example, and the same where two replicas were tested.
func TestKneeToReplicas(t *testing.T) {
	t.Parallel()
	o := kneeOptions{reports: []string{sweepLike(t, 1)}, slo: []string{"ttft_p99=500ms"}, demandTPS: 20000, price: 11}
	r := kneeJSON(t, o)
	if *r.Knee.Level != 3 || *r.Knee.Rate != 17 || r.Sizing.Replicas != 7 || fmt.Sprintf("%.3f", r.Sizing.CostPerMillion) != "0.918" {
		t.Errorf("%+v, %+v", r.Knee, r.Sizing)
	}
	o.replicas, o.demandRPS = 2, 170
	if r := kneeJSON(t, o); r.Sizing.Replicas != 20 { // by requests: 170 / 8.5; by tokens 13
		t.Errorf("%+v", r.Sizing)
	}
	text, err := runKnee(t, o)
	for _, want := range []string{"Knee: level 3, 17 req/s, 3330 output tokens/s", "<- knee", "take 20 replicas", "|####"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%q is not in: %v\n%s", want, err, text)
		}
	}
}

// TestKneeOfPlan: a plan gives the SLO, the demand and the price.
func TestKneeOfPlan(t *testing.T) {
	t.Parallel()
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(plan, []byte("slo: {ttft_p95_ms: 500}\nworkload: {requests_per_day: 864000, output_tokens_p50: 1000, peak_factor: 2}\nheadroom: {peak_over_p95: 0.25}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := kneeJSON(t, kneeOptions{reports: []string{sweepLike(t, 1)}, plan: plan})
	// 2 x 10/s x 1000 tokens x 1.25 = 25 000 tokens/s over 3 330.
	if r.SLO != "ttft_p95=500ms" || r.Sizing.DemandTPS != 25000 || r.Sizing.Replicas != 8 {
		t.Errorf("%s, %+v", r.SLO, r.Sizing)
	}
}

// TestKneeBaseline: a loss past the threshold is exit code 2, a lesser one is not,
// and a saved knee serves as well as the report.
func TestKneeBaseline(t *testing.T) {
	t.Parallel()
	whole := sweepLike(t, 1)
	slo := []string{"ttft_p99=500ms"}
	saved := filepath.Join(t.TempDir(), "knee.json")
	text, err := runKnee(t, kneeOptions{reports: []string{whole}, slo: slo, output: "json"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(saved, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{whole, saved} {
		for _, c := range []struct {
			scale     float64
			threshold string
			code      int
		}{{0.95, "10%", 0}, {0.85, "10%", 2}, {0.85, "20%", 0}, {1.2, "10%", 0}} {
			_, err := runKnee(t, kneeOptions{reports: []string{sweepLike(t, c.scale)}, slo: slo, baseline: base, threshold: c.threshold})
			if code := exitCode(err); code != c.code {
				t.Errorf("%s, %g, %s: exit code %d, want %d: %v", filepath.Base(base), c.scale, c.threshold, code, c.code, err)
			}
		}
	}
	// No knee any more is a regression; less load that all holds is not told.
	if _, err := runKnee(t, kneeOptions{reports: []string{whole}, slo: []string{"ttft_p99=500ms"}, baseline: saved, threshold: "0%"}); err == nil || !strings.Contains(err.Error(), "--threshold") {
		t.Error(err)
	}
	if _, err := runKnee(t, kneeOptions{reports: []string{whole}, slo: []string{"ttft_p99=1s"}, baseline: saved}); err == nil || !strings.Contains(err.Error(), "two knees compare under one SLO only") {
		t.Error(err)
	}
}

// TestKneeCompares: several reports side by side; a bad one is told and skipped.
func TestKneeCompares(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("no report"), 0o600); err != nil {
		t.Fatal(err)
	}
	low, high := sweepLike(t, 0.5), sweepLike(t, 1)
	o := kneeOptions{reports: []string{low, bad, high}, slo: []string{"ttft_p99=500ms"}, output: "json"}
	text, err := runKnee(t, o)
	if exitCode(err) != 1 || !strings.Contains(fmt.Sprint(err), "bad.json: this is no JSON") {
		t.Error(err)
	}
	var c kneeComparison
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Reports) != 2 || *c.Best != high || len(c.Failed) != 1 {
		t.Errorf("%+v", c)
	}
	o.output = ""
	if text, _ = runKnee(t, o); !strings.Contains(text, "Compared, the greatest goodput first") || strings.LastIndex(text, "sweep-1.json") > strings.LastIndex(text, "sweep-0.5.json") {
		t.Error(text)
	}
}

// TestKneeFlags: what is wrong is said before anything is read.
func TestKneeFlags(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]kneeOptions{
		"a knee is that of an SLO":       {},
		"say how long a step may take":   {use: "agent"},
		"--slo ttft_p95=500: 500 has no": {slo: []string{"ttft_p95=500"}},
		"no http:// or https:// address": {use: "chat", server: "prometheus:9090"},
		"write it in braces":             {use: "chat", server: "http://p:1", power: `Hostname="a"`},
		"--power.selector {a}":           {use: "chat", server: "http://p:1", power: `{a}`},
		"--replica-price is -1":          {use: "chat", price: -1},
		"none.json: no such file":        {use: "chat", reports: []string{"none.json"}},
		"is a folder":                    {use: "chat", reports: []string{t.TempDir()}},
		"no such file":                   {plan: "none.yaml"},
	} {
		if _, err := runKnee(t, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestKneePower asks a stand-in for a server for the power over each level's time.
func TestKneePower(t *testing.T) {
	t.Parallel()
	var queries []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		queries = append(queries, query+" @ "+r.FormValue("time"))
		if r.FormValue("time") == "1800000460" { // of the last level there is nothing
			_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"3330"]}]}}`)
	}))
	defer server.Close()
	r := kneeJSON(t, kneeOptions{reports: []string{sweepLike(t, 1)}, slo: []string{"ttft_p99=500ms"}, server: server.URL, power: `{Hostname="gpu-1"}`})
	if want := `sum(avg_over_time(DCGM_FI_DEV_POWER_USAGE{Hostname="gpu-1"}[60000ms])) @ 1800000060`; len(queries) != 5 || queries[0] != want {
		t.Errorf("%q", queries)
	}
	if l := r.Levels[3]; *l.PowerWatts != 3330 || *l.JoulesPerToken != 1 {
		t.Errorf("%v, %v", *l.PowerWatts, *l.JoulesPerToken)
	}
	if l := r.Levels[4]; l.PowerWatts != nil || !strings.Contains(strings.Join(r.Warnings, "\n"), "no power of level 4: the server has no DCGM_FI_DEV_POWER_USAGE of that time") {
		t.Errorf("%+v, %q", l, r.Warnings)
	}
	server.Close()
	r = kneeJSON(t, kneeOptions{reports: []string{sweepLike(t, 1)}, slo: []string{"ttft_p99=500ms"}, server: strings.Replace(server.URL, "//", "//user:hidden@", 1)})
	if all := strings.Join(r.Warnings, "\n"); !strings.Contains(all, "no power of level 0, 1, 2, 3, 4: ") || strings.Contains(all, "hidden") {
		t.Errorf("%q", all)
	}
}

// TestKneeSchema holds the schema of both forms to their types.
func TestKneeSchema(t *testing.T) {
	t.Parallel()
	reflector := jsonschema.Reflector{Anonymous: true}
	schema := reflector.ReflectFromType(reflect.TypeFor[kneeComparison]())
	schema.Title = "kvwatch knee --output=json"
	schema.Description = "One report gives a kneeReport, several a kneeComparison."
	schema.Ref = ""
	schema.AnyOf = []*jsonschema.Schema{{Ref: "#/$defs/kneeReport"}, {Ref: "#/$defs/kneeComparison"}}
	holdSchema(t, "knee.schema.json", schema)
}

// TestExitCodes: 2 is for what is invalid and for a regression, also in company.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for want, err := range []error{nil, errors.New("failed"), regressionError{errors.New("worse")}} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	if got := sizing.Uses(); len(got) != len(useNames()) {
		t.Error(got)
	}
}
