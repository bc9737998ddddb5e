package fleet

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// page is a metrics page as Python's Prometheus client writes it: text format
// 0.0.4, the format's own way of writing numbers, and _created gauges where one
// process writes for itself.
type page struct {
	families []*family
	byName   map[string]*family
	// created says whether _created samples are written; the multiprocess
	// mode has none.
	created bool
	// all are the series of all families in the order in which they were added;
	// sampleLabels are the labels of the samples of the first labelled ones.
	all          []*series
	labelled     int
	sampleLabels []labels.Labels
	// life tells this page from those of earlier processes.
	life uint64
	// err is the first use of a family that the shape does not have.
	err error
}

// family is one family of a page with its series.
type family struct {
	name, help string
	kind       model.MetricType
	labels     []string
	bounds     []float64
	// bare families come from collectors that write no _created.
	bare   bool
	series []*series
	index  map[string]*series
	page   *page
}

// series is one series of a family. Which fields it uses depends on the
// family's kind.
type series struct {
	family      *family
	labelValues []string
	// text holds the labels as written, whole; head and tail the same split
	// where le belongs.
	text, head, tail string

	value   float64  // counter, gauge
	buckets []uint64 // histogram: observations per bucket, not cumulative, the last one +Inf
	bounds  []float64
	sum     float64
	count   uint64
	created time.Time
}

// pageOptions are what differs between pages of one shape.
type pageOptions struct {
	// multiprocess leaves out what the multiprocess mode leaves out.
	multiprocess bool
	// replace gives a label of the shape's series another value.
	replace map[string]string
	// bounds gives histograms other bounds.
	bounds map[string][]float64
	// seeded says which families begin with the shape's series; all others
	// begin with none.
	seeded func(name string) bool
	now    time.Time
	life   uint64
}

// newPage builds a page with all families of the shape.
func newPage(s *shape, options pageOptions) *page {
	p := &page{byName: map[string]*family{}, created: !options.multiprocess, life: options.life}
	for _, from := range s.families {
		bare := strings.HasPrefix(from.name, "python_") || strings.HasPrefix(from.name, "process_")
		if bare && options.multiprocess {
			continue
		}
		f := &family{
			name: from.name, help: from.help, kind: from.kind, labels: from.labels, bounds: from.bounds,
			bare: bare, index: map[string]*series{}, page: p,
		}
		if bounds, ok := options.bounds[f.name]; ok {
			f.bounds = bounds
		}
		p.families = append(p.families, f)
		p.byName[f.name] = f
		if !options.seeded(f.name) {
			continue
		}
		for _, seed := range from.series {
			values := slices.Clone(seed.labelValues)
			for i, name := range f.labels {
				if value, ok := options.replace[name]; ok {
					values[i] = value
				}
			}
			added := f.add(values, options.now)
			if bare || f.kind == model.MetricTypeGauge {
				added.value = seed.value
			}
		}
	}
	return p
}

// perProcess adds the pid label that the multiprocess mode gives to gauges,
// except to those in livesum mode.
func (p *page) perProcess(livesum ...string) {
	for _, f := range p.families {
		if f.kind == model.MetricTypeGauge && !slices.Contains(livesum, f.name) {
			f.labels = append(slices.Clone(f.labels), "pid")
			sort.Strings(f.labels)
		}
	}
}

// find returns the series of a family that was seeded and that has the given
// label values (name, value, name, value and so on).
func (p *page) find(name string, pairs ...string) *series {
	if f := p.byName[name]; f != nil {
		for _, s := range f.series {
			if s.matches(f.labels, pairs) {
				return s
			}
		}
	}
	return p.missing(name, pairs)
}

// with returns the series of a family with these labels and makes it if need
// be. A label that is not given has the value "None", as LiteLLM writes it.
func (p *page) with(now time.Time, name string, lset map[string]string) *series {
	f := p.byName[name]
	if f == nil {
		return p.missing(name, nil)
	}
	values := make([]string, len(f.labels))
	for i, label := range f.labels {
		value, ok := lset[label]
		if !ok {
			value = "None"
		}
		values[i] = value
	}
	if s := f.index[strings.Join(values, "\x00")]; s != nil {
		return s
	}
	return f.add(values, now)
}

// missing remembers the first use of a series that is not there, so that New
// can refuse, and returns one that nobody sees.
func (p *page) missing(name string, pairs []string) *series {
	if p.err == nil {
		p.err = fmt.Errorf("the shape has no series %s %v", name, pairs)
	}
	return &series{buckets: make([]uint64, 1)}
}

// add appends a series.
func (f *family) add(values []string, now time.Time) *series {
	s := &series{family: f, labelValues: values, bounds: f.bounds, created: now}
	if f.kind == model.MetricTypeHistogram {
		s.buckets = make([]uint64, len(f.bounds)+1)
	}
	s.text, s.head, s.tail = labelText(f.labels, values)
	f.series = append(f.series, s)
	f.page.all = append(f.page.all, s)
	f.index[strings.Join(values, "\x00")] = s
	return s
}

