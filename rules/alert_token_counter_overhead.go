package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "TokenCounterOverhead",
		Help:     "A gateway adds over 0.3 s to its slowest calls (p95), and the more the longer their prompts are: it counts their tokens itself.",
		Severity: SeverityWarning, For: 10 * time.Minute,
		Settings: []Setting{
			{Name: "overhead", Default: 0.3, Positive: true, Help: "p95 of the overhead that is too much, in seconds"},
			{Name: "coverage", Default: 0.2, Positive: true, Help: "share of the requests that the overhead must be measured on"},
			{Name: "window", Default: time.Hour, Positive: true, Help: "time over which the overhead must rise with the length of prompts"},
		},
		Gateway: func(s *settings) detector[GatewayWindow] { return &tokenCounterOverhead{settings: s} },
	})
}

// tokenCounterOverhead holds, for the last hour, how long prompts were and what
// the gateway added to a call, stretch by stretch: LiteLLM does not tell the
// overhead by length, so that stretches of longer and shorter prompts are
// compared.
type tokenCounterOverhead struct {
	*settings
	notes []overheadNote
}

// overheadNote is one stretch.
type overheadNote struct {
	// At is when it ended, in Unix milliseconds.
	At int64 `json:"at"`
	// Prompt is the mean prompt in tokens, Overhead the mean overhead in seconds.
	Prompt   float64 `json:"prompt"`
	Overhead float64 `json:"overhead"`
}

// overheadNotes is how many stretches make the window, and leastNotes how many
// of them a slope needs.
const (
	overheadNotes = 12
	leastNotes    = 6
)

// Judge implements detector.
func (d *tokenCounterOverhead) Judge(w GatewayWindow, _ time.Time) Verdict {
	if text := w.uncounted(); text != "" {
		return unknown(text)
	}
	if w.streamedOnly() {
		return unknown(reasonStreamedOnly)
	}
	b := w.buckets(histOverhead, summaryWindow)
	served := w.Increase(totalRequestsOK, summaryWindow)
	p95, ok := b.quantile(0.95)
	if !ok || b.count < minRequests || served < minRequests {
		return unknown("fewer than 5 requests in 5 minutes had their overhead measured")
	}
	p95 *= overheadUnit(b)
	d.note(w, b)
	coverage := min(b.count/served, 1)
	slope, sloped := d.slope()
	v := Verdict{
		Phase: PhaseWatching, Value: p95,
		Text: fmt.Sprintf("overhead p95 %s, measured on %s of the requests", spellSeconds(p95), percent(coverage)),
		Numbers: []Number{
			{Name: "overhead_p95", Value: p95, Unit: "seconds"},
			{Name: "threshold_overhead", Value: d.number("overhead"), Unit: "seconds"},
			{Name: "coverage", Value: coverage, Unit: "ratio"},
		},
	}
	if sloped {
		v.Numbers = append(v.Numbers, Number{Name: "slope", Value: slope * 1e6, Unit: "ms/1000 tokens"})
	}
	if coverage <= d.number("coverage") {
		v.Text += ", too few to speak for the others"
		return v
	}
	v.Active = p95 > d.number("overhead") && sloped && slope > 0
	if v.Active {
		d.tell(w, &v, coverage, slope, b.count)
	}
	return v
}

// note keeps the stretch that ended now, once in every twelfth of the window.
func (d *tokenCounterOverhead) note(w GatewayWindow, b bucketCounts) {
	stretch := d.duration("window") / overheadNotes
	if n := len(d.notes); n > 0 && w.ms-d.notes[n-1].At < stretch.Milliseconds() {
		return
	}
	requests, tokens := w.Increase(totalRequestsOK, summaryWindow), w.Increase(totalInput, summaryWindow)
	if requests <= 0 || tokens <= 0 {
		return
	}
	d.notes = append(d.notes, overheadNote{At: w.ms, Prompt: tokens / requests, Overhead: overheadUnit(b) * b.sum / b.count})
	oldest := w.ms - d.duration("window").Milliseconds()
	d.notes = slices.DeleteFunc(d.notes, func(n overheadNote) bool { return n.At < oldest })
}

// slope is what a token of prompt adds to the overhead, in seconds.
func (d *tokenCounterOverhead) slope() (float64, bool) {
	if len(d.notes) < leastNotes {
		return 0, false
	}
	x, y := make([]float64, 0, len(d.notes)), make([]float64, 0, len(d.notes))
	for _, n := range d.notes {
		x, y = append(x, n.Prompt), append(y, n.Overhead)
	}
	return theilSen(x, y)
}

func (d *tokenCounterOverhead) tell(w GatewayWindow, v *Verdict, coverage, slope, measured float64) {
	v.Summary = fmt.Sprintf("Gateway %s adds %s to its slowest calls, and more with longer prompts", w.unit.target.instance, spellSeconds(v.Value))
	shortest, longest := d.notes[0].Prompt, d.notes[0].Prompt
	for _, n := range d.notes {
		shortest, longest = min(shortest, n.Prompt), max(longest, n.Prompt)
	}
	v.Evidence = Evidence{
		Seen: fmt.Sprintf("Overhead p95 %s over %s, measured on %s of the requests (%s calls). Over %s it rose by %s for each 10k tokens of prompt (mean prompts of %s to %s tokens).",
			spellSeconds(v.Value), spell(summaryWindow), percent(coverage), amount(measured), spell(d.duration("window")), spellSeconds(slope*1e4), amount(shortest), amount(longest)),
		Against:    fmt.Sprintf("Fires over %s, measured on over %s of the requests, and only where longer prompts take longer.", spellSeconds(d.number("overhead")), percent(d.number("coverage"))),
		CauseText:  "The gateway counts the tokens of prompts and tools in its own process, and everything else in that worker waits meanwhile: first tokens come late while GPUs idle.",
		Next:       "Switch off what counts before the call (enable_pre_call_checks, token limits per minute), send fewer tools per call, add workers, or upgrade: LiteLLM 1.102 bounds the counting and moves it aside.",
		Confidence: confidence(measured), Numbers: v.Numbers,
	}
}

func (d *tokenCounterOverhead) save() (json.RawMessage, error) {
	if len(d.notes) == 0 {
		return nil, nil
	}
	return json.Marshal(d.notes)
}

func (d *tokenCounterOverhead) load(raw json.RawMessage) error { return json.Unmarshal(raw, &d.notes) }
