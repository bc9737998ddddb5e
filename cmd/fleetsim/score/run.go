package score

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options say what is scored.
type Options struct {
	Entries []Entry
	Seeds   []uint64
	// Logs has the runs read logs of calls, and scores what rests on them alone.
	Logs bool
	// Parallel is how many runs are under way at once; what comes out does not
	// depend on it.
	Parallel int
	// Keep is a folder in which what each run came to is kept; a run that is found
	// there is not run again. Empty keeps nothing.
	Keep string
	// Progress is told, from several goroutines, how much more simulated time has
	// passed, and how many runs are over; nil tells nobody.
	Progress func(simulated time.Duration, done int)
}

// Score runs the corpus and scores all detectors on it.
func Score(ctx context.Context, o Options) (Result, error) {
	all := runs(o.Entries, o.Seeds)
	results := make([]Result, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, o.Parallel))
	progress := o.Progress
	if progress == nil {
		progress = func(time.Duration, int) {}
	}
	// The long ones first, so that none is left alone at the end.
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(all[b].Length - all[a].Length) })
	for _, i := range order {
		group.Go(func() error {
			var err error
			results[i], err = o.one(ctx, all[i], progress)
			progress(0, 1)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	return merge(o.Seeds, results), nil
}

// one scores one run, or finds that it was scored.
func (o Options) one(ctx context.Context, run Run, progress func(time.Duration, int)) (Result, error) {
	runs, play, judge := kept{dir: o.Keep}, play, judge
	if o.Logs {
		runs.kind, play, judge = "-logs", playWithLogs, judgeLogs
	}
	if result, found, err := runs.load(run); found || err != nil {
		progress(run.Length, 0)
		return result, err
	}
	p, err := play(ctx, run, func(d time.Duration) { progress(d, 0) })
	if err != nil {
		return Result{}, err
	}
	result := judge(p)
	return result, runs.save(run, result)
}

// Simulated is the time that a corpus simulates, and in how many runs.
func (o Options) Simulated() (simulated time.Duration, count int) {
	all := runs(o.Entries, o.Seeds)
	for _, r := range all {
		simulated += r.Length
	}
	return simulated, len(all)
}

// merge adds up what came of the runs of each entry, in their order.
func merge(seeds []uint64, results []Result) Result {
	all := Result{Seeds: seeds}
	for _, r := range results {
		all.Incidents = merged(all.Incidents, r.Incidents, (*IncidentScore).add)
		all.Quiet = merged(all.Quiet, r.Quiet, (*QuietScore).add)
		all.Queues = merged(all.Queues, r.Queues, (*QueueScore).add)
		all.Demand = merged(all.Demand, r.Demand, (*DemandScore).add)
		all.Knees = merged(all.Knees, r.Knees, (*KneeScore).add)
		all.Calibration = merged(all.Calibration, r.Calibration, (*CalibrationScore).add)
	}
	return all
}

// merged adds scores to those of the same subjects, and appends those of others.
func merged[S interface{ subject() Subject }](all, more []S, add func(to *S, more S)) []S {
	for _, one := range more {
		if i := slices.IndexFunc(all, func(s S) bool { return s.subject() == one.subject() }); i >= 0 {
			add(&all[i], one)
		} else {
			all = append(all, one)
		}
	}
	return all
}

func (s *IncidentScore) add(more IncidentScore) {
	s.Incidents += more.Incidents
	s.Found += more.Found
	s.Minutes = append(s.Minutes, more.Minutes...)
	slices.Sort(s.Minutes)
	s.Fires += more.Fires
	s.CausesTold += more.CausesTold
	s.CausesRight += more.CausesRight
}

func (s *QuietScore) add(more QuietScore) {
	s.ReplicaWeeks += more.ReplicaWeeks
	s.False += more.False
	s.True += more.True
}

func (s *QueueScore) add(more QueueScore) {
	s.Queues += more.Queues
	s.Leads = append(s.Leads, more.Leads...)
	slices.Sort(s.Leads)
}

func (s *DemandScore) add(more DemandScore) {
	s.Runs += more.Runs
	s.Found += more.Found
	s.Days = append(s.Days, more.Days...)
	slices.Sort(s.Days)
}

// quantile is the value that a share of all, in ascending order, does not
// exceed; of an even number the median is the mean of the middle two.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}
