package main

import (
	"testing"
	"time"
)

func TestTicks(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		t.Helper()
		parsed, err := time.Parse("15:04:05.000000", s)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for name, c := range map[string]struct {
		before, now, due string // now is when the tick before was done
		came, at         string
	}{
		"on time":               {"10:00:05.000000", "10:00:05.030000", "10:00:10.000000", "10:00:10.002000", "10:00:10.000000"},
		"a hair early":          {"10:00:05.000000", "10:00:04.999990", "10:00:10.000000", "10:00:09.999990", "10:00:10.000000"},
		"the first":             {"10:00:03.200000", "10:00:03.200000", "10:00:05.000000", "10:00:05.001000", "10:00:05.000000"},
		"a busy machine":        {"10:00:05.000000", "10:00:05.030000", "10:00:10.000000", "10:00:11.300000", "10:00:11.300000"},
		"the tick was long":     {"10:00:05.000000", "10:00:13.000000", "10:00:15.000000", "10:00:15.000100", "10:00:15.000000"},
		"the clock is set on":   {"10:00:05.000000", "10:00:05.030000", "10:00:10.000000", "11:00:10.001000", "11:00:10.001000"},
		"the clock is set back": {"10:00:05.000000", "10:00:05.030000", "10:00:10.000000", "09:00:10.001000", "09:00:10.001000"},
		"after it was set back": {"09:00:10.001000", "09:00:10.020000", "09:00:15.000000", "09:00:15.002000", "09:00:15.000000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			due := nextTick(at(c.before), at(c.now), 5*time.Second)
			if !due.Equal(at(c.due)) {
				t.Errorf("it is due at %s, want %s", due.Format("15:04:05.000000"), c.due)
			}
			if got := onTime(due, at(c.came)); !got.Equal(at(c.at)) {
				t.Errorf("it counts as at %s, want %s", got.Format("15:04:05.000000"), c.at)
			}
		})
	}
}
