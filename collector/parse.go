package collector

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// pageReader reads the pages of one target, one after another, and remembers
// the series it has seen. It is not safe for concurrent use.
//
// Most of a page is not wanted: its lines are dropped by their name alone. Of
// the rest most was seen before: it is found by the hash of the text before the
// value, and only the value is parsed. What is left is decoded by Prometheus's
// own parser.
type pageReader struct {
	target *Target
	limits Limits
	// desk is what the page is read at, nil between pages where others need it.
	*desk
	seed maphash.Seed
	sums *sums
	// base are the target's labels.
	base labels.Labels

	workers workers
	// start is process_start_time_seconds on the last page, 0 where not exposed.
	start float64
	// source is what the last page was recognised as; nil before.
	source *source
	// names are those that the families were read under. The slice is never
	// changed once it was handed out.
	names []*sampleName
	// exemplars says that the text format of this target carries OpenMetrics' exemplars.
	exemplars bool
	// remembered is what the next page is held against.
	remembered remembered
}

// pageInfo is what a page tells beside its samples.
type pageInfo struct {
	// Source is the kind that the page was recognised as.
	Source string
	// names are those under which the families were read; not to be changed.
	names []*sampleName
	// ProcessStart is process_start_time_seconds; 0 where it is not exposed.
	ProcessStart float64
	// Restarted says that another process answers than on the page before, as
	// far as the page can tell.
	Restarted bool
	// Sampled says that several workers answer behind the address.
	Sampled bool
	// Twin says that another target shows the same counters; the scraper sets it.
	Twin string
	// Missing lists the required families that the page neither has nor declares.
	Missing []string
	// Bytes is the size of the body.
	Bytes int64
	// Wanted is the number of wanted samples on the page, before they are summed.
	Wanted int
	// BadLines is the number of lines that could not be read.
	BadLines int
	// NotNumbers is the number of wanted samples that are NaN or infinite; they are left out.
	NotNumbers int
}

// PageError is a body that cannot be taken.
type PageError struct {
	// State is one of StateNoMetrics, StateNotMetrics, StateTruncated,
	// StateTooLarge and StateMetricsDisabled.
	State State
	// Reason says in plain words what is wrong and what to do. It quotes
	// nothing of the page.
	Reason string
}

// Error gives the reason.
func (e *PageError) Error() string { return e.Reason }

func newPageReader(t *Target, limits Limits) *pageReader {
	p := &pageReader{target: t, limits: limits, seed: maphash.MakeSeed(), sums: newSums(), remembered: remembered{lacking: true}}
	base := labels.NewBuilder(labels.EmptyLabels())
	t.Labels.Range(func(l labels.Label) {
		if !strings.HasPrefix(l.Name, "__") {
			base.Set(l.Name, l.Value)
		}
	})
	p.base = base.Labels()
	return p
}

// sit takes a desk to read the next page at; nil gives the last one back.
func (p *pageReader) sit(d *desk) { p.desk, p.sums.desk = d, d }

// begin starts a page.
func (p *pageReader) begin(openMetrics bool) {
	if p.desk == nil {
		p.sit(newDesk())
	}
	p.page.reset(openMetrics, &p.remembered)
	p.sums.begin()
}

// read streams one body. What it yields is valid until the desk is used again.
// contentType is the response's header; "" is text 0.0.4. A body that cannot be
// taken gives a *PageError and changes nothing; other errors are the body's own.
func (p *pageReader) read(body io.Reader, contentType string, at time.Time) (yield, pageInfo, error) {
	p.begin(isOpenMetrics(contentType) || p.exemplars)
	if err := p.lines.each(body, p.limits.BodyBytes, p.line); err != nil {
		return yield{}, p.info(nil), err
	}
	src := p.recognise()
	info := p.info(src)
	if err := p.judge(src, isOpenMetrics(contentType)); err != nil {
		return yield{}, info, err
	}
	return p.accept(&info, src, at), info, nil
}

