package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"kvwatch/rules/sizing"
)

// size runs the command on a shipped plan and returns what it prints.
func size(t *testing.T, o sizeOptions) string {
	t.Helper()
	o.file = filepath.Join("../../deploy/plans", o.file)
	var out bytes.Buffer
	if err := o.run(t.Context(), &out, time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestShippedPlans: each plan comes to what its comments say, and its text has a
// place for everything.
func TestShippedPlans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		set  []string
		want map[string]float64
	}{
		{"agents-30b.yaml", nil, map[string]float64{
			"gpus": 2, "nodes": 1, "replicas": 1, "max_num_seqs": 8, "gateway_workers": 1, "gateway_replicas": 2, "db_connections": 20, "kv_gb": 51.539607552,
		}},
		{"chat-70b.yaml", nil, map[string]float64{
			"gpus": 224, "nodes": 56, "replicas": 56, "max_num_seqs": 40, "gateway_workers": 1, "gateway_replicas": 3, "db_connections": 30,
		}},
		{"chat-70b.yaml", []string{"headroom.peak_over_p95=0"}, map[string]float64{
			"gpus": 180, "nodes": 45, "replicas": 45, "max_num_seqs": 40, "gateway_workers": 1, "gateway_replicas": 3, "db_connections": 30,
		}},
		{"requests-5m.yaml", nil, map[string]float64{"gpus": 44, "nodes": 11}},
	} {
		var w sizing.Worksheet
		if err := json.Unmarshal([]byte(size(t, sizeOptions{file: c.file, set: c.set, output: "json"})), &w); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, w.Required, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.file, diff)
		}
	}
	entries, err := filepath.Glob("../../deploy/plans/*.yaml")
	if err != nil || len(entries) != 3 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, file := range entries {
		p, err := loadPlan(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if problem := p.config().Problem; problem != "" {
			t.Errorf("%s: %s", file, problem)
		}
	}
}

// TestSizeForms: text, JSON and YAML say the same, and what cannot be computed
// is null with its reason.
func TestSizeForms(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"agents-30b.yaml", "chat-70b.yaml", "requests-5m.yaml"} {
		text, asJSON, asYAML := size(t, sizeOptions{file: file, output: "text"}), map[string]any{}, map[string]any{}
		if err := json.Unmarshal([]byte(size(t, sizeOptions{file: file, output: "json"})), &asJSON); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(size(t, sizeOptions{file: file, output: "yaml"})), &asYAML); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(asYAML)
		if err != nil {
			t.Fatal(err)
		}
		var fromYAML map[string]any
		if err := json.Unmarshal(again, &fromYAML); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asJSON, fromYAML, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
			t.Errorf("%s: -json +yaml\n%s", file, diff)
		}
		keys := []string{"plan", "steps", "required", "sensitivity", "engine_flags", "gateway_settings"}
		for _, key := range keys {
			if _, ok := asJSON[key]; !ok || len(asJSON) != len(keys) {
				t.Errorf("%s: the format has %v, not %s among %d keys", file, asJSON, key, len(keys))
			}
		}
		for _, s := range asJSON["steps"].([]any) {
			step := s.(map[string]any)
			name := step["name"].(string)
			if !strings.Contains(text, "  "+name) && !strings.Contains(text, "- "+name) {
				t.Errorf("%s: the text lacks %s", file, name)
			}
			if len(step) != 6 || (step["value"] == nil) != strings.Contains(step["source"].(string), "unknown: ") {
				t.Errorf("%s: %v", file, step)
			}
		}
		for _, bad := range []string{"NaN", "Inf", "%!", "<nil>"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: the text holds %s", file, bad)
			}
		}
	}
}

// TestWritePlan: the plan that is written has what was set and today's date, and
// comes to the same.
func TestWritePlan(t *testing.T) {
	t.Parallel()
	o := sizeOptions{file: "agents-30b.yaml", set: []string{"workload.people=40", "model.kv_dtype=bf16"}, writePlan: true}
	written := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(written, []byte(size(t, o)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := loadPlan(written)
	if err != nil {
		t.Fatal(err)
	}
	if p.Date != "2026-12-01" || *p.Workload.Profiles[0].People != 40 || p.Model.KVDType != "bf16" || p.Plan.Plan != "agents-30b" {
		t.Errorf("%+v", p.Plan)
	}
}

func TestFigure(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 8: "8", 0.0001234567: "0.0001235", 1234.5: "1234", 9999: "9999", 14814.8: "14 815", 463867: "463 867", 30.5e9: "30 500 000 000", -152e9: "-152 000 000 000", 1e20: "1e+20",
	} {
		if got := figure(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	for _, c := range []struct {
		v          float64
		unit, want string
	}{
		{327_680, "B", "327 680 B (0.3125 MiB)"},
		{114e9, "B per replica", "114 GB (106.2 GiB) per replica"},
		{2, "nodes", "2 nodes"},
	} {
		if got := quantity(c.v, c.unit); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// The schemas beside the commands are those of their types: of what size prints,
// and of a plan, for editors.
func TestSizeSchemas(t *testing.T) {
	t.Parallel()
	reflector := jsonschema.Reflector{Anonymous: true, ExpandedStruct: true}
	result := reflector.ReflectFromType(reflect.TypeFor[sizing.Worksheet]())
	result.Title = "kvwatch size --output=json"
	nullableNumbers(result)
	holdSchema(t, "size.schema.json", result)

	reflector = jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, FieldNameTag: "yaml", RequiredFromJSONSchemaTags: true}
	if err := reflector.AddGoComments("kvwatch/cmd/kvwatch", "../../rules/sizing"); err != nil {
		t.Fatal(err)
	}
	plan := reflector.ReflectFromType(reflect.TypeFor[sizing.Plan]())
	plan.Title = "A sizing plan of kvwatch"
	nullableNumbers(plan)
	holdSchema(t, "plan.schema.json", plan)
}

// nullableNumbers lets a number be null, which says that it is unknown.
func nullableNumbers(s *jsonschema.Schema) {
	for _, def := range s.Definitions {
		nullableNumbers(def)
	}
	if s.Properties == nil {
		return
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		if p.Value.Type == "number" {
			p.Value.Type, p.Value.Extras = "", map[string]any{"type": []string{"number", "null"}}
		}
	}
}
