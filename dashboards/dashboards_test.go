package dashboards

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"kvwatch/rules"
)

// update writes the committed dashboards anew: go test ./dashboards -run Generated -update.
var update = flag.Bool("update", false, "write the dashboards instead of comparing them")

func TestFleetIsGenerated(t *testing.T) {
	t.Parallel()
	want, err := Fleet()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("grafana/fleet.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := Grafana.ReadFile("grafana/fleet.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("grafana/fleet.json is not what Fleet makes; run go test ./dashboards -run Generated -update (-want +got):\n%s", diff)
	}
}

// board is what the tests read of a dashboard.
type board struct {
	UID    string  `json:"uid"`
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`

	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []struct{ Expr string } `json:"list"`
	} `json:"annotations"`
}

type panel struct {
	ID          int                                      `json:"id"`
	Type        string                                   `json:"type"`
	Title       string                                   `json:"title"`
	Description string                                   `json:"description"`
	Datasource  struct{ UID string }                     `json:"datasource"`
	GridPos     struct{ H, W, X, Y int }                 `json:"gridPos"`
	Targets     []struct{ Expr, RefID string }           `json:"targets"`
	FieldConfig struct{ Defaults struct{ Unit string } } `json:"fieldConfig"`
}

// boards reads every committed dashboard.
func boards(t *testing.T) map[string]board {
	t.Helper()
	files, err := Grafana.ReadDir("grafana")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]board{}
	for _, f := range files {
		body, err := Grafana.ReadFile("grafana/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		var b board
		if err := json.Unmarshal(body, &b); err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
		all[f.Name()] = b
	}
	return all
}

// expressions lists all PromQL of a dashboard: of panels, variables and annotations.
func (b board) expressions() []string {
	var list []string
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			list = append(list, target.Expr)
		}
	}
	for _, a := range b.Annotations.List {
		if a.Expr != "" {
			list = append(list, a.Expr)
		}
	}
	labelValues := regexp.MustCompile(`label_values\((.+), \w+\)`)
	for _, v := range b.Templating.List {
		if m := labelValues.FindStringSubmatch(strings.ReplaceAll(string(v.Query), `\"`, `"`)); m != nil {
			list = append(list, m[1])
		}
	}
	return list
}

// known returns the labels of every series that kvwatch exports, by name.
func known() map[string][]string {
	series := map[string][]string{
		// What the daemon exports about itself, beside the rules' series.
		"kvwatch_build_info":                     {"version"},
		"kvwatch_target_scrape_duration_seconds": {"job", "instance"},
		"kvwatch_rule_evaluation_seconds":        nil,
		"kvwatch_notifications_total":            {"receiver", "outcome"},
		"kvwatch_config_last_reload_successful":  nil,
	}
	for _, r := range rules.Registered().Recordings {
		series[r.Name] = r.Labels
		if r.Kind == rules.KindSummary {
			series[r.Name] = append(slices.Clone(r.Labels), "quantile")
		}
	}
	return series
}

// A panel that names a series or a label which does not exist stays empty for ever, and nobody is told.
func TestEveryQueryNamesSeriesThatExist(t *testing.T) {
	t.Parallel()
	series := known()
	fill := strings.NewReplacer("$__rate_interval", "5m", "$pool", "x", "$model", "x", "$instance", "x")
	for name, b := range boards(t) {
		for _, expr := range b.expressions() {
			parsed, err := parser.NewParser(parser.Options{}).ParseExpr(fill.Replace(expr))
			if err != nil {
				t.Errorf("%s: %s: %v", name, expr, err)
				continue
			}
			parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
				if selector, ok := node.(*parser.VectorSelector); ok {
					checkSelector(t, name, series, selector)
				}
				return nil
			})
		}
	}
}

func checkSelector(t *testing.T, board string, series map[string][]string, selector *parser.VectorSelector) {
	t.Helper()
	has, ok := series[selector.Name]
	if !ok {
		t.Errorf("%s: there is no series %s", board, selector.Name)
		return
	}
	for _, m := range selector.LabelMatchers {
		if m.Name != model.MetricNameLabel && !slices.Contains(has, m.Name) {
			t.Errorf("%s: %s has no label %s, only %v", board, selector.Name, m.Name, has)
		}
	}
}

func TestBoardsAreWhole(t *testing.T) {
	t.Parallel()
	uids := map[string]string{}
	for name, b := range boards(t) {
		if other, ok := uids[b.UID]; ok || b.UID == "" {
			t.Errorf("%s has the uid %q of %q", name, b.UID, other)
		}
		uids[b.UID] = name
		var variables []string
		for _, v := range b.Templating.List {
			variables = append(variables, v.Name)
		}
		if diff := cmp.Diff([]string{"datasource", "pool", "model", "instance"}, variables); diff != "" {
			t.Errorf("%s: variables (-want +got):\n%s", name, diff)
		}
		ids := map[int]bool{}
		for _, p := range b.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels have the id %d", name, p.ID)
			}
			ids[p.ID] = true
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: panel %d %q wants a title, a description, a query and the data source variable", name, p.ID, p.Title)
			}
			if p.Type != "table" && p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s: %q has no unit", name, p.Title)
			}
			if p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: %q is wider than the page", name, p.Title)
			}
		}
	}
}
