package rules

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// wholeHistory is what a ring must tell, by hand: all pages that there ever were.
type wholeHistory struct {
	times []int64
	pages []map[column]float64
}

// at is the last page at or before t among those that the ring still has.
func (h *wholeHistory) at(t int64, r *ring) int {
	i := len(h.times) - r.n
	for i+1 < len(h.times) && h.times[i+1] <= t {
		i++
	}
	return i
}

// TestRing plays random lives of a ring: columns that come late, counts that are
// not whole, that jump far or fall, pages that come faster or slower or after
// months, and holds windows and gauges against the whole history.
func TestRing(t *testing.T) {
	t.Parallel()
	widened, rebased := 0, 0
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		w, b := playRing(t, rnd)
		widened, rebased = widened+w, rebased+b
	}
	if widened < 20 || rebased < 20 {
		t.Errorf("%d columns were made wide and %d got another base: the lives are too quiet", widened, rebased)
	}
}

func playRing(t *testing.T, rnd *rand.Rand) (widened, rebased int) {
	t.Helper()
	const horizon = 10 * time.Minute
	r, h := newRing(horizon), &wholeHistory{}
	var gauges, sums []column
	now, values := testStart.UnixMilli(), map[column]float64{}
	interval := int64(15_000)
	rough, fast := rnd.IntN(3) == 0, rnd.IntN(3) == 0
	for range 250 {
		if rnd.IntN(40) == 0 {
			interval = 5000 * (1 + rnd.Int64N(10))
		}
		now += interval + rnd.Int64N(2000)
		if rnd.IntN(200) == 0 {
			now += (60 * 24 * time.Hour).Milliseconds()
		}
		for len(sums) == 0 || rnd.IntN(10) == 0 {
			gauges, sums = append(gauges, r.addColumn(math.NaN())), append(sums, r.addCount())
		}
		r.push(now)
		page := map[column]float64{}
		for _, c := range gauges {
			page[c] = math.NaN()
			if rnd.IntN(5) > 0 {
				page[c] = rnd.NormFloat64()
				r.put(c, page[c])
			}
		}
		for _, c := range sums {
			switch n := rnd.IntN(100); {
			case n == 0 && rough:
				values[c] += rnd.Float64()
			case n == 1 && rough:
				values[c] -= 1000
			case n == 2 && rough:
				values[c] += 1 << 33
			case n < 50 && fast:
				values[c] += float64(rnd.IntN(1 << 27))
			default:
				values[c] += float64(rnd.IntN(10_000))
			}
			page[c] = values[c]
			r.put(c, page[c])
		}
		h.times, h.pages = append(h.times, now), append(h.pages, page)
		checkRing(t, rnd, r, h, gauges, sums)
	}
	if most := int(r.horizon/5000) + 16; len(r.times) > most {
		t.Errorf("the ring has room for %d pages, more than %d", len(r.times), most)
	}
	for _, k := range r.odd {
		if k.wide.number != 0 {
			widened++
		} else {
			rebased++
		}
	}
	return widened, rebased
}

func checkRing(t *testing.T, rnd *rand.Rand, r *ring, h *wholeHistory, gauges, sums []column) {
	t.Helper()
	last := h.times[len(h.times)-1]
	if lost := len(h.times) - r.n - 1; lost >= 0 && last-h.times[lost] <= r.horizon {
		t.Fatalf("it lost a page of %d ms ago", last-h.times[lost])
	}
	to := last - rnd.Int64N(120_000)
	from := to - rnd.Int64N(r.horizon)
	if rnd.IntN(3) == 0 {
		to = last
	}
	for _, c := range sums {
		want := h.pages[h.at(to, r)][c] - h.pages[h.at(from, r)][c]
		if got := r.increase(c, from, to); got != want {
			t.Fatalf("increase of %d is %v, want %v", c.number, got, want)
		}
	}
	for _, c := range gauges {
		i := h.at(to, r)
		want, had := h.pages[i][c]
		ok := had && !math.IsNaN(want) && h.times[i] <= to && to-h.times[i] <= 60_000
		if got, known := r.gaugeAt(c, to, 60_000); known != ok || ok && got != want {
			t.Fatalf("gauge %d is %v (%t), want %v (%t)", c.number, got, known, want, ok)
		}
	}
}
