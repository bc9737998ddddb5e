package review

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"kvwatch/rules/sizing"
)

// The measures that have peaks and charts.
const (
	peakRate     = "requests"
	peakOutput   = "output tokens"
	peakRunning  = "requests running"
	peakWaiting  = "requests waiting"
	peakKV       = "KV memory"
	peakInFlight = "in the gateway"
	seriesHit    = "cache hits"
)

// measure is one thing that a slot tells.
type measure struct {
	name, unit string
	of         func(sizing.Slot) (float64, bool)
}

func measures() []measure {
	gauge := func(v *float64) (float64, bool) {
		if v == nil {
			return 0, false
		}
		return *v, true
	}
	return []measure{
		{peakRate, "per second", func(s sizing.Slot) (float64, bool) { return s.Requests / sizing.SlotLength.Seconds(), true }},
		{peakOutput, "per second", func(s sizing.Slot) (float64, bool) { return s.Output / sizing.SlotLength.Seconds(), true }},
		{seriesHit, "ratio", hitRatio},
		{peakKV, "ratio", func(s sizing.Slot) (float64, bool) {
			if s.KVTokens == nil || s.Capacity == nil || *s.Capacity <= 0 {
				return 0, false
			}
			return *s.KVTokens / *s.Capacity, true
		}},
		{peakRunning, "", func(s sizing.Slot) (float64, bool) { return gauge(s.Running) }},
		{peakWaiting, "", func(s sizing.Slot) (float64, bool) { return gauge(s.Waiting) }},
		{peakInFlight, "", func(s sizing.Slot) (float64, bool) { return gauge(s.InFlight) }},
	}
}

// hitRatio is the share of the prompt tokens that were not computed.
func hitRatio(s sizing.Slot) (float64, bool) {
	if s.Prompted <= 0 {
		return 0, false
	}
	return 1 - s.Missed/s.Prompted, true
}

func newPool(name string, slots []sizing.Slot) Pool {
	p := Pool{Pool: name, Peaks: []Peak{}, Regimes: []Regime{}, Days: []Day{}, Series: []Series{}}
	all := total(slots)
	p.Engines, p.Requests, p.OutputTokens = all.Engines, all.Requests, all.Output
	if all.Prompted > 0 {
		p.PromptTokens, p.ComputedTokens = new(all.Prompted), new(all.Missed)
	}
	if all.EngineSeconds > 0 {
		p.IdleRatio = new(1 - all.BusySeconds/all.EngineSeconds)
	}
	if all.Waited > 0 {
		p.WaitMean = new(all.WaitSeconds / all.Waited)
	}
	p.TTFTP95, p.ITLP95, p.OverheadP95 = quantile(all.TTFT), quantile(all.ITL), quantile(all.Overhead)
	for _, m := range measures() {
		if peak, ok := peakOf(m, slots); ok && m.name != seriesHit {
			p.Peaks = append(p.Peaks, peak)
		}
		if s := newSeries(m, slots); len(s.Points) > 0 {
			p.Series = append(p.Series, s)
		}
	}
	p.cache(slots)
	p.days(slots)
	return p
}

// total adds slots up.
func total(slots []sizing.Slot) sizing.Slot {
	var all sizing.Slot
	for _, s := range slots {
		all.Engines = max(all.Engines, s.Engines)
		all.EngineSeconds += s.EngineSeconds
		all.BusySeconds += s.BusySeconds
		all.Requests += s.Requests
		all.Prompted += s.Prompted
		all.Missed += s.Missed
		all.Output += s.Output
		all.WaitSeconds += s.WaitSeconds
		all.Waited += s.Waited
		all.TTFT.Add(s.TTFT)
		all.ITL.Add(s.ITL)
		all.Overhead.Add(s.Overhead)
	}
	return all
}

func quantile(h sizing.Histogram) *float64 {
	if v, ok := h.Quantile(0.95); ok {
		return &v
	}
	return nil
}

func peakOf(m measure, slots []sizing.Slot) (Peak, bool) {
	best := Peak{Name: m.name, Unit: m.unit, Value: math.Inf(-1)}
	for _, s := range slots {
		if v, ok := m.of(s); ok && v > best.Value {
			best.Value, best.At = v, s.Start.UTC()
		}
	}
	return best, !best.At.IsZero()
}

func (p *Pool) peak(name string) (Peak, bool) {
	at := slices.IndexFunc(p.Peaks, func(k Peak) bool { return k.Name == name })
	if at < 0 {
		return Peak{}, false
	}
	return p.Peaks[at], true
}

// days sums the slots of each day up.
func (p *Pool) days(slots []sizing.Slot) {
	for len(slots) > 0 {
		day := slots[0].Start.UTC().Format(time.DateOnly)
		n := 0
		for n < len(slots) && slots[n].Start.UTC().Format(time.DateOnly) == day {
			n++
		}
		p.Days = append(p.Days, newDay(day, slots[:n]))
		slots = slots[n:]
	}
}

func newDay(name string, slots []sizing.Slot) Day {
	all := total(slots)
	d := Day{Day: name, Requests: all.Requests, OutputTokens: all.Output, TTFTP95: quantile(all.TTFT)}
	if ratio, ok := hitRatio(all); ok {
		d.HitRatio = &ratio
	}
	for _, m := range measures() {
		peak, ok := peakOf(m, slots)
		switch {
		case !ok:
		case m.name == peakRate:
			d.PeakRate = peak.Value
		case m.name == peakKV:
			d.PeakKV = &peak.Value
		case m.name == peakWaiting:
			d.PeakWaiting = &peak.Value
		}
	}
	return d
}

