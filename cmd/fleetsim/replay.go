package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"kvwatch/collector"
)

// replayOptions say what of which recording to serve.
type replayOptions struct {
	path, from, to string
}

// serveRecording serves each target of a recording on a port of its own, as it
// answered then, until its end or that of ctx.
func serveRecording(ctx context.Context, stdout io.Writer, base *net.TCPAddr, speed float64, o replayOptions) (err error) {
	recording, err := collector.OpenRecording(o.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recording.Close()) }()
	from, to, err := o.span(recording.Span())
	if err != nil {
		return err
	}
	folders := recording.Folders()
	listeners, err := listenFrom(ctx, base, len(folders))
	if err != nil {
		return err
	}
	describeRecording(stdout, recording, listeners, from, to)

	began := time.Now()
	clock := func() time.Time { return from.Add(time.Duration(float64(time.Since(began)) * speed)) }
	ctx, cancel := context.WithTimeout(ctx, time.Duration(float64(to.Sub(from))/speed))
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for i, folder := range folders {
		server := &http.Server{Handler: recording.Handler(folder, clock), ReadHeaderTimeout: 10 * time.Second}
		group.Go(func() error {
			if err := server.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			return server.Close()
		})
	}
	return group.Wait()
}

// span is the part of a recording that is asked for.
func (o replayOptions) span(first, last time.Time) (from, to time.Time, err error) {
	from, to = first, last
	if o.from != "" {
		if from, err = parseTime(o.from); err != nil {
			return from, to, fmt.Errorf("--from: %w", err)
		}
	}
	if o.to != "" {
		if to, err = parseTime(o.to); err != nil {
			return from, to, fmt.Errorf("--to: %w", err)
		}
	}
	if !from.Before(to) || to.Before(first) || from.After(last) {
		return from, to, fmt.Errorf("nothing to serve from %s to %s: the recording goes from %s to %s",
			stamp(from), stamp(to), stamp(first), stamp(last))
	}
	return from, to, nil
}

// parseTime reads RFC 3339 or Unix seconds.
func parseTime(s string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(seconds) < 1e11 {
		return time.UnixMilli(int64(math.Round(seconds * 1000))), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, fmt.Errorf("%q is neither RFC 3339 (2026-11-29T20:24:00Z) nor Unix seconds", s)
	}
	return t, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// describeRecording prints what is served where, as a scrape configuration:
// one job per recorded job and source.
func describeRecording(w io.Writer, r *collector.Recording, listeners []net.Listener, from, to time.Time) {
	fmt.Fprintf(w, "# from %s to %s of the recording\nscrape_configs:\n", stamp(from), stamp(to))
	targets := r.Targets()
	done := make([]bool, len(targets))
	for i, first := range targets {
		if done[i] {
			continue
		}
		job := first.Labels.Get("job")
		fmt.Fprintf(w, jobHead, job, first.Source)
		for j, target := range targets {
			if done[j] || target.Source != first.Source || target.Labels.Get("job") != job {
				continue
			}
			done[j] = true
			fmt.Fprintf(w, "      - {targets: [%q], labels: {instance: %q}}\n", listeners[j].Addr(), target.Labels.Get("instance"))
		}
	}
}
