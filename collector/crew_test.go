package collector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestCrew(t *testing.T) {
	t.Parallel()
	// The bubble ends only when all workers have: none stays for ever.
	synctest.Test(t, func(t *testing.T) {
		c := new(crew)
		slow := make(chan struct{})
		go c.do(t.Context(), func() { <-slow })
		synctest.Wait()
		done := 0
		for range 3 { // a slow target holds up nobody
			go c.do(t.Context(), func() { done++ })
			synctest.Wait()
		}
		if done != 3 {
			t.Errorf("%d jobs were done beside a slow one, want 3", done)
		}
		close(slow)
	})
}

func TestCrewShrinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := new(crew)
		job := func() { <-time.After(time.Millisecond) }
		for range 100 { // all at once, as at the start
			go c.do(t.Context(), job)
		}
		for range 10 * workerRest / time.Second {
			for range 10 { // one after the other
				go c.do(t.Context(), job)
				<-time.After(100 * time.Millisecond)
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(c.resting); n != 1 {
			t.Errorf("%d workers rest where one at a time has work", n)
		}
	})
}

func TestCrewRepeats(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// cancel is when it is told to stop, takes how long a job takes that heeds
		// it, or does not. A job is due at each full minute.
		cancel, takes time.Duration
		heeds         bool
		begun         int
		ended         time.Duration
	}{
		{name: "before it begins", cancel: 0, begun: 0, ended: 0},
		{name: "before the first", cancel: 30 * time.Second, begun: 0, ended: 30 * time.Second},
		{name: "between two", cancel: 150 * time.Second, takes: time.Second, begun: 2, ended: 150 * time.Second},
		{name: "in one that heeds it", cancel: 70 * time.Second, takes: 30 * time.Second, heeds: true, begun: 1, ended: 70 * time.Second},
		{name: "in one that does not", cancel: 70 * time.Second, takes: 30 * time.Second, begun: 1, ended: 90 * time.Second},
		{name: "in one that takes longer than a turn", cancel: 170 * time.Second, takes: 70 * time.Second, begun: 1, ended: 170 * time.Second},
		{name: "when one is due", cancel: time.Minute, takes: time.Second, heeds: true, begun: -1, ended: time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				zero := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.cancel == 0 {
					cancel()
				} else {
					time.AfterFunc(tt.cancel, cancel)
				}
				begun, under := 0, false
				ends := make(chan time.Duration, 2)
				new(crew).repeat(ctx, func() time.Time { return time.Now().Truncate(time.Minute).Add(time.Minute) }, func(due time.Time) {
					begun, under = begun+1, true
					if !due.Equal(time.Now()) {
						t.Errorf("a job that is due at %s is done at %s", due.Sub(zero), time.Since(zero))
					}
					heed := ctx.Done()
					if !tt.heeds {
						heed = nil
					}
					select {
					case <-time.After(tt.takes):
					case <-heed:
					}
					under = false
				}, func() {
					if under {
						t.Error("it ended within a job")
					}
					ends <- time.Since(zero)
				})
				if got := <-ends; got != tt.ended || tt.begun >= 0 && begun != tt.begun {
					t.Errorf("%d jobs were begun, and it ended after %s; want %d, %s", begun, got, tt.begun, tt.ended)
				}
				<-time.After(time.Hour)
				if len(ends) > 0 {
					t.Error("it ended twice")
				}
			})
		})
	}
}

func BenchmarkCrew(b *testing.B) {
	c := new(crew)
	b.ReportAllocs()
	done := make(chan struct{})
	for b.Loop() {
		go c.do(b.Context(), func() {
			deep(64)
			done <- struct{}{}
		})
		<-done
	}
}

// deep needs a stack like that of a scrape.
func deep(n int) (sum int) {
	var frame [512]byte
	if n > 0 {
		frame[n] = 1
		sum = deep(n - 1)
	}
	for _, b := range frame {
		sum += int(b)
	}
	return sum
}
