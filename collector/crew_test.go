package collector

import (
	"testing"
	"testing/synctest"
)

func TestCrew(t *testing.T) {
	t.Parallel()
	// The bubble ends only when all workers have: none stays for ever.
	synctest.Test(t, func(t *testing.T) {
		c := newCrew()
		slow := make(chan struct{})
		go c.do(t.Context(), func() { <-slow })
		synctest.Wait()
		done := 0
		for range 3 { // a slow target holds up nobody
			c.do(t.Context(), func() { done++ })
			synctest.Wait()
		}
		if done != 3 {
			t.Errorf("%d jobs were done beside a slow one, want 3", done)
		}
		close(slow)
	})
}

func BenchmarkCrew(b *testing.B) {
	c := newCrew()
	b.ReportAllocs()
	for b.Loop() {
		c.do(b.Context(), func() { deep(64) })
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
