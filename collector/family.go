package collector

import (
	"slices"
	"strings"
)

// A source is one kind of metrics page. Each registers itself in the file that
// is named after it.
type source struct {
	name string
	// path is where such a server has its page; empty is /metrics.
	path string
	// owns says whether an exposed name belongs to this kind of page, wanted or not.
	owns func(name []byte) bool
	// labels are kept on every series, beside those of the family.
	labels []string
	// defaults fills in labels that older or other servers leave out.
	defaults map[string]string
	// renames gives for a label the name that other servers have for it.
	renames map[string]string
	// foreign is a label that only a re-export of somebody else's series
	// carries; such series are left out, lest they count twice.
	foreign string
	// accumulates says that the server itself drops single series (evicted
	// users, dead workers), so that a sum must outlive its parts.
	accumulates bool
	// disabled are prefixes of what is left of the page when the metrics are
	// switched off; empty where that cannot be told.
	disabled []string
	// hint says what to do about a page that holds none of the families.
	hint     string
	families []family
	// details are told at other paths of the same server.
	details []detail

	// id is the place in the registry.
	id int
}

// A family is one wanted metric family.
type family struct {
	// name is the canonical name; histograms without suffix.
	name string
	kind kind
	// aliases are other exposed names, the best first.
	aliases []string
	// labels are kept, beside those of the source.
	labels []string
	// required is said to be missing where a page neither has nor declares it.
	required bool
	// clears says that an increase of this counter proves the deployment
	// (label model_id) well, whatever its state gauge still says.
	clears bool

	// id numbers all families, for tables that a page fills.
	id int
	// source is nil for what every process exposes.
	source *source
}

// of says whether the family belongs to a page of this source.
func (f *family) of(s *source) bool { return f.source == nil || f.source == s }

// A kind says which series a family has and how those that coincide once
// unwanted labels are gone become one.
type kind uint8

const (
	counter     kind = iota // summed
	histogram               // summed: _bucket, _sum and _count
	sumAndCount             // summed: a histogram whose buckets nobody needs
	gauge                   // summed: requests, which add up
	peak                    // the greatest: ratios and states, which do not
	moved                   // the one that changed last, see sums.go
)

// counts says that the series only grow while the process lives.
func (k kind) counts() bool { return k <= sumAndCount }

// suffixes of the kind's series.
func (k kind) suffixes() []string {
	switch k {
	case histogram:
		return []string{BucketSuffix, SumSuffix, CountSuffix}
	case sumAndCount:
		return []string{SumSuffix, CountSuffix}
	default:
		return []string{""}
	}
}

// What the names of a classic histogram's series end in.
const (
	BucketSuffix = "_bucket"
	SumSuffix    = "_sum"
	CountSuffix  = "_count"
)

const (
	suffixTotal   = "_total"
	suffixCreated = "_created"
)

// A sampleName is one exposed name that is read.
type sampleName struct {
	family *family
	// name is the canonical name with its suffix.
	name string
	// exposed is the family's name as the page has it.
	exposed string
	// rank is 0 for the canonical name; of a family only the best rank on the page is taken.
	rank uint8
	// part is what of a histogram it is.
	part part
	// created is a _created sample, which only tells workers apart.
	created bool
}

// registry is the table of all sources.
type registry struct {
	sources  []*source
	families []*family
	// samples finds a sample line by its name, declared a TYPE line.
	samples, declared map[string]*sampleName
}

// registered is filled by the sources' init functions and only read after.
var registered = newRegistry() //nolint:gochecknoglobals // the one table of sources

func newRegistry() *registry {
	r := &registry{samples: map[string]*sampleName{}, declared: map[string]*sampleName{}}
	r.addFamily(&family{name: ProcessStart, kind: peak})
	return r
}

// register adds a kind of page. It panics when a name is taken: two sources
// would read the same line.
func register(s source) { registered.add(&s) }

func (r *registry) add(s *source) {
	s.id = len(r.sources)
	r.sources = append(r.sources, s)
	for i := range s.families {
		f := &s.families[i]
		f.source = s
		r.addFamily(f)
	}
}

func (r *registry) addFamily(f *family) {
	f.id = len(r.families)
	r.families = append(r.families, f)
	for rank, exposed := range exposedNames(f) {
		for _, suffix := range f.kind.suffixes() {
			r.addName(r.samples, exposed+suffix, &sampleName{
				family: f, name: f.name + suffix, exposed: exposed, rank: uint8(rank), part: partOf(suffix),
			})
		}
		declared := &sampleName{family: f, name: f.name, exposed: exposed, rank: uint8(rank)}
		r.addName(r.declared, exposed, declared)
		if f.kind.counts() {
			base := strings.TrimSuffix(exposed, suffixTotal)
			if _, ok := r.samples[base+suffixCreated]; !ok {
				r.addName(r.samples, base+suffixCreated, &sampleName{family: f, created: true})
			}
		}
	}
}

func (r *registry) addName(names map[string]*sampleName, name string, n *sampleName) {
	if other, ok := names[name]; ok {
		panic("collector: " + name + " is read as " + other.family.name + " and as " + n.family.name)
	}
	names[name] = n
}

// exposedNames lists the names under which the family is read, the best first:
// the canonical one, then the aliases, each counter with and without _total
// (OpenMetrics declares it without; a few exporters drop it altogether).
func exposedNames(f *family) []string {
	var names []string
	for _, name := range append([]string{f.name}, f.aliases...) {
		names = append(names, name)
		if base, ok := strings.CutSuffix(name, suffixTotal); ok && f.kind == counter {
			names = append(names, base)
		}
	}
	return names
}

// named finds a source by its name, or nil.
func (r *registry) named(name string) *source {
	for _, s := range r.sources {
		if s.name == name {
			return s
		}
	}
	return nil
}

// names lists the sources' names.
func (r *registry) names(between string) string {
	var all []string
	for _, s := range r.sources {
		all = append(all, s.name)
	}
	slices.Sort(all)
	return strings.Join(all, between)
}

// hasAnyPrefix is bytes.HasPrefix for several prefixes.
func hasAnyPrefix(name []byte, prefixes ...string) bool {
	for _, p := range prefixes {
		if len(name) >= len(p) && string(name[:len(p)]) == p {
			return true
		}
	}
	return false
}
