package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"kvwatch/collector"
)

// stateView says a target's state for people.
type stateView struct {
	State collector.State `json:"state"`
	// StateText is the state in words.
	StateText string `json:"state_text"`
	// StateReason says what is wrong; Hint what to look at first.
	StateReason string     `json:"state_reason,omitempty"`
	Hint        string     `json:"hint,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
}

// targetSummary counts the targets and lists them, those that need a look first.
type targetSummary struct {
	Total int `json:"total"`
	Up    int `json:"up"`
	// Unknown counts the targets that were not scraped yet.
	Unknown    int          `json:"unknown"`
	LastScrape *time.Time   `json:"last_scrape"`
	List       []targetView `json:"list"`
}

type targetView struct {
	Job      string `json:"job"`
	Instance string `json:"instance"`
	URL      string `json:"url"`
	Source   string `json:"source,omitempty"`
	stateView
	LastScrape *time.Time `json:"last_scrape,omitempty"`
	// ScrapeSeconds is how long the last scrape took.
	ScrapeSeconds float64 `json:"scrape_seconds"`
	Samples       int     `json:"samples"`
	// Version is what the server says of itself; empty while unknown.
	Version string `json:"version,omitempty"`
	// Backlog is that of one worker of a gateway.
	Backlog *collector.Backlog `json:"backlog,omitempty"`
	// Warning says what is not right with a target that is read all the same.
	Warning string `json:"warning,omitempty"`
}

func summarise(targets []collector.TargetStatus) targetSummary {
	s := targetSummary{Total: len(targets), List: []targetView{}}
	var last time.Time
	for _, t := range targets {
		if t.LastScrape.After(last) {
			last = t.LastScrape
		}
		switch health(t.State) {
		case "up":
			s.Up++
		case "unknown":
			s.Unknown++
		}
		s.List = append(s.List, targetView{
			Job: t.Job, Instance: t.Instance, URL: plainURL(t.URL), Source: t.Source,
			stateView: stateOf(t), LastScrape: timeOrNil(t.LastScrape), ScrapeSeconds: t.Duration.Seconds(), Samples: t.Samples,
			Version: t.Version, Backlog: t.Backlog, Warning: t.Warning,
		})
	}
	slices.SortStableFunc(s.List, func(a, b targetView) int { return cmp.Compare(urgency(a), urgency(b)) })
	s.LastScrape = timeOrNil(last)
	return s
}

// urgency puts first what is not up, then what is not right.
func urgency(t targetView) int {
	switch {
	case t.State != collector.StateUp:
		return 0
	case t.Warning != "":
		return 1
	default:
		return 2
	}
}

func stateOf(t collector.TargetStatus) stateView {
	text, hint := stateWords(t.State)
	v := stateView{State: t.State, StateText: text, StateReason: t.Reason, Hint: hint, Since: timeOrNil(t.Since)}
	if v.State == "" {
		v.State = collector.StateUnknown
	}
	return v
}

// stateWords says a target's state in words, and what to look at first.
func stateWords(s collector.State) (text, hint string) {
	switch s {
	case collector.StateUp:
		return "up", ""
	case collector.StateDown:
		return "down", "Is the process running, and does it listen on this address? kvwatch must reach it from its own network."
	case collector.StateTimeout:
		return "timed out", "The page took longer than scrape_timeout. A blocked event loop shows like this: look at the process' CPU."
	case collector.StateRedirect:
		return "redirected", "Set metrics_path to the path that answers; LiteLLM wants /metrics/ with the slash."
	case collector.StateUnauthorised:
		return "not authorised", "Check the credentials of this job: authorization, basic_auth or a client certificate."
	case collector.StateNotFound:
		return "not found", "The server answers, but not on this path. Check metrics_path."
	case collector.StateOverloaded:
		return "overloaded", "The server answers 503: admission control refuses the scrape. It is saturated, not gone."
	case collector.StateNoMetrics:
		return "no known metrics", "The page is a metrics page, but of something else. Check the address and the port."
	case collector.StateNotMetrics:
		return "no metrics page", "The answer is no metrics page. Is there a login page or another service before it?"
	case collector.StateTruncated:
		return "truncated", "The page ended early. Look for a proxy that cuts long bodies, or a process that dies while it answers."
	case collector.StateTooLarge:
		return "too large", "The page is over its limit and was refused whole. Cut the labels at the source or raise the limit."
	case collector.StateMetricsDisabled:
		return "metrics disabled", "The engine runs with --disable-log-stats. Start it without."
	default:
		return "not scraped yet", "The first scrape comes within one scrape interval."
	}
}

// plainURL cuts user info and query, which may hold secrets, off an address.
func plainURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// promTarget is a target in the shape of Prometheus's /api/v1/targets.
type promTarget struct {
	DiscoveredLabels   map[string]string `json:"discoveredLabels"`
	Labels             map[string]string `json:"labels"`
	ScrapePool         string            `json:"scrapePool"`
	ScrapeURL          string            `json:"scrapeUrl"`
	GlobalURL          string            `json:"globalUrl"`
	LastError          string            `json:"lastError"`
	LastScrape         time.Time         `json:"lastScrape"`
	LastScrapeDuration float64           `json:"lastScrapeDuration"`
	Health             string            `json:"health"`
	ScrapeInterval     string            `json:"scrapeInterval"`
}

type promTargets struct {
	Active        []promTarget   `json:"activeTargets"`
	Dropped       []promTarget   `json:"droppedTargets"`
	DroppedCounts map[string]int `json:"droppedTargetCounts"`
}

// targets answers /api/v1/targets; state and scrapePool filter as in Prometheus.
func (p *page) targets(w http.ResponseWriter, r *http.Request) {
	out := promTargets{Active: []promTarget{}, Dropped: []promTarget{}, DroppedCounts: map[string]int{}}
	pool := r.FormValue("scrapePool")
	if r.FormValue("state") != "dropped" {
		for _, t := range p.o.Targets() {
			if pool == "" || pool == t.Job {
				out.Active = append(out.Active, p.promTarget(t))
			}
		}
	}
	p.success(w, out)
}

func (p *page) promTarget(t collector.TargetStatus) promTarget {
	address := plainURL(t.URL)
	return promTarget{
		DiscoveredLabels:   map[string]string{},
		Labels:             map[string]string{"job": t.Job, "instance": t.Instance},
		ScrapePool:         t.Job,
		ScrapeURL:          address,
		GlobalURL:          address,
		LastError:          t.Reason,
		LastScrape:         t.LastScrape,
		LastScrapeDuration: t.Duration.Seconds(),
		Health:             health(t.State),
		ScrapeInterval:     p.o.Interval.String(),
	}
}

// health is the state in Prometheus's three words.
func health(s collector.State) string {
	switch s {
	case collector.StateUp:
		return "up"
	case collector.StateUnknown, "":
		return "unknown"
	default:
		return "down"
	}
}
