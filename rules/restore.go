package rules

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/collector/history"
)

// Restore refills the windows from history, up to now. Call it once, before
// the first Observe. Targets are read one after the other, so that memory
// holds one target's pages at most.
func (e *Engine) Restore(ctx context.Context, now time.Time, scan ScanFunc) error {
	from := now.Add(-longWindow - ringSlack*e.opts.ScrapeInterval)
	to := now.Add(time.Millisecond)
	replays, err := scanUp(ctx, from, to, scan)
	if err != nil {
		return fmt.Errorf("reading which targets history knows: %w", err)
	}
	var rounds []collector.Round
	for _, r := range replays {
		rounds = r.begin(rounds)
		if err := r.scan(ctx, now, from, to, scan); err != nil {
			return fmt.Errorf("reading the history of %s: %w", r.target.Labels.Get("instance"), err)
		}
		e.replay(r)
		r.rounds = nil
	}
	return nil
}

// replay feeds a target's stored pages to its windows, as if they were scraped.
func (e *Engine) replay(r *replay) {
	t := e.addTarget(r.target)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range r.rounds {
		t.observe(&r.rounds[i])
	}
	// The pointer was ours; the collector brings its own.
	delete(e.byPointer, r.target)
	t.dropParts()
	t.pageSum = 0 // history holds a part of the pages only
}

// dropParts forgets the places of all series, and of those of histograms that
// they are known: pages bring histograms whole, and one that does not finds what
// its series counted again.
func (t *target) dropParts() {
	t.slots = map[*collector.Series]*slot{}
	known := map[uint64]*slot{}
	for key, s := range t.byLabels {
		switch s.kind {
		case slotBucket, slotSum, slotCount:
		default:
			known[key] = s
		}
	}
	t.byLabels = known
}

// replay is what history holds of one target: the outcomes of its scrapes and,
// from begin on, their rounds.
type replay struct {
	target *collector.Target
	ups    []history.Point
	rounds []collector.Round
}

// begin makes the rounds of the scrapes, without samples, in the room of another
// target's, which nobody needs any more.
func (r *replay) begin(room []collector.Round) []collector.Round {
	room = slices.Grow(room[:0], len(r.ups))[:len(r.ups)]
	for i, p := range r.ups {
		// Why a scrape failed is not stored, so that it is not known which
		// alert it speaks for until the first scrape after the restart.
		state := collector.StateUnknown
		if p.V == 1 {
			state = collector.StateUp
		}
		room[i] = collector.Round{Target: r.target, Time: time.UnixMilli(p.T), State: state, Samples: room[i].Samples[:0]}
	}
	r.rounds = room
	return room
}

// scanUp finds the targets and the times of their scrapes.
func scanUp(ctx context.Context, from, to time.Time, scan ScanFunc) ([]*replay, error) {
	byKey := map[targetKey]*replay{}
	var replays []*replay
	err := scan(ctx, from, to, []*labels.Matcher{equal(model.MetricNameLabel, collector.Up)}, func(ls labels.Labels, points []history.Point) error {
		key := targetKey{ls.Get("job"), ls.Get("instance")}
		r := byKey[key]
		if r == nil {
			r = &replay{target: &collector.Target{Labels: labels.FromStrings("job", key.job, "instance", key.instance)}}
			byKey[key] = r
			replays = append(replays, r)
		}
		for _, p := range points {
			if !p.IsStale() {
				r.ups = append(r.ups, p)
			}
		}
		return nil
	})
	return replays, err
}

// scan reads the target's series into the rounds: what windows of two hours
// need from the beginning, the rest from the last minutes only.
func (r *replay) scan(ctx context.Context, now, from, to time.Time, scan ScanFunc) error {
	long, short := windowNames()
	recent := now.Add(-shortWindow - time.Minute)
	for _, part := range []struct {
		from  time.Time
		names []string
	}{{from, long}, {recent, short}} {
		matchers := []*labels.Matcher{
			equal("job", r.target.Labels.Get("job")), equal("instance", r.target.Labels.Get("instance")),
			labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(part.names, "|")),
		}
		if err := scan(ctx, part.from, to, matchers, r.series()); err != nil {
			return err
		}
	}
	return nil
}

// series returns a function that puts the points of each series it is given
// into the rounds of their times.
func (r *replay) series() func(ls labels.Labels, points []history.Point) error {
	var s *collector.Series
	return func(ls labels.Labels, points []history.Point) error {
		if s == nil || !labels.Equal(s.Labels, ls) {
			s = &collector.Series{Labels: ls.Copy()}
			if strings.HasPrefix(ls.Get(model.MetricNameLabel), "litellm_") {
				r.target.Source = collector.SourceLiteLLM
			}
		}
		for _, p := range points {
			if p.IsStale() {
				continue
			}
			i, found := slices.BinarySearchFunc(r.rounds, p.T, func(round collector.Round, t int64) int {
				return int(round.Time.UnixMilli() - t)
			})
			if found {
				r.rounds[i].Samples = append(r.rounds[i].Samples, collector.Sample{Series: s, Value: p.V})
			}
		}
		return nil
	}
}

func equal(name, value string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, name, value)
}

// Reads lists the names of all raw series that rules read, with their suffixes.
func Reads() []string {
	long, short := windowNames()
	all := slices.Concat(long, short)
	slices.Sort(all)
	return all
}

// windowNames are the names of the series that windows need: those for two
// hours, and those for minutes.
func windowNames() (long, short []string) {
	long = []string{
		collector.ProcessStart, collector.VLLMCacheConfig, collector.VLLMKVUsage, collector.VLLMPromptTokens,
		collector.VLLMPromptCached, collector.VLLMCacheQueries, collector.VLLMCacheHits, collector.VLLMGenerationTokens,
		collector.VLLMSleepState, collector.VLLMExternalHits,
	}
	for _, name := range []string{
		collector.VLLMPromptHist, collector.VLLMComputedHist, collector.VLLMGenerationHist, collector.VLLMTTFT, collector.VLLMPrefillTime, collector.VLLMITL, collector.VLLMTPOT, collector.VLLMQueueTime,
		collector.LiteLLMOverhead, collector.LiteLLMRedisLatency, collector.LiteLLMPostgresLatency, collector.LiteLLMTotalLatency, collector.LiteLLMAPILatency,
	} {
		long = append(long, name+collector.SumSuffix, name+collector.CountSuffix)
		short = append(short, name+collector.BucketSuffix)
	}
	// Counters whose windows are short are scanned whole too: a first sight
	// within a healthy target would count as an increase.
	long = append(long, collector.VLLMPreemptions, collector.VLLMRequestSuccess, collector.VLLMDrafts, collector.VLLMRejections,
		collector.LiteLLMRejected, collector.LiteLLMRequests, collector.LiteLLMFailed, collector.LiteLLMCooledDown, collector.LiteLLMDeploySuccess, collector.LiteLLMDeployFailure, collector.LiteLLMInputTokens,
		collector.LiteLLMRedisCalls, collector.LiteLLMRedisFailed, collector.LiteLLMPostgresCalls, collector.LiteLLMPostgresFailed)
	short = append(short, collector.VLLMRunning, collector.VLLMWaiting, collector.VLLMWaitingByReason, collector.LiteLLMInFlight, collector.LiteLLMDeployState)
	return long, short
}
