package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"kvwatch/collector"
)

// recordCommand writes a recording of live targets.
func recordCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("record", "Records the metrics pages of live targets, to be replayed elsewhere. Label values that may identify people are hashed; the targets' host names stay.")
	urls := cmd.Arg("url", "Metrics pages of vLLM or LiteLLM servers: http://host:port, or host:port. Without a path: /metrics.").Required().Strings()
	r := recording{}
	cmd.Flag("output", "Where to: an archive where the name ends in .tar.zst, else a directory. Default: kvwatch-recording-<time>.tar.zst.").StringVar(&r.output)
	cmd.Flag("interval", "Time from one scrape of a target to the next.").Default("5s").DurationVar(&r.interval)
	cmd.Flag("for", "How long to record; Ctrl-C ends it earlier, and leaves a whole recording.").Default("10m").DurationVar(&r.length)
	r.http.flags(cmd, "File with the key that the pages want.")
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		r.urls, r.progress = *urls, io.Discard
		if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			r.progress = os.Stderr
		}
		r.output = cmp.Or(r.output, "kvwatch-recording-"+time.Now().UTC().Format("20060102T150405Z")+".tar.zst")
		return r.run(ctx, stdout)
	}
}

// recording is one run of the command.
type recording struct {
	urls             []string
	output           string
	interval, length time.Duration
	http             httpOptions
	// progress is a terminal, or nothing.
	progress io.Writer
	// taken is told each round that was recorded; nil is nobody.
	taken func(*collector.Round)
}

func (r recording) run(ctx context.Context, stdout io.Writer) (err error) {
	if r.interval < 100*time.Millisecond || r.length <= 0 {
		return fmt.Errorf("--interval %s and --for %s: an interval of at least 100ms and some time are needed", r.interval, r.length)
	}
	scrapes, err := r.scrapes()
	if err != nil {
		return err
	}
	recorder, err := collector.NewRecorder(r.output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recorder.Close()) }()

	ctx, cancel := context.WithTimeout(ctx, r.length)
	defer cancel()
	var once sync.Once
	var failed error
	global := collector.DefaultGlobalConfig()
	global.ScrapeInterval, global.ScrapeTimeout = model.Duration(r.interval), model.Duration(r.interval)
	c, err := collector.New(collector.Options{
		Global: global, Scrapes: scrapes,
		Tap: func(round *collector.Round, page []byte) {
			if err := recorder.Take(round, page); err != nil {
				once.Do(func() { failed = err; cancel() })
			}
		},
		Sink: func(_ context.Context, round *collector.Round) {
			if r.taken != nil {
				r.taken(round)
			}
		},
	})
	if err != nil {
		return err
	}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		r.show(ctx, recorder)
	}()
	err = c.Run(ctx)
	cancel()
	<-shown
	if err = errors.Join(err, failed, recorder.Close()); err != nil {
		return fmt.Errorf("recording to %s: %w", r.output, err)
	}
	return r.summary(stdout, recorder.Progress(), c.Targets())
}

// summary says what was recorded; nothing at all is an error.
func (r recording) summary(stdout io.Writer, p collector.RecorderProgress, targets []collector.TargetStatus) error {
	for _, t := range targets {
		if t.State != collector.StateUp {
			fmt.Fprintf(stdout, "%s: %s: %s\n", t.URL, t.State, cmp.Or(t.Reason, "it was not asked yet"))
		}
	}
	if p.Pages == 0 {
		return fmt.Errorf("no page was recorded in %s: check the addresses with kvwatch inspect", r.output)
	}
	fmt.Fprintf(stdout, "%s: %s of %s, %s. Label values that may identify people are hashed; host names of targets are in it.\n",
		r.output, count(p.Pages, "page"), count(p.Targets, "target"), count(p.Failed, "failed scrape"))
	return nil
}

// scrapes are the configurations that the addresses stand for.
func (r recording) scrapes() ([]collector.ScrapeConfig, error) {
	var all []collector.ScrapeConfig
	client, err := r.http.client(true)
	if err != nil {
		return nil, err
	}
	hosts := map[string]int{}
	for i, raw := range r.urls {
		if !strings.Contains(raw, "://") {
			raw = "http://" + raw
		}
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("address %d is no http:// or https:// address: write http://host:port/path", i+1)
		}
		if u.User != nil {
			return nil, fmt.Errorf("address %d holds user info: give a key with --bearer-token-file, or a password with --http.config.file", i+1)
		}
		c := collector.DefaultScrapeConfig()
		c.JobName, c.Scheme, c.Params = fmt.Sprintf("address %d", i+1), u.Scheme, u.Query()
		if u.Path != "" && u.Path != "/" {
			c.MetricsPath = u.Path
		}
		c.HTTPClientConfig = client
		target := model.LabelSet{model.AddressLabel: model.LabelValue(u.Host)}
		if hosts[u.Host]++; hosts[u.Host] > 1 { // another page of the same host
			target[model.InstanceLabel] = model.LabelValue(u.Host + u.Path)
		}
		c.StaticConfigs = []*targetgroup.Group{{Targets: []model.LabelSet{target}}}
		all = append(all, c)
	}
	return all, nil
}

// show keeps a line on the terminal up to date until ctx is done.
func (r recording) show(ctx context.Context, recorder *collector.Recorder) {
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(r.progress)
			return
		case now := <-tick.C:
			p := recorder.Progress()
			left := max(0, r.length-now.Sub(began)).Round(time.Second)
			fmt.Fprintf(r.progress, "\r\033[K%s of %s, %s, %.1f MB, %s left (Ctrl-C ends it)",
				count(p.Pages, "page"), count(p.Targets, "target"), count(p.Failed, "failed scrape"), float64(p.Bytes)/1e6, left)
		}
	}
}