// info is what is known of the page before it is taken; src may be nil.
func (p *pageReader) info(src *source) pageInfo {
	info := pageInfo{Bytes: p.lines.bytes, Wanted: p.page.wanted, BadLines: p.page.bad, NotNumbers: p.page.notNumbers}
	if src != nil {
		info.Source = src.name
	}
	return info
}

// accept makes the page the last one, and says what is on it.
func (p *pageReader) accept(info *pageInfo, src *source, at time.Time) yield {
	info.Restarted = p.take(src, at)
	info.names, info.ProcessStart, info.Sampled = p.names, p.start, p.workers.takeTurns() || p.sums.returns.takeTurns()
	info.Missing = p.page.missing(src)
	if r := &p.remembered; r.moved {
		r.order, r.moved = p.orders.same(r.order), false
	}
	return p.yield
}

// lose marks all series stale after a failed scrape and returns them, each
// once. When the target recovers the same *Series come back.
func (p *pageReader) lose() []*Series { return p.sums.lose() }

// take makes the page the last one, and says whether it is of another process
// than the one before.
func (p *pageReader) take(src *source, at time.Time) bool {
	pg := &p.page
	known := pg.start != 0 || p.start != 0
	restarted := p.sums.take(pg.chosen(src), known, known && pg.start != p.start, at)
	if (pg.start != 0) != (p.start != 0) {
		restarted = false // there is no page before to hold this one against
	}
	p.source, p.start = src, pg.start
	if pg.start != 0 {
		p.workers.process(pg.start, at)
	} else {
		for _, b := range pg.births {
			p.workers.born(b.series, b.value, at)
		}
	}
	p.noteNames(src)
	if p.sums.known() > 2*p.limits.Series {
		p.sums.forgetAbsent()
	}
	return restarted
}

// noteNames updates names, by another slice where something changed.
func (p *pageReader) noteNames(src *source) {
	read := p.readAs[:0]
	for _, name := range p.page.best {
		if name != nil && name.family.of(src) {
			read = append(read, name)
		}
	}
	if p.readAs = read; !slices.Equal(read, p.names) {
		p.names = p.reads.same(read)
	}
}

// namesRead gives for each canonical family the exposed name that was read.
func namesRead(names []*sampleName) map[string]string {
	all := make(map[string]string, len(names))
	for _, n := range names {
		all[n.family.name] = n.exposed
	}
	return all
}

// recognise tells what kind of page it is: what the target says, else the kind
// with the most wanted samples, else the one whose families are at least
// declared, or named.
func (p *pageReader) recognise() *source {
	if src := registered.named(p.target.Source); src != nil {
		return src
	}
	var found *source
	most := 0
	for i, src := range registered.sources {
		if score := p.page.kinds[i].score(); score > most {
			found, most = src, score
		}
	}
	return found
}

// line reads one line; a last one may have no end.
func (p *pageReader) line(line []byte, ended bool) error {
	line = trimLine(line)
	if len(line) == 0 {
		return nil
	}
	if line[0] == '#' {
		p.page.comment(line, ended)
		return nil
	}
	name, ok := p.page.nameOf(line)
	if ok && name != nil {
		var err error
		if ok, err = p.sample(line, name, ended); err != nil {
			return err
		}
	}
	if !ok {
		p.page.spoil(line, ended)
	}
	return nil
}

// sample reads a wanted line; false when it cannot be read.
func (p *pageReader) sample(line []byte, name *sampleName, ended bool) (bool, error) {
	pg := &p.page
	if name.created && pg.start != 0 {
		return true, nil // the process' start tells workers apart more cheaply
	}
	end := seriesEnd(line, len(pg.last.text), pg.openMetrics)
	if end <= 0 {
		return false, nil
	}
	value, ok := valueAfter(line[end:], pg.openMetrics)
	if !ok {
		return p.exemplar(line, name, ended)
	}
	series := maphash.Bytes(p.seed, line[:end])
	if name.created {
		pg.good++
		pg.born(series, value)
		return true, nil
	}
	in, known := p.sums.find(series)
	if !known {
		fresh, err := p.admit(line, end, name)
		switch {
		case errors.Is(err, errExemplar):
			return p.exemplar(line, name, ended)
		case err != nil:
			return false, refusal(err)
		}
		in = p.sums.admit(series, fresh)
	}
	pg.good++
	if pg.wanted++; pg.wanted > p.limits.Series {
		return false, p.tooMany()
	}
	return p.value(in, name, value, ended), nil
}

