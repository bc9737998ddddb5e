package collector

import (
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Stored makes the rounds of one target out of series that were scraped and
// stored already, by kvwatch or by somebody else. They pass through the same
// tables as those of pages: other names, labels nobody needs and parts of sums
// are told apart and added up in the same way. It is not safe for concurrent use.
type Stored struct {
	rounds *rounds
}

// NewStored makes the rounds of t, whose Source may be empty.
func NewStored(t Target) *Stored { return &Stored{rounds: newRounds(t, DefaultLimits())} }

// StoredSeries is one stored series with its place in the tables. It is made
// once, so that nothing looks at labels where its values are read.
type StoredSeries struct {
	labels labels.Labels
	key    uint64
	readAs *sampleName
}

// NewStoredSeries looks a series up by its whole label set; nil where no source
// reads it.
func NewStoredSeries(ls labels.Labels) *StoredSeries {
	readAs := registered.samples[ls.Get(model.MetricNameLabel)]
	if readAs == nil {
		return nil
	}
	return &StoredSeries{labels: ls, key: ls.Hash(), readAs: readAs}
}

// StoredSample is one value of a stored series.
type StoredSample struct {
	Series *StoredSeries
	Value  float64
}

// StoredNames lists all names under which series of the sources are stored, in
// order: those whose canonical name, with its suffix, is among wanted, or all
// where none is given. What every process exposes is not among them: see
// StoredTargetNames.
func StoredNames(wanted ...string) []string {
	var names []string
	for name, readAs := range registered.samples {
		if readAs.family.source != nil && !readAs.created && (len(wanted) == 0 || slices.Contains(wanted, readAs.name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// StoredTargetNames lists what is stored of every target, be it one that no
// source reads.
func StoredTargetNames() []string { return []string{Up, ProcessStart} }

// Page makes a round of the values that were stored of one scrape. It is valid
// until the next call.
func (s *Stored) Page(samples []StoredSample, at time.Time) *Round {
	round, _ := s.rounds.stored(samples, at)
	return round
}

// Failed makes a round of a scrape that failed. Why is not stored.
func (s *Stored) Failed(at time.Time) *Round {
	return s.rounds.failed(failure{StateDown, "it could not be scraped (its up is 0); history does not hold why"}, at)
}

// Twice makes a round of a time at which several targets had this job and instance.
func (s *Stored) Twice(at time.Time) *Round {
	return s.rounds.failed(failure{StateNotMetrics, "several targets had this job and instance: relabel them apart"}, at)
}

// Gone makes the last round of a target that ended.
func (s *Stored) Gone(at time.Time) *Round { return s.rounds.gone(at) }

// stored makes a round of stored values, as page does of a body.
func (r *rounds) stored(samples []StoredSample, at time.Time) (*Round, pageInfo) {
	r.sit()
	return r.take(guarded(func() readPage { return newReadPage(r.reader.stored(samples, at)) }), at)
}

// stored takes the values of one scrape that were stored, as read does of a body.
func (p *pageReader) stored(values []StoredSample, at time.Time) (yield, pageInfo, error) {
	p.begin(false)
	for i := range values {
		if err := p.storedValue(values[i].Series, values[i].Value); err != nil {
			return yield{}, pageInfo{}, err
		}
	}
	src := p.recognise()
	info := p.info(src)
	if err := p.judgeFamilies(src); err != nil {
		return yield{}, info, err
	}
	return p.accept(&info, src, at), info, nil
}

// storedValue takes one value; what cannot be read of it is left out.
func (p *pageReader) storedValue(s *StoredSeries, value float64) error {
	pg := &p.page
	if s.readAs.created {
		pg.born(s.key, value)
		return nil
	}
	in, known := p.sums.find(s.key)
	if !known {
		fresh, err := p.admitSeries(s.labels, s.readAs)
		if err != nil {
			pg.bad++
			return refusal(err)
		}
		in = p.sums.admit(s.key, fresh)
	}
	if pg.wanted++; pg.wanted > p.limits.Series {
		return p.tooMany()
	}
	p.value(in, s.readAs, value, true)
	return nil
}
