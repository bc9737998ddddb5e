package alerting

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/rules"
)

// play hands alerts over and lets everything that is due happen.
func play(t *testing.T, d *Dispatcher) func(offset time.Duration, alerts ...rules.Alert) {
	return func(offset time.Duration, alerts ...rules.Alert) {
		t.Helper()
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		d.Tick(t.Context(), t0.Add(offset))
	}
}

// silence makes a silence from offset a to offset b.
func silence(t *testing.T, d *Dispatcher, now, a, b time.Duration, matchers ...string) string {
	t.Helper()
	s := Silence{StartsAt: t0.Add(a), EndsAt: t0.Add(b), CreatedBy: "ops", Comment: "roll-out"}
	for _, text := range matchers {
		m, err := ParseSilenceMatcher(text)
		if err != nil {
			t.Fatal(err)
		}
		s.Matchers = append(s.Matchers, m)
	}
	id, err := d.Silence(s, t0.Add(now))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSilencedAlertsAreNotTold(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	dir := t.TempDir()
	d := open(t, dir, hookConfig(h))
	at := play(t, d)
	a, b := fires("A", "warning", t0, "pool", "chat"), fires("B", "critical", t0, "pool", "chat")
	id := silence(t, d, 0, 0, 10*time.Minute, "alertname=A")
	at(0, a, b)
	at(5*time.Second, a, b)
	h.want(t, "only what is not silenced", "firing: +B")
	got := d.Muted(a.Labels, t0.Add(time.Minute))
	want := Muting{SilencedBy: []string{id}, Until: t0.Add(10 * time.Minute), Text: "Silenced by ops until Mon 2 Mar 14:10 UTC: roll-out"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the reason (-want +got):\n%s", diff)
	}
	if got := d.Muted(b.Labels, t0.Add(time.Minute)); !cmp.Equal(got, Muting{}) {
		t.Errorf("B is muted: %+v", got)
	}

	// The silence outlives the daemon.
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, hookConfig(h))
	at = play(t, d)
	at(2*time.Minute, a, b)
	at(3*time.Minute, a, b)
	h.want(t, "still silenced after a restart")
	at(11*time.Minute, a, b)
	h.want(t, "the silence has ended", "firing: +B +A")
}

// What was told, then silenced, then resolved is not told as resolved, and not
// later either: so it is in Alertmanager.
func TestResolvedWhileSilenced(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		beside  bool // another alert of the incident goes on
		resolve time.Duration
		want    []string // what is told from the silence on
	}{
		{"during the silence", false, 5 * time.Minute, nil},
		{"during the silence, another goes on", true, 5 * time.Minute, nil},
		{"after the silence", false, 15 * time.Minute, []string{"resolved: -A"}},
		{"after the silence, another goes on", true, 15 * time.Minute, []string{"firing: +B -A"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t)
			d := open(t, "", hookConfig(h))
			at := play(t, d)
			a, b := fires("A", "warning", t0, "pool", "chat"), fires("B", "critical", t0, "pool", "chat")
			list := []rules.Alert{a}
			if tt.beside {
				list = append(list, b)
			}
			at(0, list...)
			at(5*time.Second, list...)
			if len(h.take()) != 1 {
				t.Fatal("it was not told before the silence")
			}
			silence(t, d, time.Minute, time.Minute, 10*time.Minute, "alertname=A")
			for offset := 2 * time.Minute; offset < 30*time.Minute; offset += 30 * time.Second {
				if offset >= tt.resolve {
					list[0] = ends(a, t0.Add(tt.resolve))
				}
				at(offset, list...)
			}
			h.want(t, "from the silence on", tt.want...)
			if want := map[bool]int{true: 1}[tt.beside]; len(d.groups) != want {
				t.Errorf("%d groups are left, want %d", len(d.groups), want)
			}
		})
	}
}

// An incident of which all that is not silenced is over is over; when the silence
// ends and the rest still fires, that is a new one.
func TestTheRestIsSilenced(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", hookConfig(h))
	at := play(t, d)
	a, b := fires("A", "warning", t0, "pool", "chat"), fires("B", "critical", t0, "pool", "chat")
	at(0, a, b)
	at(5*time.Second, a, b)
	h.want(t, "both", "firing: +B +A")
	silence(t, d, 30*time.Second, 30*time.Second, 10*time.Minute, "alertname=A")
	at(2*time.Minute, a, ends(b, t0.Add(2*time.Minute)))
	h.want(t, "one is over, the other one silenced", "resolved: -B")
	at(5*time.Minute, a, ends(b, t0.Add(2*time.Minute)))
	h.want(t, "nothing new")
	at(12*time.Minute, a)
	h.want(t, "it still fires when the silence ends", "firing: +A")
}

