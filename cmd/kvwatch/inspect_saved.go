package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/rules"
)

const (
	// savedStep is the time between saved pages whose times are not known.
	savedStep = 15 * time.Second
	// baselineAge is how much older than the watch the page may be with which
	// it begins.
	baselineAge = time.Minute
)

// recorded is a recording to look into.
type recorded struct {
	options inspectOptions
	path    string
	at      time.Time
}

func isArchive(name string) bool {
	return slices.ContainsFunc([]string{".tar.zst", ".tar.gz", ".tgz", ".tar"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

func (r recorded) input() string { return r.path }

// inspect judges each target of the recording by what a watch would have seen
// that began at the moment asked for; without one, by the last pages.
func (r recorded) inspect(context.Context) ([]inspected, error) {
	rec, err := collector.OpenRecording(r.path)
	if err != nil {
		return nil, err
	}
	defer rec.Close()
	first, last := rec.Span()
	from, to := r.options.window(r.at, last)
	if to.Before(first) || from.After(last) {
		return nil, fmt.Errorf("--at %s lies outside of it: it has %s to %s", from.UTC().Format(time.RFC3339), first.Format(time.RFC3339), last.Format(time.RFC3339))
	}
	byFolder := map[string][]collector.Page{}
	for p := range rec.Pages() {
		byFolder[p.Folder] = append(byFolder[p.Folder], p)
	}
	when, failed := func(p collector.Page) time.Time { return p.Time }, func(p collector.Page) bool { return p.Down }
	var all []inspected
	for i, folder := range rec.Folders() {
		report, err := r.target(rec.Targets()[i], watchedPages(byFolder[folder], when, failed, from, to))
		if err != nil {
			return all, err
		}
		report.URL = r.path + "/" + folder
		all = append(all, inspected{report: report})
	}
	return all, nil
}

// window is the time of a watch that begins at a moment, or ends with the last
// page where none is given.
func (o inspectOptions) window(at, last time.Time) (from, to time.Time) {
	if at.IsZero() {
		return last.Add(-o.watch), last
	}
	return at, at.Add(o.watch)
}

// watchedPages are the pages of a watch, and the one before them that says from
// what they count. Where the pages lie further apart than the watch is long, the
// next one ends it; where there is none any more, they are the last two. when
// and failed tell what a page is.
func watchedPages[P any](pages []P, when func(P) time.Time, failed func(P) bool, from, to time.Time) []P {
	first := slices.IndexFunc(pages, func(p P) bool { return !when(p).Before(from) })
	end := slices.IndexFunc(pages, func(p P) bool { return when(p).After(to) })
	if first < 0 {
		first, end = max(len(pages)-1, 0), len(pages)
	}
	if end < 0 {
		end = len(pages)
	}
	near := func(i int) bool {
		return i > 0 && i < len(pages) && when(pages[i]).Sub(when(pages[i-1])) <= baselineAge
	}
	counts := near(first) && !failed(pages[first-1])
	begin := first
	if counts && !when(pages[first]).Equal(from) {
		begin--
	}
	switch {
	case end-begin >= 2:
	case near(end):
		end++
	case counts:
		begin = first - 1
	}
	return pages[begin:end]
}

func (r recorded) target(t *collector.Target, pages []collector.Page) (rules.TargetReport, error) {
	inspection, err := rules.NewInspection(r.path, r.options.rules(recordedInterval(pages)))
	if err != nil {
		return rules.TargetReport{}, err
	}
	reader := collector.NewSavedReader(*t)
	for _, p := range pages {
		inspection.Observe(reader.Recorded(p))
	}
	return inspection.Report(), nil
}

// recordedInterval is the usual time between the pages.
func recordedInterval(pages []collector.Page) time.Duration {
	if len(pages) < 2 {
		return savedStep
	}
	return max(pages[len(pages)-1].Time.Sub(pages[0].Time)/time.Duration(len(pages)-1), time.Second)
}

// savedPage is one file.
type savedPage struct {
	path string
	time time.Time
	// named says that the time is in the file's name.
	named bool
	who   identity
}

// identity tells whether two pages may be of one target.
type identity struct {
	source  string
	start   float64
	engines string
	// totals are the page's token and request counters by their labels.
	totals map[string]float64
}

// same says whether a later page may be of the same process: it is of the same
// kind, names the same engines and no counter fell.
func (a identity) same(later identity) bool {
	if a.source != later.source || a.engines != "" && later.engines != "" && a.engines != later.engines {
		return false
	}
	if a.start != later.start {
		return false
	}
	for name, v := range a.totals {
		if after, ok := later.totals[name]; ok && after < v {
			return false
		}
	}
	return true
}

// saved are the pages of one target in order of time.
type saved struct {
	options inspectOptions
	pages   []savedPage
	timed   bool
}

// saved groups files into targets.
func (o inspectOptions) saved(files []string, at time.Time) ([]subject, []error) {
	var (
		groups []saved
		errs   []error
	)
	for _, file := range files {
		page, err := readIdentity(file)
		if err != nil {
			errs = append(errs, inputError{file, err})
			continue
		}
		i := slices.IndexFunc(groups, func(g saved) bool { return g.takes(page) })
		if i < 0 {
			groups = append(groups, saved{options: o, pages: []savedPage{page}})
			continue
		}
		groups[i].pages = append(groups[i].pages, page)
	}
	var all []subject
	for _, g := range groups {
		g.timed = g.order()
		if !at.IsZero() {
			if g.pages = g.watched(o.window(at, at)); len(g.pages) == 0 {
				continue
			}
		}
		all = append(all, g)
	}
	if len(files) > 0 && len(all) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("none of the %d saved pages was made in the time to watch after --at", len(files)))
	}
	return all, errs
}

// watched are the pages of a watch, none where none was made then.
func (s saved) watched(from, to time.Time) []savedPage {
	if s.pages[0].time.After(to) || s.pages[len(s.pages)-1].time.Before(from.Add(-baselineAge)) {
		return nil
	}
	return watchedPages(s.pages, func(p savedPage) time.Time { return p.time }, func(savedPage) bool { return false }, from, to)
}

// takes says whether a page is of the same target as those before it.
func (s saved) takes(p savedPage) bool {
	last := s.pages[len(s.pages)-1]
	if last.named && p.named {
		return filepath.Dir(last.path) == filepath.Dir(p.path)
	}
	return last.who.same(p.who)
}

// order puts the pages in order of time where their times tell it; else they
// are as given, and their times are made up.
func (s *saved) order() (timed bool) {
	if !slices.ContainsFunc(s.pages, func(p savedPage) bool { return !p.named }) {
		slices.SortStableFunc(s.pages, func(a, b savedPage) int { return a.time.Compare(b.time) })
	}
	for i := 1; i < len(s.pages); i++ {
		timed = s.pages[i].time.Sub(s.pages[i-1].time) >= time.Second
		if !timed {
			break
		}
	}
	if timed || len(s.pages) == 1 {
		return timed
	}
	end := s.pages[len(s.pages)-1].time
	for i := range s.pages {
		s.pages[i].time = end.Add(-time.Duration(len(s.pages)-1-i) * savedStep)
	}
	return false
}

func (s saved) input() string { return s.pages[len(s.pages)-1].path }

func (s saved) inspect(context.Context) ([]inspected, error) {
	options := s.options.rules(savedStep)
	options.Untimed = !s.timed && len(s.pages) > 1
	inspection, err := rules.NewInspection(s.input(), options)
	if err != nil {
		return nil, err
	}
	reader := collector.NewSavedReader(savedTarget(s.input()))
	for _, p := range s.pages {
		if err := p.read(reader, inspection.Observe); err != nil {
			return nil, err
		}
	}
	return []inspected{{report: inspection.Report()}}, nil
}

func savedTarget(path string) collector.Target {
	return collector.Target{Labels: labels.FromStrings(model.JobLabel, "saved", model.InstanceLabel, path), URL: path}
}

// read gives the page's round to sink.
func (p savedPage) read(reader *collector.SavedReader, sink func(*collector.Round, collector.PageInfo)) error {
	f, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if !strings.HasSuffix(p.path, ".gz") {
		sink(reader.Page(f, p.time))
		return nil
	}
	zr, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("it is named .gz and is not gzip: %w", err)
	}
	defer zr.Close()
	sink(reader.Page(zr, p.time))
	return nil
}

