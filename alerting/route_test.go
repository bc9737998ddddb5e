package alerting

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	yaml "go.yaml.in/yaml/v3"
)

const threeReceivers = "\nreceivers: [{name: all}, {name: llm}, {name: pager}]\n"

func TestRoutes(t *testing.T) {
	t.Parallel()
	c := mustConfig(t, `
route:
  receiver: all
  group_by: [alertname]
  routes:
    - matchers: [team="inference"]
      receiver: llm
      group_by: [pool, model_name]
      group_wait: 1s
      routes:
        - {matchers: [severity="critical"], receiver: pager, group_by: ["..."]}
    - {matchers: ['pool=~"chat|agents"'], receiver: llm, continue: true}
    - {matchers: ['pool=~"chat|agents"', 'severity!="info"'], receiver: pager, group_by: []}
`+threeReceivers)
	for _, tt := range []struct {
		lbls map[string]string
		want []string // receiver and group key
	}{
		{map[string]string{"alertname": "A"}, []string{`all {}:{alertname="A"}`}},
		{map[string]string{"alertname": "A", "team": "inference", "pool": "x"}, []string{`llm {}/{team="inference"}:{pool="x"}`}},
		{
			map[string]string{"alertname": "A", "team": "inference", "severity": "critical"},
			[]string{`pager {}/{team="inference"}/{severity="critical"}:{alertname="A", severity="critical", team="inference"}`},
		},
		{
			map[string]string{"alertname": "A", "pool": "chat"},
			[]string{`llm {}/{pool=~"chat|agents"}:{alertname="A"}`, `pager {}/{pool=~"chat|agents",severity!="info"}:{alertname="A"}`},
		},
		{map[string]string{"alertname": "A", "pool": "chat", "severity": "info"}, []string{`llm {}/{pool=~"chat|agents"}:{alertname="A"}`}},
		{map[string]string{"alertname": "A", "pool": "chats"}, []string{`all {}:{alertname="A"}`}},
	} {
		var got []string
		for _, n := range c.tree().match(tt.lbls) {
			got = append(got, n.receiver+" "+n.groupKey(n.groupLabels(tt.lbls)))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lbls, diff)
		}
	}
	// The alert that always fires goes only where it is asked for by name.
	dog := map[string]string{"alertname": "Watchdog", "severity": "info", "pool": "chat"}
	if got := c.tree().takers(dog); len(got) != 0 {
		t.Errorf("Watchdog goes to %d receivers that did not ask for it", len(got))
	}
	asked := mustConfig(t, `
route:
  receiver: all
  routes:
    - {matchers: ['alertname="Watchdog"'], receiver: llm, continue: true}
    - {matchers: ['severity="info"'], receiver: pager}
`+threeReceivers)
	if got := asked.tree().takers(dog); len(got) != 1 || got[0].receiver != "llm" {
		t.Errorf("Watchdog goes to %d receivers, want llm alone", len(got))
	}

	inner := c.tree().match(map[string]string{"team": "inference"})[0]
	if inner.groupWait != time.Second || inner.groupInterval != DefaultGroupInterval || inner.repeatInterval != DefaultRepeatInterval {
		t.Errorf("times %v %v %v", inner.groupWait, inner.groupInterval, inner.repeatInterval)
	}
}

// TestEqualMatchers gives two routes the same matchers: they are two incidents.
func TestEqualMatchers(t *testing.T) {
	t.Parallel()
	c := mustConfig(t, `
route:
  receiver: all
  routes:
    - {matchers: [pool="chat"], receiver: llm, continue: true}
    - {matchers: [pool="chat"], receiver: pager}
`+threeReceivers)
	lbls := map[string]string{"pool": "chat"}
	got := c.tree().match(lbls)
	if len(got) != 2 || got[0].groupKey(nil) == got[1].groupKey(nil) {
		t.Errorf("got %v", got)
	}
}

