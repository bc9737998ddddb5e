package collector

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A fact is one row of what is known to mislead monitors: the pages that a
// server showed one after another, and what is right to read from them. Pages
// are real where they are named by file, else made after a report.
type fact struct {
	// report is its number or name; is says what is right.
	report, is string
	source     string
	// contentType is that of all pages; "" is text 0.0.4.
	contentType string
	pages       []factPage
}

// factPage is one page and what is right to read from it.
type factPage struct {
	// file is a page of testdata, else text is the page.
	file, text string
	// want is all that is passed on, or, where the page is a file, a part of it.
	want map[string]float64
	// without are families of which nothing may be passed on.
	without []string
	// from are families and the names under which they were read.
	from map[string]string
	// state is set where the page is refused; reason is a part of why.
	state  State
	reason string
	// sampled, restarted and missing are what the page tells beside its samples.
	sampled, restarted bool
	missing            []string
}

func (f fact) test(t *testing.T) {
	t.Parallel()
	r := newRounds(*testTarget(f.source), DefaultLimits())
	var now clock
	for i, p := range f.pages {
		text := p.text
		if p.file != "" {
			text = string(testPage(t, p.file))
		}
		round, info := r.page(strings.NewReader(text), f.contentType, now.next(), explainFile)
		if p.state == "" {
			p.state = StateUp
		}
		if round.State != p.state || !strings.Contains(round.Reason, p.reason) {
			t.Fatalf("page %d: state %s, %q", i, round.State, round.Reason)
		}
		p.check(t, i, round, info)
	}
}

func (p factPage) check(t *testing.T, i int, round *Round, info pageInfo) {
	t.Helper()
	got := values(samplesOf(round))
	delete(got, Up)
	if p.file != "" {
		for name := range got {
			if _, ok := p.want[name]; !ok {
				delete(got, name)
			}
		}
	}
	if p.want != nil {
		if diff := cmp.Diff(p.want, got); diff != "" {
			t.Errorf("page %d: series (-want +got):\n%s", i, diff)
		}
	}
	for _, s := range samplesOf(round) {
		name, _, _ := strings.Cut(short(s.Series), "{")
		if slices.ContainsFunc(p.without, func(family string) bool { return name == family || strings.HasPrefix(name, family+"_") }) {
			t.Errorf("page %d: %s is passed on", i, short(s.Series))
		}
	}
	for family, name := range p.from {
		if namesRead(info.names)[family] != name {
			t.Errorf("page %d: %s is read from %q, want %q", i, family, namesRead(info.names)[family], name)
		}
	}
	if info.Sampled != p.sampled || round.Sampled != p.sampled || info.Restarted != p.restarted {
		t.Errorf("page %d: sampled %t (in the round %t), restarted %t", i, info.Sampled, round.Sampled, info.Restarted)
	}
	if p.state == StateUp && p.missing != nil {
		if diff := cmp.Diff(p.missing, info.Missing); diff != "" {
			t.Errorf("page %d: missing (-want +got):\n%s", i, diff)
		}
	}
}

// A factAnswer is what a server answers over HTTP, and what is right to say of it.
type factAnswer struct {
	report, is string
	source     string
	answer     http.HandlerFunc
	want       State
	reason     string
	// warning is a part of the target's warning.
	warning string
}

func (f factAnswer) test(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(f.answer)
	t.Cleanup(server.Close)
	r := newRig(t, server.URL, func(c *ScrapeConfig) { c.Source = f.source })
	round := r.settled(t, 0)
	if round.State != f.want || !strings.Contains(round.Reason, f.reason) {
		t.Errorf("state %s, %q", round.State, round.Reason)
	}
	got := r.status()
	late := strings.HasPrefix(got.Warning, "the scrape took") // true of a busy machine, and no matter here
	if got.State != f.want || !strings.Contains(got.Warning, f.warning) || f.warning == "" && got.Warning != "" && !late {
		t.Errorf("status %s, warning %q", got.State, got.Warning)
	}
}
