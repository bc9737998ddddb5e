package review

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"kvwatch/rules/sizing"
)

// TestEpisodes: alerts about the same that follow each other are one incident,
// those for information none; its cost counts each token once, and the queue is
// told from its first alert on.
func TestEpisodes(t *testing.T) {
	t.Parallel()
	from, bad, slots := period()
	fired := func(name, severity, pool string, after, lasted time.Duration) Incident {
		i := Incident{Alert: name, Severity: severity, Pool: pool, About: "lab", ActiveAt: bad.Add(after), FiredAt: bad.Add(after), Summary: "Pool lab: " + name}
		if pool == "" {
			i.About = "vllm/a:8000"
		}
		if lasted > 0 {
			i.ResolvedAt = new(i.FiredAt.Add(lasted))
		}
		return i
	}
	collapse := fired("PrefixCacheCollapse", "critical", "lab", 10*time.Minute, 50*time.Minute)
	collapse.Cause, collapse.LeadSeconds = "routing", new(1200.0)
	rising := fired("PrefixCacheMissRising", "warning", "lab", 0, time.Hour)
	far := fired("QueueGrowing", "warning", "lab", 10*time.Hour, time.Minute)
	far.LeadSeconds = new(200_000.0)
	r := New(Input{
		From: from, To: from.Add(48 * time.Hour), Slots: map[string][]sizing.Slot{"lab": slots},
		Incidents: []Incident{
			fired("PrefixCacheDrift", "info", "lab", -time.Hour, 30*time.Hour), rising,
			fired("TargetDown", "warning", "", 5*time.Minute, 0), collapse,
			fired("QueueGrowing", "warning", "lab", 80*time.Minute, 5*time.Minute), far,
		},
	})
	if len(r.Episodes) != 3 {
		t.Fatalf("%d episodes: %+v", len(r.Episodes), r.Episodes)
	}
	first, down, last := r.Episodes[0], r.Episodes[1], r.Episodes[2]
	if !first.From.Equal(bad) || !first.To.Equal(bad.Add(85*time.Minute)) || first.Severity != "critical" || first.Cause != "routing" || first.what() != "PrefixCacheCollapse" ||
		len(first.Alerts) != 3 || *first.LeadSeconds != 1800 || *first.ExcessTokens != 4800 {
		t.Errorf("%+v, lead %v, excess %v", first, *first.LeadSeconds, *first.ExcessTokens)
	}
	if down.To != nil || down.About != "vllm/a:8000" || down.ExcessTokens != nil || down.lasted() != "not over at the end" {
		t.Errorf("%+v", down)
	}
	if last.LeadSeconds != nil || last.queue() != "none came" {
		t.Errorf("%+v", last)
	}
	if r.Pools[0].Days[1].Incidents != 2 {
		t.Errorf("%d incidents on the second day", r.Pools[0].Days[1].Incidents)
	}
	if text := r.incidentSentence(); !strings.HasPrefix(text, "3 incidents, 1 of them critical; the worst: 2026-11-02 06:00, 1 h 25 min: PrefixCacheCollapse; the cause is told as routing. In all, 6 alerts fired: 2 QueueGrowing,") {
		t.Errorf("%q", text)
	}
	title, lines := r.DigestTitle(), r.Digest()
	if title != "kvwatch digest: 1 alert fires now" || lines[0] != "Fired: TargetDown (17 h 55 min, fires now), PrefixCacheCollapse (50 min), PrefixCacheMissRising (1 h), 2 × QueueGrowing (6 min), and 1 other kind" ||
		lines[1] != "lab: 2 engines, 176 thousand requests, cache hits 89.2 % (usual 90 %), KV at most 50 %, up to 7 waited" || lines[len(lines)-1] != "Record: complete" {
		t.Errorf("%q\n%s", title, strings.Join(lines, "\n"))
	}
}

