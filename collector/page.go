package collector

import (
	"bytes"
	"fmt"
	"unique"
)

// maxNames is how many names of a page are remembered for the next one.
const maxNames = 10_000

// page is what is known of the page that is being read.
type page struct {
	openMetrics bool
	// last is the name of the last line: the lines of a family follow each other.
	last seenName
	// next is where in the order the next name should be.
	next int
	*remembered
	// best is each family's best exposed name so far; ranked says that one had several.
	best   []*sampleName
	ranked bool
	// kinds is what was seen of each source, in the order of the registry.
	kinds []sourceSeen

	// good and bad count what is, and is not, of a metrics page: lines that are
	// wanted, and the first line of each name that is not.
	good, bad int
	// html says that a bad line begins as HTML does.
	html bool
	// broken says that the last line is cut.
	broken bool
	// eof says that OpenMetrics' end mark was seen.
	eof bool

	wanted, notNumbers int
	// sourced says that a wanted sample of some source was read.
	sourced bool
	// declared notes the families that are declared, by their id, where the page
	// before lacked a required one.
	declared []bool
	// foreign counts series that another server re-exports.
	foreign int
	start   float64
	births  []birth
}

// remembered is what of a page is remembered for the next one.
type remembered struct {
	// order holds the names of the page, and of the next one as far as it was read,
	// in their order. The pages of a fleet have the same names in the same order:
	// they share both, so that nothing is changed in place. moved says that the
	// order is not shared yet.
	order []unique.Handle[seenName]
	moved bool
	// lacking says that the page lacked a required family.
	lacking bool
}

// seenName is a name on a page. It is read as nil when it is not wanted.
type seenName struct {
	text   string
	readAs *sampleName
}

// begins says whether the sample line begins with the name.
func (n seenName) begins(line []byte) bool {
	end := len(n.text)
	return end > 0 && end < len(line) && (line[end] == '{' || line[end] == ' ') && string(line[:end]) == n.text
}

// sourceSeen is what a page holds of one source.
type sourceSeen struct {
	wanted int
	// declared is a TYPE line of a wanted family, named a name that is the
	// source's, remains what stays when its metrics are switched off.
	declared, named, remains bool
}

// birth is the value of one _created sample.
type birth struct {
	series uint64
	value  float64
}

func newPage() page {
	return page{
		best: make([]*sampleName, len(registered.families)), kinds: make([]sourceSeen, len(registered.sources)),
		declared: make([]bool, len(registered.families)),
	}
}

// reset starts a page that follows the one that is remembered.
func (pg *page) reset(openMetrics bool, before *remembered) {
	clear(pg.best)
	clear(pg.kinds)
	clear(pg.declared)
	*pg = page{
		openMetrics: openMetrics, remembered: before, best: pg.best, kinds: pg.kinds, births: pg.births[:0],
		declared: pg.declared,
	}
}

// score orders the sources that a page could be of.
func (s sourceSeen) score() int {
	switch {
	case s.wanted > 0:
		return 2 + s.wanted
	case s.declared:
		return 2
	case s.named:
		return 1
	default:
		return 0
	}
}

// spoil notes a line that cannot be read; a last one may only be cut.
func (pg *page) spoil(line []byte, ended bool) {
	pg.html = pg.html || line[0] == '<'
	if ended {
		pg.bad++
	} else {
		pg.broken = true
	}
}

// comment reads a line that begins with #.
func (pg *page) comment(line []byte, ended bool) {
	if bytes.Equal(line, []byte("# EOF")) {
		pg.eof = true
		return
	}
	declares := bytes.HasPrefix(line, []byte("# TYPE "))
	if !declares && !bytes.HasPrefix(line, []byte("# HELP ")) {
		return
	}
	if !ended {
		pg.broken = true
		return
	}
	pg.good++
	if declares && (!pg.sourced || pg.lacking) {
		name, _, _ := bytes.Cut(line[len("# TYPE "):], []byte(" "))
		pg.declare(name)
	}
}

// declare notes a family that is declared, be it without samples.
func (pg *page) declare(name []byte) {
	pg.name(name)
	if n, ok := registered.declared[string(name)]; ok && n.family.source != nil {
		pg.kinds[n.family.source.id].declared = true
		pg.declared[n.family.id] = true
	}
}

// missing lists the required families of a source that the page neither has
// nor declares. Where the page before lacked none, declarations were not
// looked at: then nothing is said before the next page.
func (pg *page) missing(src *source) []string {
	var names []string
	for i := range src.families {
		f := &src.families[i]
		if f.required && pg.best[f.id] == nil && !pg.declared[f.id] {
			names = append(names, f.name)
		}
	}
	looked := pg.lacking
	if pg.lacking = len(names) > 0; !looked {
		return nil
	}
	return names
}

// name notes to which sources a name points, while nothing better does.
func (pg *page) name(name []byte) {
	if pg.sourced {
		return
	}
	for i, src := range registered.sources {
		seen := &pg.kinds[i]
		seen.named = seen.named || src.owns(name)
		seen.remains = seen.remains || hasAnyPrefix(name, src.disabled...)
	}
}