// readIdentity reads a page to know whose it is and when it was made.
func readIdentity(path string) (savedPage, error) {
	info, err := os.Stat(path)
	if err != nil {
		return savedPage{}, err
	}
	p := savedPage{path: path, time: info.ModTime()}
	digits, _, _ := strings.Cut(filepath.Base(path), ".")
	if ms, err := strconv.ParseInt(digits, 10, 64); err == nil && ms > 1e11 {
		p.time, p.named = time.UnixMilli(ms), true
	}
	return p, p.read(collector.NewSavedReader(savedTarget("")), func(r *collector.Round, page collector.PageInfo) {
		p.who = identityOf(r, page)
	})
}

func identityOf(r *collector.Round, page collector.PageInfo) identity {
	id := identity{source: r.Target.Source, start: page.ProcessStart, totals: map[string]float64{}}
	var engines []string
	for _, s := range r.Samples {
		name := s.Series.Labels.Get(model.MetricNameLabel)
		if strings.HasSuffix(name, "_total") {
			id.totals[s.Series.Labels.String()] = s.Value
		}
		if name == collector.VLLMPromptTokens {
			engines = append(engines, s.Series.Labels.Get("engine")+"="+s.Series.Labels.Get("model_name"))
		}
	}
	slices.Sort(engines)
	id.engines = strings.Join(engines, ",")
	return id
}