// TestMeasuredLead: a queue counts once it has lasted two slots.
func TestMeasuredLead(t *testing.T) {
	t.Parallel()
	from, _, slots := period()
	for i := range slots {
		if i == 20 || i == 30 || i == 31 || i == 32 {
			slots[i].QueuedSeconds = 0.7 * slots[i].EngineSeconds
		}
	}
	for fired, want := range map[int]float64{0: 32 * 300, 30: 600, 31: 0, 32: 0, 33: -1} {
		i := Incident{Pool: "lab", FiredAt: from.Add(time.Duration(fired) * sizing.SlotLength)}
		i.measureLead("lab", slots)
		got := -1.0
		if i.LeadSeconds != nil {
			got = *i.LeadSeconds
		}
		if got != want {
			t.Errorf("fired in slot %d: lead %g, want %g", fired, got, want)
		}
	}
}

// TestRegimesAreSmooth: one or two slots that are otherwise make no stretch.
func TestRegimesAreSmooth(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"..x..":       ".....",
		"..xx.":       ".....",
		".xxx.":       ".xxx.",
		".xx.xx.":     ".xxxxx.",
		"xxx...xxx":   "xxx...xxx",
		"xxx..x..xxx": "xxxxxxxxxxx",
		"xx...":       ".....",
		"":            "",
	} {
		var slots []sizing.Slot
		for _, c := range in {
			slots = append(slots, sizing.Slot{Missed: float64(c)})
		}
		got := ""
		for _, bad := range smooth(slots, func(s sizing.Slot) bool { return s.Missed == 'x' }) {
			if bad {
				got += "x"
			} else {
				got += "."
			}
		}
		if got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// TestDigestOfALargeFleet stays within a dozen lines, the worst pools first.
func TestDigestOfALargeFleet(t *testing.T) {
	t.Parallel()
	from, bad, slots := period()
	in := Input{
		From: from, To: from.Add(48 * time.Hour), Slots: map[string][]sizing.Slot{}, Notes: []string{"a hole"}, Learning: []string{"PrefixCacheCollapse of pool p3"},
		Plans: []*sizing.Live{
			{Plan: "chat", Assumptions: []sizing.Judged{{Name: "workload.people", Planned: 20, Live: new(52.0), Verdict: sizing.Drifted}}, Drift: []sizing.Change{{Resource: sizing.ResourceReplicas, From: 2, To: 5}}},
			{Plan: "rag", Assumptions: []sizing.Judged{{Name: "workload.session_s", Planned: 20, Verdict: sizing.CannotTell}}},
		},
		Journal: []Event{{At: bad, Kind: "deploy", Text: "vLLM 0.33"}},
	}
	for i := range 30 {
		in.Slots[fmt.Sprintf("p%d", i)] = slots[:400]
	}
	in.Incidents = []Incident{{Alert: "QueueGrowing", Severity: "warning", Pool: "p7", About: "p7", FiredAt: bad, ResolvedAt: new(bad.Add(time.Hour))}}
	r := New(in)
	lines := r.Digest()
	text := strings.Join(lines, "\n")
	if len(lines) > 12 || !strings.HasPrefix(lines[1], "p7: ") {
		t.Errorf("%d lines:\n%s", len(lines), text)
	}
	for _, want := range []string{
		"Fired: QueueGrowing (1 h)", "Beside them: 26 more pools, all of them without any alert", "Drifted: chat (people is 52, not 20) needs 5 replicas, not 2",
		"and 26 more not always", "1 gap or fault, 1 detector still learns",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if got := r.DigestTitle(); got != "kvwatch digest: well now; 1 incident since 2026-11-01 00:00" {
		t.Error(got)
	}
	var b bytes.Buffer
	if err := r.WriteMarkdown(&b); err != nil || !strings.Contains(b.String(), "| 2026-11-02 06:00 | deploy | all | vLLM 0.33 |") || !strings.Contains(b.String(), "5 replicas (reckoned 2)") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if got := New(Input{From: from, To: from.Add(time.Hour)}); got.DigestTitle() != "kvwatch digest: nothing was measured" || strings.Join(got.Digest(), "\n") != "Fired: nothing\nRecord: nothing was read" {
		t.Errorf("%s: %q", got.DigestTitle(), got.Digest())
	}
}
