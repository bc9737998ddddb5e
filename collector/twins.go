package collector

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

const (
	// twinFresh is how old another gateway's page may be to be compared.
	twinFresh = 10 * time.Minute
	// twinKept is how long two gateways are told to be twins after they last
	// showed it.
	twinKept = time.Hour
	// minMarks is how many sums two pages must have in common.
	minMarks = 2
)

// twins finds gateways whose pages show the same counters: two proxies on one
// host share LiteLLM's multiprocess directory, or one proxy is scraped under two
// addresses. Whoever adds them up counts twice. The zero value is ready to use.
type twins struct {
	mu    sync.Mutex
	pages map[*targetScraper]twinPage
}

// twinPage is what is remembered of a gateway's last page.
type twinPage struct {
	at    time.Time
	name  string
	marks []uint64
	// twin is the gateway that showed the same, last at seen.
	twin string
	seen time.Time
}

// note takes a page and names the gateway that shows the same counters, or "".
func (t *twins) note(s *targetScraper, round *Round) string {
	if t == nil || round.State != StateUp || round.Target.Source != SourceLiteLLM {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pages == nil {
		t.pages = map[*targetScraper]twinPage{}
	}
	mine := t.pages[s]
	mine.at, mine.name = round.Time, round.Target.Labels.Get(model.InstanceLabel)
	mine.marks = marks(mine.marks[:0], round)
	for other, page := range t.pages {
		if other == s || round.Time.Sub(page.at) > twinFresh || common(mine.marks, page.marks) < minMarks {
			continue
		}
		mine.twin, mine.seen = page.name, round.Time
		page.twin, page.seen = mine.name, round.Time
		t.pages[other] = page
	}
	t.pages[s] = mine
	if mine.twin == "" || round.Time.Sub(mine.seen) > twinKept {
		return ""
	}
	return fmt.Sprintf("the page shows the same counters as that of %s: two proxies share one PROMETHEUS_MULTIPROC_DIR, where the second to start deletes what the first has counted, or one proxy is scraped twice; give each a directory of its own, and do not add them up", mine.twin)
}

// forget drops a gateway that is no longer scraped.
func (t *twins) forget(s *targetScraper) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pages, s)
}

// marks are hashes of the sums of a page's histograms, sorted: times summed
// over many calls, of which no two proxies have the same to the last digit. The
// target's own labels are left out, as they tell the two apart.
func marks(to []uint64, round *Round) []uint64 {
	var own []string // in order, as Labels holds them
	round.Target.Labels.Range(func(l labels.Label) { own = append(own, l.Name) })
	var scratch []byte
	mark := func(name string, ls labels.Labels, sum float64) {
		if math.IsNaN(sum) || sum == math.Trunc(sum) {
			return
		}
		var hash uint64
		hash, scratch = ls.HashWithoutLabels(scratch, own...)
		to = append(to, hash^xxhash.Sum64String(name)^math.Float64bits(sum)*spread)
	}
	for _, s := range round.Samples {
		if name := s.Series.Labels.Get(model.MetricNameLabel); strings.HasSuffix(name, SumSuffix) {
			mark(name, s.Series.Labels, s.Value)
		}
	}
	for _, h := range round.Histograms {
		mark(h.Series.Labels.Get(model.MetricNameLabel), h.Series.Labels, h.Sum)
	}
	slices.Sort(to)
	return to
}

// spread is an odd number that spreads the bits of a value over a hash.
const spread = 0x9e3779b97f4a7c15

// common counts what two sorted lists share.
func common(a, b []uint64) int {
	n := 0
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			n++
			a, b = a[1:], b[1:]
		}
	}
	return n
}
