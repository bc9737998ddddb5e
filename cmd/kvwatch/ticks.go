package main

import "time"

// onTimeWithin is how far from its due time a tick may be and still count as on time.
const onTimeWithin = 100 * time.Millisecond

// nextTick is when rules are to be evaluated next, at a multiple of the interval:
// after the tick before, and not in the past.
func nextTick(before, now time.Time, interval time.Duration) time.Time {
	due := before.Truncate(interval).Add(interval)
	if due.Before(now) {
		due = now.Truncate(interval).Add(interval)
	}
	return due
}

// onTime is the time of a tick that was due and came now: when it was due, unless
// that is too far off, because the machine is busy or its clock was set. A
// millisecond now and then would cost history a byte and a half for each sample:
// times that are evenly apart take one bit.
func onTime(due, now time.Time) time.Time {
	if now.Sub(due).Abs() <= onTimeWithin {
		return due
	}
	return now
}
