package alerting

import (
	"fmt"
	"testing"
	"time"

	"kvwatch/rules"
)

// TestClockJumps sets the clock forwards and back in the middle of an incident, in
// one daemon and over a restart: nothing is lost, at most one repeat is told, and
// what joins is told no later than after the usual wait.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	const repeat = "firing: +A"
	for _, tt := range []struct {
		name string
		jump time.Duration
		want []string // at the first look after the jump
	}{
		{"none", 0, nil},
		{"a second on", time.Second, nil},
		{"an hour on: it repeats", time.Hour, []string{repeat}},
		{"a year on", 365 * 24 * time.Hour, []string{repeat}},
		{"a second back", -time.Second, nil},
		{"half an hour back", -30 * time.Minute, nil},
		{"a year back: further than any interval", -365 * 24 * time.Hour, []string{repeat}},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %t", tt.name, restart), func(t *testing.T) {
				t.Parallel()
				h := newHook(t)
				dir := t.TempDir()
				d := open(t, dir, hookConfig(h))
				a := fires("A", "warning", t0, "pool", "chat")
				look := func(now time.Time, alerts ...rules.Alert) {
					t.Helper()
					d.Dispatch(t.Context(), now, alerts)
					d.Tick(t.Context(), now)
				}
				look(t0, a)
				look(t0.Add(5*time.Second), a)
				h.want(t, "before the jump", "firing: +A")
				if restart {
					if err := d.Close(); err != nil {
						t.Fatal(err)
					}
					d = open(t, dir, hookConfig(h))
				}
				now := t0.Add(10 * time.Second).Add(tt.jump)
				look(now, a)
				now = now.Add(time.Minute) // the group_interval
				look(now, a)
				h.want(t, "after the jump", tt.want...)

				b := fires("B", "critical", now, "pool", "chat")
				other := fires("C", "critical", now, "pool", "other")
				look(now, a, b, other)
				now = now.Add(5 * time.Second)
				look(now, a, b, other)
				now = now.Add(time.Minute)
				look(now, a, b, other)
				got := h.take()
				if len(got) != 2 || got[0] != "firing: +C" && got[1] != "firing: +C" || got[0] != "firing: +B +A" && got[1] != "firing: +B +A" {
					t.Errorf("what joins: %v", got)
				}
				over := now.Add(time.Second)
				now = now.Add(2 * time.Minute)
				look(now, ends(a, over), ends(b, over), ends(other, over))
				now = now.Add(2 * time.Minute)
				look(now)
				if got := h.take(); len(got) != 2 {
					t.Errorf("the ends: %v", got)
				}
				if len(d.groups) != 0 {
					t.Errorf("%d incidents are left", len(d.groups))
				}
			})
		}
	}
}

// TestClockJumpsOverASilence lets the clock leave the time of a silence and come
// back: by the clock it is over, and then it holds again.
func TestClockJumpsOverASilence(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	dir := t.TempDir()
	d := open(t, dir, hookConfig(h))
	_, err := d.Silence(Silence{
		Matchers: []SilenceMatcher{{Name: "alertname", Value: "A"}}, StartsAt: t0, EndsAt: t0.Add(time.Hour), CreatedBy: "ops", Comment: "x",
	}, t0)
	if err != nil {
		t.Fatal(err)
	}
	a := fires("A", "warning", t0, "pool", "chat")
	look := func(now time.Time) {
		d.Dispatch(t.Context(), now, []rules.Alert{a})
		d.Tick(t.Context(), now)
	}
	look(t0)
	look(t0.Add(5 * time.Second))
	h.want(t, "silenced")
	look(t0.Add(2 * time.Hour))
	h.want(t, "the clock is past its end", "firing: +A")
	look(t0.Add(10 * time.Minute))
	look(t0.Add(12 * time.Minute))
	h.want(t, "the clock is back, and so is the silence")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, hookConfig(h))
	look(t0.Add(13 * time.Minute))
	look(t0.Add(15 * time.Minute))
	h.want(t, "after a restart too")
	look(t0.Add(61 * time.Minute))
	look(t0.Add(4 * time.Hour))
	h.want(t, "at its end it is told again, as the repeat interval is over", "firing: +A")
}