func TestInhibition(t *testing.T) {
	t.Parallel()
	collapse := fires("PrefixCacheCollapse", "critical", t0, "pool", "agents")
	rising := fires("PrefixCacheMissRising", "warning", t0, "pool", "agents")
	elsewhere := fires("PrefixCacheMissRising", "warning", t0, "pool", "chat")
	down := fires("TargetDown", "critical", t0, "job", "vllm", "instance", "vllm-0:8000")
	derived := fires("MetricsStalled", "warning", t0, "job", "vllm", "instance", "vllm-0:8000", "pool", "chat")
	neighbour := fires("MetricsStalled", "warning", t0, "job", "vllm", "instance", "vllm-1:8000", "pool", "chat")
	for _, tt := range []struct {
		name, rules string
		alerts      []rules.Alert
		target      rules.Alert
		want        string // the alert that inhibits it
	}{
		{"the collapse inhibits its early warning", "", []rules.Alert{collapse, rising}, rising, "PrefixCacheCollapse (pool agents)"},
		{"not that of another pool", "", []rules.Alert{collapse, elsewhere}, elsewhere, ""},
		{"not the other way round", "", []rules.Alert{collapse, rising}, collapse, ""},
		{"not once it is over", "", []rules.Alert{ends(collapse, t0), rising}, rising, ""},
		{"a target that is down inhibits what is derived from it", "", []rules.Alert{down, derived}, derived, "TargetDown (vllm-0:8000, job vllm)"},
		{"not what is derived from another", "", []rules.Alert{down, neighbour}, neighbour, ""},
		{"not a pool's alert", "", []rules.Alert{down, rising}, rising, ""},
		{"not itself", "", []rules.Alert{down}, down, ""},
		{"turned off", "inhibit_rules: []", []rules.Alert{collapse, rising}, rising, ""},
		{
			"rules of one's own replace them", `inhibit_rules: [{source_matchers: [severity="critical"], target_matchers: [severity="warning"]}]`,
			[]rules.Alert{collapse, elsewhere},
			elsewhere, "PrefixCacheCollapse (pool agents)",
		},
		{
			"an alert on both sides does not inhibit itself", `inhibit_rules: [{source_matchers: ['severity=~".+"'], target_matchers: [severity="critical"]}]`,
			[]rules.Alert{collapse},
			collapse, "",
		},
		{
			"nor another one on both sides", `inhibit_rules: [{source_matchers: ['severity=~".+"'], target_matchers: [severity="critical"]}]`,
			[]rules.Alert{collapse, down},
			collapse, "",
		},
		{
			"but one that is on the source's side alone does", `inhibit_rules: [{source_matchers: ['severity=~".+"'], target_matchers: [severity="critical"]}]`,
			[]rules.Alert{collapse, rising},
			collapse, "PrefixCacheMissRising (pool agents)",
		},
		{
			"a label that both lack is equal", `inhibit_rules: [{source_matchers: [alertname="TargetDown"], target_matchers: [severity="warning"], equal: [zone]}]`,
			[]rules.Alert{down, rising},
			rising, "TargetDown (vllm-0:8000, job vllm)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := open(t, "", tt.rules+"\nreceivers: [{name: all}]\n")
			d.Dispatch(t.Context(), t0, tt.alerts)
			if got := d.Muted(tt.target.Labels, t0).InhibitedBy; got != tt.want {
				t.Errorf("inhibited by %q, want %q", got, tt.want)
			}
		})
	}
}

// An early warning that was told is not told as over while the collapse fires,
// and told again when the collapse ends before it.
func TestInhibitedAlertsAreNotTold(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", fmt.Sprintf(`
route: {receiver: hook, group_by: [alertname, pool], group_wait: 5s, group_interval: 1m, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: %q}]}]
`, h.URL))
	at := play(t, d)
	collapse := fires("PrefixCacheCollapse", "critical", t0, "pool", "agents")
	rising := fires("PrefixCacheMissRising", "warning", t0, "pool", "agents")
	at(0, rising, collapse)
	at(5*time.Second, rising, collapse)
	h.want(t, "the collapse alone", "firing: +PrefixCacheCollapse")
	at(2*time.Minute, rising, ends(collapse, t0.Add(2*time.Minute)))
	at(4*time.Minute, rising)
	h.want(t, "the collapse ends first", "resolved: -PrefixCacheCollapse", "firing: +PrefixCacheMissRising")
	at(5*time.Minute, rising, collapse)
	at(6*time.Minute, rising, collapse)
	h.want(t, "again", "firing: +PrefixCacheCollapse")
	at(8*time.Minute, ends(rising, t0.Add(7*time.Minute)), collapse)
	h.want(t, "the early warning ends unheard")
	d.Dispatch(t.Context(), t0.Add(15*time.Minute), nil)
	if d.Muted(rising.Labels, t0.Add(15*time.Minute)).InhibitedBy != "" {
		t.Error("an alert that has been missing for resolve_timeout still inhibits")
	}
}

func TestTimeIntervals(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	// t0 is a Monday, 14:00 UTC.
	d := open(t, "", fmt.Sprintf(`
route:
  receiver: hook
  group_by: [alertname]
  group_wait: 5s
  group_interval: 10m
  routes:
    - {matchers: [severity="warning"], mute_time_intervals: [afternoon]}
    - {matchers: [severity="info"], active_time_intervals: [madrid mornings, weekend]}
