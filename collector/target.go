package collector

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// The kinds of source that a target can be.
const (
	SourceVLLM    = "vllm"
	SourceLiteLLM = "litellm"
	// SourceRecording is no kind of page: the pages of the entry were recorded,
	// each of them is one of the others.
	SourceRecording = "recording"
)

// Target is one metrics page to read.
type Target struct {
	// Labels always holds job and instance, and what discovery and relabelling added.
	Labels labels.Labels
	// URL is the page's address without user info.
	URL string
	// Source is SourceVLLM or SourceLiteLLM; empty until the page was recognised.
	Source string
	// Interval is the time from one scrape to the next; 0 where it is the
	// global one, or where nobody scrapes on a schedule.
	Interval time.Duration
	// Gateway holds what a LiteLLM page does not expose; zero values are unknown.
	Gateway GatewaySettings
}

// GatewaySettings are facts about a gateway that its page does not expose.
type GatewaySettings struct {
	// Workers is the number of worker processes; 0 is unknown.
	Workers int `yaml:"workers,omitempty"`
	// MaxInFlightPerWorker is the cap of concurrent requests of one worker; 0 is unknown.
	MaxInFlightPerWorker int `yaml:"max_in_flight_per_worker,omitempty"`
	// ConcurrentTokenCounts is how many token counts one worker runs at once; 0 is unknown.
	ConcurrentTokenCounts int `yaml:"concurrent_token_counts,omitempty"`
	// DedicatedPort says that the page is served by LiteLLM's own metrics
	// process, so that the scrape itself is not among the requests in flight.
	DedicatedPort bool `yaml:"dedicated_port,omitempty"`
}

// Backlog is what LiteLLM's /health/backlog says: the requests of one worker,
// whichever answered, and never the sum over workers.
type Backlog struct {
	// At is when it was asked.
	At       time.Time `json:"at"`
	InFlight int       `json:"in_flight_requests"`
	// Admitted, Queued and Rejected are nil without admission control.
	Admitted *int `json:"admitted_requests,omitempty"`
	Queued   *int `json:"queued_requests,omitempty"`
	Rejected *int `json:"rejected_requests,omitempty"`
}

// TargetStatus is what a person sees of a target.
type TargetStatus struct {
	Job        string        `json:"job"`
	Instance   string        `json:"instance"`
	URL        string        `json:"url"`
	Source     string        `json:"source"`
	State      State         `json:"state"`
	Reason     string        `json:"reason,omitempty"`
	Since      time.Time     `json:"since"`
	LastScrape time.Time     `json:"last_scrape"`
	Duration   time.Duration `json:"duration_ns"`
	// Samples is the number of wanted samples that the last page held.
	Samples int `json:"samples"`
	// From gives for each canonical family the exposed name that was read.
	From map[string]string `json:"from,omitempty"`
	// Version is what the server says of itself; empty while unknown.
	Version string `json:"version,omitempty"`
	// Backlog is what one worker of a gateway held when it was last asked; nil
	// where that cannot be asked.
	Backlog *Backlog `json:"backlog,omitempty"`
	// Sampled says that several workers answer behind one address, so that
	// counters cannot be rated.
	Sampled bool `json:"sampled,omitempty"`
	// Warning says what is not right with a target that is read all the same.
	Warning string `json:"warning,omitempty"`
}
