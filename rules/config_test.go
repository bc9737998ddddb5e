package rules

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// rulesConfig is the part of the configuration file that this package owns.
type rulesConfig struct {
	Pools []PoolConfig        `yaml:"pools"`
	Rules map[string]Override `yaml:"rules"`
}

func decodeConfig(text string) (rulesConfig, error) {
	var c rulesConfig
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return c, err
	}
	return c, Validate(c.Pools, c.Rules)
}

func TestConfigErrorsNameRuleAndKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"unknown pool key":     {"pools: [{name: a, modelname: m}]", "modelname"},
		"no name":              {"pools: [{model_name: m}]", "no name"},
		"a name twice":         {"pools: [{name: a, model_name: m}, {name: a, model_name: n}]", `"a" is given twice`},
		"the same engines":     {"pools: [{name: a, model_name: m}, {name: b, model_name: m, jobs: [j]}]", `"a" and "b"`},
		"all engines":          {"pools: [{name: a}, {name: b, jobs: [j]}]", `"a" and "b"`},
		"a wrong role":         {"pools: [{name: a, role: both}]", "role"},
		"no such alert":        {"rules: {PrefixCacheColapse: {for: 2m}}", "PrefixCacheColapse is no alert"},
		"no such setting":      {"rules: {PrefixCacheCollapse: {kapa: 2}}", "PrefixCacheCollapse: kapa is no setting"},
		"text for a number":    {"rules: {PrefixCacheCollapse: {kappa: much}}", "PrefixCacheCollapse: kappa"},
		"zero":                 {"rules: {PrefixCacheCollapse: {kappa: 0}}", "PrefixCacheCollapse: kappa"},
		"number for a time":    {"rules: {QueueGrowing: {window: 5}}", "QueueGrowing: window"},
		"a wrong time":         {"rules: {QueueGrowing: {window: 5 min}}", "QueueGrowing: window"},
		"a wrong hold":         {"rules: {QueueGrowing: {for: soon}}", "soon"},
		"a wrong severity":     {"rules: {QueueGrowing: {severity: page}}", "severity"},
		"a label of ours":      {"rules: {QueueGrowing: {labels: {pool: x}}}", "labels: pool"},
		"a wrong label":        {"rules: {QueueGrowing: {labels: {a-b: x}}}", "a-b"},
		"a wrong scale":        {"rules: {QueueGrowing: {time_scale: -1}}", "time_scale"},
		"scales that differ":   {"rules: {PrefixCacheCollapse: {time_scale: 0.1}, PrefixCacheMissRising: {time_scale: 0.2}}", "time_scale"},
		"recoveries differ":    {"rules: {PrefixCacheCollapse: {resolve_prompts: 64}, PrefixCacheMissRising: {resolve_prompts: 65}}", "resolve_prompts"},
		"two mistakes at once": {"rules: {PrefixCacheCollapse: {kapa: 2}, QueueGrowing: {windoe: 5m}}", "QueueGrowing: windoe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := decodeConfig(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not name %q", err, c.want)
			}
		})
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	c, err := decodeConfig(`
pools:
  - {name: agents, model_name: m, jobs: [vllm], gateway_models: [agents-30b], max_num_seqs: 8, slo: {ttft_p95: 2s, itl_p95: 60ms}}
rules:
  PrefixCacheCollapse: {for: 2m, severity: info, labels: {team: inference}, kappa: 3, time_scale: 0.5, resolve_prompts: 64}
  QueueGrowing: {window: 1m, drain: 30}
  TargetDown: {disabled: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := resolveRules(c.Rules)
	if err != nil {
		t.Fatal(err)
	}
	page, warn, queue := rules[cacheCollapse], rules[missRising], rules["QueueGrowing"]
	if page.hold != time.Minute || page.severity != SeverityInfo || page.labels["team"] != "inference" || page.number("kappa") != 3 {
		t.Errorf("page: %+v", page)
	}
	if warn.timeScale != 0.5 || warn.number("resolve_prompts") != 64 || warn.number("kappa") != 1.5 {
		t.Errorf("the warning does not share what only the page sets: %+v", warn)
	}
	if queue.duration("window") != time.Minute || queue.duration("slope_window") != 10*time.Minute || queue.number("drain") != 30 {
		t.Errorf("queue: %+v", queue)
	}
	if !rules["TargetDown"].disabled {
		t.Error("TargetDown is not disabled")
	}
}

func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		"rules: {PrefixCacheCollapse: {for: 2m, kappa: 3}}", "pools: [{name: a, slo: {ttft_p95: 2s}}]",
		"rules: {QueueGrowing: {window: [1]}}", "rules: {x: null}", "pools: [null]", "rules: {QueueGrowing: {drain: .nan}}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := decodeConfig(text)
		if err != nil {
			return
		}
		if _, err := New(Options{Pools: c.Pools, Rules: c.Rules}); err != nil {
			t.Errorf("Validate takes %q, New does not: %v", text, err)
		}
	})
}