// value notes a wanted sample; false when it cannot be used.
func (p *pageReader) value(id inputID, name *sampleName, value float64, ended bool) bool {
	pg, in := &p.page, &p.sums.inputs[id]
	if in.out == nil {
		pg.foreign++
		return true
	}
	if isNotNumber(value) {
		pg.notNumbers++
		return true
	}
	if !ended && in.state == inputLive && name.family.kind.counts() && value < in.last {
		return false // digits are missing
	}
	if !p.sums.see(id, value) {
		return false // the line is there twice
	}
	pg.found(name)
	if f := name.family; f.source == nil && f.name == ProcessStart {
		pg.start = value
	}
	return true
}

// refusal gives an error that concerns the page as a whole, else nil.
func refusal(err error) error {
	if refused, ok := errors.AsType[*PageError](err); ok {
		return refused
	}
	return nil
}

// errExemplar is a line whose last brace is not that of its labels.
var errExemplar = errors.New("the line has an exemplar")

// exemplar reads a line of the text format once more as OpenMetrics, which
// some servers mix in.
func (p *pageReader) exemplar(line []byte, name *sampleName, ended bool) (bool, error) {
	if p.page.openMetrics || !bytes.Contains(line, []byte("# {")) {
		return false, nil
	}
	p.page.openMetrics, p.exemplars = true, true
	return p.sample(line, name, ended)
}

// admit decodes a series that was not seen before.
func (p *pageReader) admit(line []byte, end int, name *sampleName) (input, error) {
	p.scratch = append(append(p.scratch[:0], line...), '\n')
	exposed, length, err := decodeSeries(p.scratch, p.page.openMetrics)
	switch {
	case err != nil:
		return input{}, err
	case length != end:
		return input{}, errExemplar
	}
	return p.admitSeries(exposed, name)
}

// admitSeries gives a series its place by its exposed labels.
func (p *pageReader) admitSeries(exposed labels.Labels, name *sampleName) (input, error) {
	if err := p.limits.check(exposed); err != nil {
		return input{}, err
	}
	in := input{rank: name.rank}
	src := name.family.source
	if src != nil && src.foreign != "" && exposed.Has(src.foreign) {
		return in, nil
	}
	var bound float64
	if name.part == partBucket {
		var ok bool
		if bound, ok = parseValue([]byte(exposed.Get(labels.BucketLabel))); !ok || math.IsNaN(bound) {
			return input{}, errors.New("bucket without bound")
		}
	}
	in.out, in.slot = p.sums.place(p.keep(exposed, name), name, bound)
	return in, nil
}

// tooMany refuses a page.
func (p *pageReader) tooMany() error {
	return &PageError{StateTooLarge, fmt.Sprintf("the page holds more than %d wanted samples; raise sample_limit if that is expected", p.limits.Series)}
}

// keep gives the labels that a series is passed on with: the target's own, its
// canonical name and those that its family keeps; for a part of a histogram they
// are those of the whole. Where both have a label the page's counts. "None" and
// "" are as good as absent.
func (p *pageReader) keep(exposed labels.Labels, name *sampleName) labels.Labels {
	p.kept.Reset(p.base)
	p.kept.Set(model.MetricNameLabel, name.passedOn())
	src := name.family.source
	if src != nil {
		for _, l := range src.labels {
			p.keepOne(exposed, l, src)
		}
	}
	for _, l := range name.family.labels {
		p.keepOne(exposed, l, src)
	}
	return p.kept.Labels()
}

func (p *pageReader) keepOne(exposed labels.Labels, label string, src *source) {
	value := exposed.Get(label)
	if value == "" {
		value = exposed.Get(src.renames[label])
	}
	if value == "" || value == "None" {
		value = src.defaults[label]
	}
	if value != "" {
		p.kept.Set(label, value)
	}
}