receivers: [{name: hook, webhook_configs: [{url: %q}]}]
time_intervals:
  - {name: afternoon, time_intervals: [{times: [{start_time: "13:00", end_time: "15:00"}]}]}
  - {name: madrid mornings, time_intervals: [{weekdays: ["monday:friday"], times: [{start_time: "08:00", end_time: "12:00"}], location: Europe/Madrid}]}
  - {name: weekend, time_intervals: [{weekdays: [saturday, sunday]}]}
`, h.URL))
	at := play(t, d)
	critical, warning, info := fires("C", "critical", t0), fires("W", "warning", t0), fires("I", "info", t0)
	all := []rules.Alert{critical, warning, info}
	at(0, all...)
	at(5*time.Second, all...)
	h.want(t, "in the afternoon", "firing: +C")
	for _, tt := range []struct {
		alert rules.Alert
		want  Muting
	}{
		{critical, Muting{}},
		{warning, Muting{MutedBy: []string{"afternoon"}, Until: t0.Add(time.Hour), Text: "Its routes do not speak now (afternoon), until Mon 2 Mar 15:00 UTC"}},
		{info, Muting{MutedBy: []string{outside}, Until: t0.Add(17 * time.Hour), Text: "Its routes do not speak now (outside of active_time_intervals), until Tue 3 Mar 07:00 UTC"}},
	} {
		if diff := cmp.Diff(tt.want, d.Muted(tt.alert.Labels, t0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.alert.Name, diff)
		}
	}
	at(61*time.Minute, all...)
	h.want(t, "after 15:00", "firing: +W")
	at(17*time.Hour-time.Minute, critical, warning, info)
	h.take()
	at(17*time.Hour+10*time.Minute, critical, warning, info)
	h.want(t, "in the morning of Madrid", "firing: +I")
}

func TestConfigOfMutes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"inhibit_rules: [{source_matchers: [a=b]}]":                                                                      "an entry needs source_matchers and target_matchers",
		"inhibit_rules: [{source_matchers: [a=b], target_matchers: [c=d], equal: [\"1\"]}]":                              `equal holds "1", which is no label name`,
		"inhibit_rules: [{source_matchers: [a=b], target_matchers: [c=d], same: [x]}]":                                   `unknown key "same"`,
		"inhibit_rules: [{source_matchers: [\"=\"], target_matchers: [c=d]}]":                                            "matchers: ",
		"time_intervals: [{time_intervals: [{}]}]":                                                                       "an entry has no name",
		"time_intervals: [{name: x}]":                                                                                    `"x" has no time_intervals`,
		"time_intervals: [{name: x, time_intervals: [{}]}, {name: x, time_intervals: [{}]}]":                             `"x" is there twice`,
		"time_intervals: [{name: x, time_intervals: [{hours: 1}]}]":                                                      `unknown key "hours"`,
		"time_intervals: [{name: x, time_intervals: [{times: [{start_time: \"25:00\", end_time: \"26:00\"}]}]}]":         "25:00",
		"{receivers: [{name: a}], route: {receiver: a, mute_time_intervals: [x]}}":                                       "the root route takes what no other does, at any time",
		"{receivers: [{name: a}], route: {receiver: a, routes: [{matchers: [a=b], active_time_intervals: [night]}]}}":    `"night" is not among the time_intervals`,
		"{receivers: [{name: a}], route: {receiver: a, routes: [{matchers: [a=b], mute_time_intervals: [night, day]}]}}": `"night" is not among the time_intervals`,
	} {
		_, err := parseConfig(text)
		wantError(t, text, err, want)
	}
}

func TestWays(t *testing.T) {
	t.Parallel()
	c := mustConfig(t, `
route:
  receiver: all
  group_by: [alertname]
  routes:
    - {matchers: [pool="chat"], receiver: llm, group_by: [pool], repeat_interval: 1h, continue: true, mute_time_intervals: [night]}
    - {matchers: [severity="critical"], receiver: pager}
time_intervals: [{name: night, time_intervals: [{times: [{start_time: "00:00", end_time: "06:00"}]}]}]
`+threeReceivers)
	lbls := map[string]string{"alertname": "PrefixCacheMissRising", "severity": "critical", "pool": "chat"}
	want := []Way{
		{Receiver: "llm", Route: `{}/{pool="chat"}`, Group: `{pool="chat"}`, GroupWait: DefaultGroupWait, GroupInterval: DefaultGroupInterval, RepeatInterval: time.Hour, Quiet: []string{"night"}},
		{Receiver: "pager", Route: `{}/{severity="critical"}`, Group: `{alertname="PrefixCacheMissRising"}`, GroupWait: DefaultGroupWait, GroupInterval: DefaultGroupInterval, RepeatInterval: DefaultRepeatInterval},
	}
	if diff := cmp.Diff(want, c.Ways(lbls)); diff != "" {
		t.Errorf("ways (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`alertname="PrefixCacheCollapse", pool="chat"`}, c.InhibitedWhile(lbls)); diff != "" {
		t.Errorf("inhibited while (-want +got):\n%s", diff)
	}
	if got := (Config{}).Ways(lbls); got != nil {
		t.Errorf("without receivers: %v", got)
	}
}

func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: the error is %v, want one with %q", what, err, want)
	}
}
