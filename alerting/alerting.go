// Package alerting tells people about alerts.
package alerting

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kvwatch/rules"
)

// Options are what New needs.
type Options struct {
	Config Config
	// Dir is where the notification log is kept; empty keeps it in memory.
	Dir string
	// ExternalURL is the address of the page, for links.
	ExternalURL string
	// Stdout is where the terminal receiver prints.
	Stdout io.Writer
	Logger *slog.Logger
	// Registerer takes the metrics; nil takes none.
	Registerer prometheus.Registerer
	// Jitter gives numbers in [0, 1) that spread retries; nil is a random source.
	Jitter func() float64
}

// Dispatcher groups alerts and tells receivers about them.
type Dispatcher struct{ opts Options }

// New checks the configuration, opens the notification log and builds the receivers.
func New(o Options) (*Dispatcher, error) { return &Dispatcher{opts: o}, o.Config.Check() }

// Dispatch takes all alerts that are firing or lately resolved.
func (d *Dispatcher) Dispatch(_ context.Context, _ time.Time, _ []rules.Alert) {}

// Run sends what is due until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Tick sends what is due at now.
func (d *Dispatcher) Tick(_ context.Context, _ time.Time) {}

// Reload takes a new configuration.
func (d *Dispatcher) Reload(c Config) error { return c.Check() }

// Close ends the senders and closes the notification log.
func (d *Dispatcher) Close() error { return nil }

// Incidents returns what is going on and what was told.
func (d *Dispatcher) Incidents() []Incident { return nil }

// Incident is one group of alerts as the page shows it.
type Incident struct {
	// Key names the incident: its route and the labels that it is grouped by.
	Key string `json:"key"`
	// Receiver is the receiver of its route.
	Receiver string `json:"receiver"`
	// Labels are the labels that it is grouped by.
	Labels map[string]string `json:"labels"`
	// Status is firing while any of its alerts is, else resolved.
	Status rules.AlertState `json:"status"`
	// Severity is the worst of its firing alerts, or of all when none fires.
	Severity string `json:"severity"`
	// Title says in one line what is going on.
	Title string `json:"title"`
	// Since is when the first of its alerts began.
	Since time.Time `json:"since"`
	// ResolvedAt is when the last of its alerts resolved; zero while firing.
	ResolvedAt time.Time `json:"resolved_at"`
	// Alerts are firing first, the worst first.
	Alerts []rules.Alert `json:"alerts"`
	// Deliveries say what each integration of the receiver was told.
	Deliveries []Delivery `json:"deliveries"`
}

// Delivery is the last notification of an incident to one integration of a receiver.
type Delivery struct {
	// Integration is receiver/kind/index.
	Integration string `json:"integration"`
	// Outcome is success, waiting, retrying or failed.
	Outcome string `json:"outcome"`
	// At is when the last request went out; zero before the first.
	At time.Time `json:"at"`
	// Reason says why it went out.
	Reason Reason `json:"reason,omitempty"`
	// Error is why the last request failed; empty when it did not.
	Error string `json:"error,omitempty"`
}