// nameOf finds what a sample line is read as; nil for a line that is not
// wanted, false for one that is none. Of the lines that are not wanted only the
// first of each name is looked at, and not even that where the page before had
// the same name in the same place.
func (pg *page) nameOf(line []byte) (*sampleName, bool) {
	if pg.last.begins(line) {
		return pg.last.readAs, true
	}
	if pg.next < len(pg.order) {
		if name := pg.order[pg.next].Value(); name.begins(line) {
			pg.follow(name, line)
			return pg.last.readAs, true
		}
	}
	pg.last = seenName{}
	n := nameEnd(line)
	switch {
	case n == 0 && line[0] == '{': // a name in quotes is none of ours
		_, _, err := decodeSeries(append(bytes.Clone(line), '\n'), pg.openMetrics)
		if err == nil {
			pg.good++
		}
		return nil, err == nil
	case n == 0 || n == len(line) || line[n] != '{' && !isBlank(line[n]):
		return nil, false
	}
	readAs, ok := registered.samples[string(line[:n])]
	if !ok && !looksLikeSample(line, n) {
		return nil, false
	}
	name := unique.Make(seenName{text: string(line[:n]), readAs: readAs})
	pg.remember(name)
	pg.follow(name.Value(), line)
	return readAs, true
}

// remember notes that a name is not where it was on the page before.
func (pg *page) remember(name unique.Handle[seenName]) {
	if pg.moved = true; pg.next < len(pg.order) {
		pg.order = pg.order[:pg.next:pg.next]
	}
	if pg.next < maxNames {
		pg.order = append(pg.order, name)
	}
}

// follow goes on to the lines of a name, of which this is the first.
func (pg *page) follow(name seenName, line []byte) {
	pg.last = name
	pg.next++
	if name.readAs == nil {
		pg.good++
		pg.name(line[:len(name.text)])
	}
}

// looksLikeSample is a short look at a line that is not wanted, with an
// exemplar or without.
func looksLikeSample(line []byte, nameLen int) bool {
	for _, exemplars := range []bool{false, true} {
		if end := seriesEnd(line, nameLen, exemplars); end > 0 {
			if _, ok := valueAfter(line[end:], exemplars); ok {
				return true
			}
		}
	}
	return false
}

// found notes that a family was read under a name.
func (pg *page) found(name *sampleName) {
	best := pg.best[name.family.id]
	switch {
	case best == nil:
		pg.best[name.family.id] = name
	case best.rank == name.rank:
	default:
		pg.ranked = true
		if name.rank < best.rank {
			pg.best[name.family.id] = name
		}
	}
	if src := name.family.source; src != nil {
		pg.kinds[src.id].wanted++
		pg.sourced = true
	}
}

// born notes a _created sample where the process' start is not exposed.
func (pg *page) born(series uint64, value float64) {
	if pg.start == 0 && len(pg.births) < maxBirths && !isNotNumber(value) {
		pg.births = append(pg.births, birth{series, value})
	}
}

// chosen says which inputs count: those of the page's source, and of a family
// under several names those of the best. It is nil when all do.
func (pg *page) chosen(src *source) func(*input) bool {
	others := false
	for i, seen := range pg.kinds {
		others = others || seen.wanted > 0 && registered.sources[i] != src
	}
	if !others && !pg.ranked {
		return nil
	}
	return func(in *input) bool {
		f := in.out.family
		return f.of(src) && pg.best[f.id].rank == in.rank
	}
}

// judge says what is wrong with the page as a whole, as a *PageError.
func (p *pageReader) judge(src *source, endMark bool) error {
	pg := &p.page
	switch {
	case pg.good == 0 && pg.bad == 0 && !pg.broken && !pg.eof:
		return &PageError{StateNoMetrics, "the page is empty; " + hintFor(src)}
	case pg.bad > pg.good || pg.good == 0 && pg.broken:
		return &PageError{StateNotMetrics, notMetrics(pg.html)}
	case pg.broken || openHistogram(p.lines.last):
		return &PageError{StateTruncated, fmt.Sprintf("the page of %d bytes ends in the middle of a line or a histogram", p.lines.bytes)}
	case endMark && !pg.eof:
		return &PageError{StateTruncated, fmt.Sprintf("the page of %d bytes lacks the # EOF that ends an OpenMetrics page", p.lines.bytes)}
	}
	return p.judgeFamilies(src)
}

// judgeFamilies says why a page holds nothing of its source.
func (p *pageReader) judgeFamilies(src *source) error {
	pg := &p.page
	if src != nil && (pg.kinds[src.id].wanted > 0 || pg.kinds[src.id].declared && pg.foreign == 0) {
		return nil
	}
	if pg.foreign > 0 {
		return &PageError{StateNoMetrics, "the page is a router's that repeats the series of its engines; scrape the engines themselves"}
	}
	for i, other := range registered.sources {
		if other != src && pg.kinds[i].wanted > 0 {
			return &PageError{StateNoMetrics, fmt.Sprintf("the page is of a %s server but the target's source is %s; correct the source", other.name, src.name)}
		}
	}
	was := src
	if was == nil {
		was = p.source
	}
	if was != nil {
		if seen := pg.kinds[was.id]; seen.remains && !seen.named {
			return &PageError{StateMetricsDisabled, "the server runs but exposes no " + was.name + " metrics; start it without --disable-log-stats"}
		}
	}
	return &PageError{StateNoMetrics, "the page holds no known metric family; " + hintFor(src)}
}

func hintFor(src *source) string {
	if src == nil {
		return "point the target at the metrics page of a vLLM or LiteLLM server"
	}
	return src.hint
}

func notMetrics(html bool) string {
	if html {
		return "the page is HTML, not metrics; check the port and metrics_path"
	}
	return "the body is no metrics page in text format; check the port and metrics_path"
}

// openHistogram says whether a page's last line is a bucket with others to follow.
func openHistogram(line []byte) bool {
	n := nameEnd(line)
	return bytes.HasSuffix(line[:n], []byte(BucketSuffix)) && bytes.Contains(line, []byte(`le="`)) && !bytes.Contains(line, []byte(`le="+Inf"`))
}
