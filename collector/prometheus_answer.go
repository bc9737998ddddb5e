package collector

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// promAnswer is what a server knows at one time or several, by target.
type promAnswer struct {
	// times are in Unix milliseconds. The one of an instant query is the
	// server's own, which the answer tells.
	times []int64
	// start and step place a time in times, in milliseconds.
	start, step int64
	targets     map[string]*promSeen
	// room is how many more values may be held; negative is without bound.
	room int
	// nameless counts series that do not say whose they are, taken targets that
	// are scraped as well.
	nameless, taken int
	partial         bool
}

// promSeen is what is known of one target.
type promSeen struct {
	job, instance string
	// source is empty where only the page tells.
	source string
	lines  []promLine
	// up and times are of `up`: its value and when it was scraped, in seconds.
	up, times promValues
	// twice says that more than one target has this job and instance.
	twice bool
}

// promLine is one series of a target's page.
type promLine struct {
	series *StoredSeries
	values promValues
}

// promValues are the values of one series at the answer's times; NaN is none.
type promValues []float64

func (v promValues) at(i int) float64 {
	if i >= len(v) {
		return math.NaN()
	}
	return v[i]
}

func newPromAnswer(times int) *promAnswer {
	return &promAnswer{times: make([]int64, times), targets: map[string]*promSeen{}, room: -1}
}

// series takes one series of a page.
func (a *promAnswer) series(q *querySeries) error {
	series := NewStoredSeries(exposed(q.Metric))
	if series == nil {
		return nil // a selector may be wider than what is read
	}
	t := a.target(q)
	if t == nil {
		a.nameless++
		return nil
	}
	values, err := a.values(q)
	if err == nil {
		t.lines = append(t.lines, promLine{series: series, values: values})
	}
	return err
}

// ofTarget takes `up` or the process' start of a target that is known, by this
// answer or by one before.
func (a *promAnswer) ofTarget(q *querySeries, known map[string]*promTarget) error {
	id := targetID(q.Metric[model.JobLabel], q.Metric[model.InstanceLabel])
	if a.targets[id] == nil && known[id] == nil {
		return nil
	}
	if q.Metric[model.MetricNameLabel] != Up {
		return a.series(q)
	}
	t := a.target(q)
	if t == nil {
		return nil
	}
	t.twice = t.twice || t.up != nil
	values, err := a.values(q)
	t.up = values
	return err
}

// scraped takes when a target was scraped.
func (a *promAnswer) scraped(q *querySeries) error {
	t := a.targets[targetID(q.Metric[model.JobLabel], q.Metric[model.InstanceLabel])]
	if t == nil {
		return nil
	}
	values, err := a.values(q)
	t.times = values
	return err
}

func (a *promAnswer) target(q *querySeries) *promSeen {
	job, instance := q.Metric[model.JobLabel], q.Metric[model.InstanceLabel]
	if job == "" || instance == "" {
		return nil
	}
	id := targetID(job, instance)
	t := a.targets[id]
	if t == nil {
		t = &promSeen{job: job, instance: instance}
		a.targets[id] = t
	}
	return t
}

// values puts a series' values in their places.
func (a *promAnswer) values(q *querySeries) (promValues, error) {
	if a.room >= 0 {
		if a.room -= len(a.times); a.room < 0 {
			e := queryFailure(StateTooLarge, "the answer holds more values than may be held at once: narrow match, or shorten backfill")
			e.tooMany = true
			return nil, e
		}
	}
	values := make(promValues, len(a.times))
	for i := range values {
		values[i] = math.NaN()
	}
	if q.Value != nil {
		a.times[0] = max(a.times[0], q.Value.at)
		values[0] = q.Value.value
	}
	for _, p := range q.Values {
		if i := (p.at - a.start + a.step/2) / a.step; i >= 0 && int(i) < len(values) {
			values[i] = p.value
		}
	}
	return values, nil
}

// jobs lists the jobs of the targets of this answer and of those before.
func (a *promAnswer) jobs(known map[string]*promTarget) []string {
	set := map[string]bool{}
	for _, t := range a.targets {
		set[t.job] = true
	}
	for _, t := range known {
		set[t.public.Job] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// warning says what a person should know of a server that answers.
func (a *promAnswer) warning(state State) string {
	var ws []string
	if state == StateUp && len(a.targets) == 0 {
		ws = append(ws, "the server knows no series that match selects")
	}
	if a.nameless > 0 {
		ws = append(ws, fmt.Sprintf("%d series have no job or no instance label and were left out: their targets cannot be told", a.nameless))
	}
	if a.taken > 0 {
		ws = append(ws, fmt.Sprintf("%d of its targets are scraped by kvwatch itself and were left out", a.taken))
	}
	if a.partial {
		ws = append(ws, "the server answers in part only (it gives warnings)")
	}
	return strings.Join(ws, "; ")
}

// when is the time of the scrape that the i-th values are of, in Unix
// milliseconds; that of the answer where the server does not know `up`.
func (t *promSeen) when(i int, asked int64) int64 {
	if seconds := t.times.at(i); !isMissing(seconds) {
		return int64(math.Round(seconds * 1000))
	}
	return asked
}

// any says whether a series has an i-th value.
func (t *promSeen) any(i int) bool {
	return slices.ContainsFunc(t.lines, func(l promLine) bool { return !isMissing(l.values.at(i)) })
}

// page appends the i-th values of the target's series.
func (t *promSeen) page(to []StoredSample, i int) []StoredSample {
	for _, l := range t.lines {
		if v := l.values.at(i); !isMissing(v) {
			to = append(to, StoredSample{Series: l.series, Value: v})
		}
	}
	return to
}

// inOrder lists the targets in the order of the scrapes that the i-th values are of.
func (a *promAnswer) inOrder(i int) []string {
	return slices.SortedFunc(maps.Keys(a.targets), func(x, y string) int {
		return cmp.Or(cmp.Compare(a.targets[x].when(i, a.times[i]), a.targets[y].when(i, a.times[i])), cmp.Compare(x, y))
	})
}

// newPromRange is an answer for several times from start on.
func newPromRange(start int64, step time.Duration, times, room int) *promAnswer {
	a := newPromAnswer(times)
	a.start, a.step, a.room = start, step.Milliseconds(), room
	for i := range a.times {
		a.times[i] = start + int64(i)*a.step
	}
	return a
}