func TestDefaultRoute(t *testing.T) {
	t.Parallel()
	root := mustConfig(t, threeReceivers).tree()
	if root.receiver != "all" || root.groupWait != 5*time.Second || root.groupInterval != 5*time.Minute || root.repeatInterval != 4*time.Hour {
		t.Errorf("got %+v", root)
	}
	lbls := map[string]string{"alertname": "A", "pool": "chat", "severity": "info"}
	if diff := cmp.Diff(map[string]string{"alertname": "A", "pool": "chat"}, root.groupLabels(lbls)); diff != "" {
		t.Error(diff)
	}
	if (Config{}).tree() != nil {
		t.Error("a tree that leads to nobody")
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"unknown receiver", "route: {receiver: oncal}" + threeReceivers, `route: receiver "oncal" is not among the receivers`},
		{"unknown receiver below", "route: {receiver: all, routes: [{receiver: oncal}]}" + threeReceivers, `route: receiver "oncal" is not among the receivers`},
		{"no receiver at the root", "route: {group_by: [pool]}" + threeReceivers, "route: the root route needs a receiver, which takes what no other route does"},
		{"matchers at the root", "route: {receiver: all, matchers: [a=b]}" + threeReceivers, "route: the root route takes every alert, so it can have no matchers: put them into routes"},
		{"continue at the root", "route: {receiver: all, continue: true}" + threeReceivers, "route: the root route has nothing to continue to: remove continue"},
		{"empty route", "route: {receiver: all, routes: [null]}" + threeReceivers, "route: an entry of routes is empty"},
		{"unknown key in a route", "route:\n  receiver: all\n  group_wate: 5s" + threeReceivers, `line 3: unknown key "group_wate"`},
		{"bad duration", "route: {receiver: all, group_wait: 5 apples}" + threeReceivers, `route: group_wait: unknown unit " apples" in duration "5 apples"`},
		{"no interval", "route: {receiver: all, group_interval: 0s}" + threeReceivers, "route: group_interval must be over 0s"},
		{"no repeat", "route: {receiver: all, repeat_interval: 0s}" + threeReceivers, "route: repeat_interval must be over 0s"},
		{"bad label", "route: {receiver: all, group_by: [a-b]}" + threeReceivers, `route: group_by holds "a-b", which is no label name`},
		{"label twice", "route: {receiver: all, group_by: [a, a]}" + threeReceivers, `route: group_by holds "a" twice`},
		{"all and one", `route: {receiver: all, group_by: [a, "..."]}` + threeReceivers, `route: group_by has "..." beside other labels: "..." alone means all labels`},
		{"bad matcher", "route: {receiver: all, routes: [{matchers: [pool]}]}" + threeReceivers, `matchers: bad matcher format: pool; write label="value", with =, !=, =~ or !~`},
		{"bad regexp", `route: {receiver: all, routes: [{matchers: ['pool=~"("']}]}` + threeReceivers, "matchers: error parsing regexp: missing closing ): `^(?:()$`; write label=\"value\", with =, !=, =~ or !~"},
		{"receiver twice", "receivers: [{name: a}, {name: a}]", `receivers: "a" is there twice: give each its own name`},
		{"no name", "receivers: [{webhook_configs: [{url: http://a}]}]", "a receiver has no name: give it one, routes refer to it"},
		{"unknown kind", "receivers: [{name: a, slak_configs: [{}]}]", `receiver "a": unknown key "slak_configs", want name or one of ` + strings.Join(configKeys(), ", ")},
		{"webhook without address", "receivers: [{name: a, webhook_configs: [{max_alerts: 3}]}]", `receiver "a": webhook_configs entry 1: give either url or url_file`},
		{"webhook with a bad address", "receivers: [{name: a, webhook_configs: [{url: ftp://secret}]}]", `receiver "a": webhook_configs entry 1: url must be an address that begins with http:// or https://`},
		{"webhook, deep typo", "receivers: [{name: a, webhook_configs: [{url: http://a, http_config: {basic_auth: {usr: x}}}]}]", `receiver "a": webhook_configs entry 1: line 1: unknown key "usr"`},
		{"slack without channel", "receivers: [{name: a, slack_configs: [{token: x}]}]", `receiver "a": slack_configs entry 1: channel is missing: with a token, say where to post, as in channel: "#llm-oncall"`},
		{"slack with nothing", `receivers: [{name: a, slack_configs: [{channel: "#x"}]}]`, `receiver "a": slack_configs entry 1: give either a bot token (token or token_file, and channel) or an incoming webhook (api_url or api_url_file)`},
		{"slack with two tokens", `receivers: [{name: a, slack_configs: [{token: x, token_file: y, channel: "#x"}]}]`, `receiver "a": slack_configs entry 1: token and token_file are both there: keep one`},
		{"slack with both ways", `receivers: [{name: a, slack_configs: [{token: x, api_url_file: y, channel: "#x"}]}]`, `receiver "a": slack_configs entry 1: api_url_file is an incoming webhook's address, which does not go with a token: keep one`},
		{"slack with a bad address", `receivers: [{name: a, slack_configs: [{api_url: "hooks.slack.com/secret"}]}]`, `receiver "a": slack_configs entry 1: api_url must be an address that begins with http:// or https://`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := parseConfig(tt.text); err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestInlineInTheDaemonsFile decodes the settings as the daemon's own struct
// holds them, strictly.
func TestInlineInTheDaemonsFile(t *testing.T) {
	t.Parallel()
	type file struct {
		Other    string `yaml:"other"`
		Alerting Config `yaml:",inline"`
	}
	dec := yaml.NewDecoder(strings.NewReader("other: x\nroute: {receiver: a}\nreceivers: [{name: a, terminal_configs: [{}]}]\n"))
	dec.KnownFields(true)
	var f file
	if err := dec.Decode(&f); err != nil {
		t.Fatal(err)
	}
	if f.Other != "x" || f.Alerting.Route.Receiver != "a" || len(f.Alerting.Receivers[0].integrations) != 1 {
		t.Errorf("got %+v", f)
	}
	shown, err := yaml.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseConfig(strings.TrimPrefix(string(shown), "other: x\n")); err != nil {
		t.Errorf("what is shown does not load: %v\n%s", err, shown)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("route: {receiver: all, group_by: [pool], routes: [{matchers: [a=~\"b\"], continue: true}]}" + threeReceivers)
	for _, k := range Registered() {
		f.Add("receivers: [{name: a, " + k.Name + "_configs: [" + k.Example + "]}]")
	}
	f.Add("receivers: [{name: a, slack_configs: [null]}]")
	f.Add("receivers: [{name: a, slack_configs: }]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfig(text)
		if err != nil {
			return
		}
		if tree := c.tree(); tree != nil && len(tree.match(map[string]string{"alertname": "A"})) == 0 {
			t.Errorf("%q leads an alert nowhere", text)
		}
		if _, err := yaml.Marshal(c); err != nil {
			t.Error(err)
		}
	})
}
