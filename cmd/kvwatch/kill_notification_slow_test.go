//go:build slow

package main

import "testing"

// TestKillAnywhereOften kills each step on the way of a notification 25 times.
func TestKillAnywhereOften(t *testing.T) {
	t.Parallel()
	killAnywhere(t, 200)
}
