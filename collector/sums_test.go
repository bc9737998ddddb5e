package collector

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A tally is what one page of LiteLLM counts, user by user.
type tally map[string]float64

func (c tally) page(start int) string {
	var b strings.Builder
	if start > 0 {
		fmt.Fprintf(&b, "%s %d\n", ProcessStart, start)
	}
	fmt.Fprintln(&b, "litellm_in_flight_requests 1")
	for user, n := range c { // in any order
		fmt.Fprintf(&b, "litellm_input_tokens_metric_total{end_user=%q,requested_model=\"coder\"} %v\n", user, n)
	}
	return b.String()
}

const sumOfTally = `litellm_input_tokens_metric_total{requested_model="coder"}`

func TestSums(t *testing.T) {
	t.Parallel()
	type page struct {
		start int // of the process; 0 is not exposed
		users tally
		want  float64 // 0 is absent
	}
	tests := []struct {
		name  string
		pages []page
	}{
		{"increases", []page{
			{5, tally{"a": 10, "b": 20}, 30},
			{5, tally{"a": 11, "b": 25}, 36},
			{5, tally{"a": 11, "b": 25, "c": 4}, 40},
		}},
		{"a user is evicted and starts again", []page{
			{5, tally{"a": 100, "b": 20}, 120},
			{5, tally{"b": 21}, 121},
			{5, tally{"b": 22}, 122},
			{5, tally{"a": 3, "b": 22}, 125},
			{5, tally{"a": 5, "b": 22}, 127},
		}},
		{"a user starts again between two pages", []page{
			{5, tally{"a": 100, "b": 20}, 120},
			{5, tally{"a": 4, "b": 20}, 124},
		}},
		{"a user was only away", []page{
			{5, tally{"a": 100, "b": 20}, 120},
			{5, tally{"b": 20}, 120},
			{5, tally{"a": 101, "b": 20}, 121},
		}},
		{"the last user is evicted", []page{
			{5, tally{"a": 100}, 100},
			{5, tally{}, 0},
			{5, tally{"a": 2}, 102},
		}},
		{"a worker's part is lost", []page{
			{0, tally{"a": 10000, "b": 500}, 10500},
			{0, tally{"a": 8700, "b": 500}, 10500},
			{0, tally{"a": 8710, "b": 500}, 10510},
		}},
		{"a worker's part of all counters is lost", []page{
			{0, tally{"a": 10000, "b": 500}, 10500},
			{0, tally{"a": 8700, "b": 400}, 10500},
			{0, tally{"a": 8710, "b": 401}, 10511},
		}},
		{"restart, by the process' start", []page{
			{5, tally{"a": 100, "b": 20}, 120},
			{5, tally{"b": 20}, 120},
			{9, tally{"b": 30}, 30},
			{9, tally{"a": 1, "b": 31}, 32},
		}},
		{"restart, without the process' start", []page{
			{0, tally{"a": 100, "b": 20, "c": 30}, 150},
			{0, tally{"a": 3}, 3},
			{0, tally{"a": 4, "b": 1}, 5},
		}},
		{"restart to counters that do not exist yet", []page{
			{0, tally{"a": 100, "b": 20}, 120},
			{0, tally{}, 0},
			{0, tally{"a": 1}, 1},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newTestReader(SourceLiteLLM)
			for i, p := range tt.pages {
				if got := r.page(t, p.users.page(p.start))[sumOfTally]; got != p.want {
					t.Errorf("page %d: %v, want %v", i, got, p.want)
				}
				if gone := len(r.stale) > 0; gone != (p.want == 0) {
					t.Errorf("page %d: stale %v", i, r.stale)
				}
			}
		})
	}
}

// Whatever users come and go, the sum grows by what they did and by nothing
// else, also where their numbers have fractions.
func TestSumsAddUp(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	r := newTestReader(SourceLiteLLM)
	users := tally{"stays": 1}
	truth, before := 1.0, 0.0
	for i := range 500 {
		for range 5 {
			user, more := fmt.Sprint("user", random.IntN(40)), random.Float64()
			users[user] += more
			truth += more
		}
		if i%3 == 0 {
			for user := range users {
				if user != "stays" && random.IntN(4) == 0 {
					delete(users, user)
				}
			}
		}
		// What is counted and evicted between two pages nobody sees.
		got := r.page(t, users.page(5))[sumOfTally]
		if got < before {
			t.Fatalf("page %d: fell from %v to %v", i, before, got)
		}
		if got > truth*(1+1e-9) {
			t.Fatalf("page %d: %v of %v", i, got, truth)
		}
		before = got
	}
	if before < 0.8*truth {
		t.Errorf("%v of %v", before, truth)
	}
}

// The order of the lines is no reason for a counter to fall, not even by a bit.
func TestSumsDoNotSlip(t *testing.T) {
	t.Parallel()
	r := newTestReader(SourceLiteLLM)
	users := tally{}
	for i := range 200 {
		users[fmt.Sprint("user", i)] = float64(i) + 0.1/float64(i+1)
	}
	before := 0.0
	for range 50 {
		if got := r.page(t, users.page(5))[sumOfTally]; got < before {
			t.Fatalf("fell from %v to %v", before, got)
		} else {
			before = got
		}
	}
}
