package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kvwatch/collector"
)

// A stop does not wait until the time between two recorded pages has passed.
func TestCatchUpStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "engine"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{1_700_000_000_000, 1_700_000_000_000 + 40*24*time.Hour.Milliseconds()} {
		if err := os.WriteFile(filepath.Join(dir, "engine", fmt.Sprintf("%d.prom", at)), []byte(vllmPage), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := parseConfig("kvwatch.yml", []byte(fmt.Sprintf("scrape_configs: [{job_name: old, source: recording, recordings: [{path: %q, speed: 0}]}]\n", dir)))
	if err != nil {
		t.Fatal(err)
	}
	in, err := newIntake(c, func(context.Context, *collector.Round) {}, func(*collector.CallRound) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.close() })
	ctx, stop := context.WithCancel(t.Context())
	ticks := 0
	err = in.catchUp(ctx, time.Second, func(context.Context, time.Time) {
		if ticks++; ticks == 3 {
			stop()
		}
	})
	if err != nil || ticks != 3 { // to be told to stop is no error
		t.Errorf("%d ticks, %v", ticks, err)
	}
}