// labelText writes labels whole, and split where le stands among them.
func labelText(names, values []string) (text, head, tail string) {
	var whole, before, after []string
	for i, name := range names {
		pair := name + "=" + strconv.Quote(values[i])
		whole = append(whole, pair)
		if name < "le" {
			before = append(before, pair+",")
		} else {
			after = append(after, ","+pair)
		}
	}
	if len(whole) > 0 {
		text = "{" + strings.Join(whole, ",") + "}"
	}
	return text, "{" + strings.Join(before, "") + `le="`, `"` + strings.Join(after, "") + "} "
}

func (s *series) matches(names, pairs []string) bool {
	for i := 0; i+1 < len(pairs); i += 2 {
		at := slices.Index(names, pairs[i])
		if at < 0 || s.labelValues[at] != pairs[i+1] {
			return false
		}
	}
	return true
}

func (s *series) add(v float64) { s.value += v }

func (s *series) set(v float64) { s.value = v }

// observe adds one observation to a histogram or summary.
func (s *series) observe(v float64) { s.observeN(v, 1) }

// observeN adds n equal observations.
func (s *series) observeN(v float64, n uint64) {
	s.sum += v * float64(n)
	s.count += n
	if len(s.buckets) == 0 {
		return
	}
	i := 0
	for i < len(s.bounds) && v > s.bounds[i] {
		i++
	}
	s.buckets[i] += n
}

// append writes the whole page behind b.
func (p *page) append(b []byte) []byte {
	for _, f := range p.families {
		b = f.append(b)
		if p.created && !f.bare && f.kind != model.MetricTypeGauge && len(f.series) > 0 {
			b = f.appendCreated(b)
		}
	}
	return b
}

func (f *family) append(b []byte) []byte {
	b = appendHead(b, f.name, f.help, string(f.kind))
	for _, s := range f.series {
		switch f.kind {
		case model.MetricTypeHistogram:
			b = f.appendHistogram(b, s)
		case model.MetricTypeSummary:
			b = appendSample(b, f.name, "_count", s.text, float64(s.count))
			b = appendSample(b, f.name, "_sum", s.text, s.sum)
		default:
			b = appendSample(b, f.name, "", s.text, s.value)
		}
	}
	return b
}

func (f *family) appendHistogram(b []byte, s *series) []byte {
	var cumulative uint64
	for i, n := range s.buckets {
		cumulative += n
		bound := math.Inf(1)
		if i < len(f.bounds) {
			bound = f.bounds[i]
		}
		b = append(b, f.name...)
		b = append(b, "_bucket"...)
		b = append(b, s.head...)
		b = appendNumber(b, bound)
		b = append(b, s.tail...)
		b = appendNumber(b, float64(cumulative))
		b = append(b, '\n')
	}
	b = appendSample(b, f.name, "_count", s.text, float64(s.count))
	return appendSample(b, f.name, "_sum", s.text, s.sum)
}

func (f *family) appendCreated(b []byte) []byte {
	name := f.name
	if f.kind == model.MetricTypeCounter {
		name = strings.TrimSuffix(name, "_total")
	}
	name += "_created"
	b = appendHead(b, name, f.help, "gauge")
	for _, s := range f.series {
		b = appendSample(b, name, "", s.text, unixSeconds(s.created))
	}
	return b
}

func appendHead(b []byte, name, help, kind string) []byte {
	b = append(b, "# HELP "...)
	b = append(b, name...)
	b = append(b, ' ')
	b = append(b, help...)
	b = append(b, "\n# TYPE "...)
	b = append(b, name...)
	b = append(b, ' ')
	b = append(b, kind...)
	return append(b, '\n')
}

func appendSample(b []byte, name, suffix, labelText string, v float64) []byte {
	b = append(b, name...)
	b = append(b, suffix...)
	b = append(b, labelText...)
	b = append(b, ' ')
	b = appendNumber(b, v)
	return append(b, '\n')
}

// appendNumber writes a number as Python's client does: with a decimal point,
// and from a million on with an exponent whose sign is followed by a zero
// whatever its length (1e+06, 1.2e+010).
func appendNumber(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	case math.IsNaN(v):
		return append(b, "NaN"...)
	case v >= 1e6 && v < 1e16:
		b = strconv.AppendFloat(b, v, 'e', -1, 64)
		if v >= 1e10 {
			n := len(b)
			b = append(b[:n-2], '0', b[n-2], b[n-1])
		}
		return b
	case v != 0 && (math.Abs(v) < 1e-4 || math.Abs(v) >= 1e16):
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	}
	n := len(b)
	b = strconv.AppendFloat(b, v, 'f', -1, 64)
	if !slices.Contains(b[n:], '.') {
		b = append(b, ".0"...)
	}
	return b
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