// unknown says what could not be measured of the pool, and why.
func (p *Pool) unknown() []string {
	var all []string
	say := func(missing bool, what, why string) {
		if missing {
			all = append(all, fmt.Sprintf("%s of %s: %s", what, p.Pool, why))
		}
	}
	say(p.PromptTokens == nil, "cache hits", "the engines' counters of prompt tokens and of those computed were not both there, or not trusted")
	say(p.TTFTP95 == nil, "TTFT P95", "no histogram of it, no call, or it lies above the last bucket")
	say(p.ITLP95 == nil, "ITL P95", "no histogram of it, no token, or it lies above the last bucket")
	_, kv := p.peak(peakKV)
	say(!kv, "KV memory", "the engines did not tell how much they have")
	_, held := p.peak(peakInFlight)
	say(!held, "the gateway's calls in flight", "no gateway was read, or there is more than one pool and it is not known whose calls it holds")
	return all
}

// cacheAlerts are about prompt tokens that were computed again; TurnBoundaryCollapse
// may be a prediction, and is not among them.
var cacheAlerts = []string{ //nolint:gochecknoglobals // a table, never written.
	"PrefixCacheCollapse", "PrefixCacheDrift", "PrefixCacheMissRising", "ReprefillShareHigh",
	"SessionAffinityLost", "PromptPrefixChanged",
}

// addExcess counts what an incident about the pool's cache cost.
func (i *Incident) addExcess(p *Pool, slots []sizing.Slot) {
	if i.Pool != p.Pool || p.UsualMiss == nil || !slices.Contains(cacheAlerts, i.Alert) {
		return
	}
	end := slots[len(slots)-1].Start.Add(sizing.SlotLength)
	if i.ResolvedAt != nil {
		end = *i.ResolvedAt
	}
	i.ExcessTokens = new(excessBetween(slots, *p.UsualMiss, i.ActiveAt, end))
}

func excess(s sizing.Slot, usual float64) float64 { return max(s.Missed-usual*s.Prompted, 0) }

// Regime is a stretch in which the cache did as usual, or worse.
type Regime struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Worse says that clearly more was computed than usual.
	Worse        bool    `json:"worse"`
	HitRatio     float64 `json:"hit_ratio"`
	PromptTokens float64 `json:"prompt_tokens"`
	// Excess is the prompt tokens computed beyond the usual share.
	Excess float64 `json:"excess_prompt_tokens"`
}

const (
	// A slot is worse than usual when it misses that many times the usual share, and
	// at least so much more of the prompt tokens.
	worseTimes = 1.5
	worseBy    = 0.03
	// A stretch that is worse has worseSlots at least, and ends where so many are as
	// usual again.
	worseSlots = 3
)

// cache finds the usual share of misses and the stretches that are worse.
func (p *Pool) cache(slots []sizing.Slot) {
	known := slices.DeleteFunc(slices.Clone(slots), func(s sizing.Slot) bool { return s.Prompted <= 0 })
	if len(known) == 0 {
		return
	}
	usual := usualMiss(known)
	p.UsualMiss = &usual
	for i, worse := range smooth(known, func(s sizing.Slot) bool {
		miss := s.Missed / s.Prompted
		return miss > usual*worseTimes && miss > usual+worseBy
	}) {
		s := known[i]
		end := s.Start.Add(sizing.SlotLength).UTC()
		last := len(p.Regimes) - 1
		if last < 0 || p.Regimes[last].Worse != worse || s.Start.Sub(p.Regimes[last].To) > sizing.SlotLength {
			p.Regimes = append(p.Regimes, Regime{From: s.Start.UTC(), Worse: worse})
			last++
		}
		r := &p.Regimes[last]
		r.HitRatio = (r.HitRatio*r.PromptTokens + s.Prompted - s.Missed) / (r.PromptTokens + s.Prompted)
		r.PromptTokens += s.Prompted
		r.To = end
		if worse {
			r.Excess += excess(s, usual)
			p.Excess += excess(s, usual)
		}
	}
}

// smooth says of each slot whether it belongs to a stretch of those that are bad:
// one or two that are otherwise do not end a stretch, nor make one.
func smooth(slots []sizing.Slot, bad func(sizing.Slot) bool) []bool {
	judged := make([]bool, len(slots))
	for i, s := range slots {
		judged[i] = bad(s)
	}
	for _, fill := range []bool{true, false} { // gaps within first, then what stands alone
		for i := 0; i < len(judged); {
			end := i
			for end < len(judged) && judged[end] == judged[i] {
				end++
			}
			inside := i > 0 && end < len(judged)
			if judged[i] != fill && end-i < worseSlots && (inside || !fill) {
				for k := i; k < end; k++ {
					judged[k] = fill
				}
			}
			i = end
		}
	}
	return judged
}

// usualMiss is the median miss ratio, each slot weighted by its prompt tokens.
func usualMiss(slots []sizing.Slot) float64 {
	sorted := slices.Clone(slots)
	slices.SortFunc(sorted, func(a, b sizing.Slot) int { return cmp.Compare(a.Missed/a.Prompted, b.Missed/b.Prompted) })
	half := total(sorted).Prompted / 2
	below := 0.0
	for _, s := range sorted {
		if below += s.Prompted; below >= half {
			return s.Missed / s.Prompted
		}
	}
	return 0
}

// number spells a number for people.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e9:
		return fmt.Sprintf("%.3g billion", v/1e9)
	case a >= 1e6:
		return fmt.Sprintf("%.3g million", v/1e6)
	case a >= 1e4:
		return fmt.Sprintf("%.0f thousand", v/1e3)
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.2g", v)
	}
}

func share(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*v), ".0") + " %" }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// moment spells a time of the period.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
