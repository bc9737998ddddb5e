package rules

import "time"

// middleWindow is the longest span that rules ask of what is held no longer than
// that: sums of seconds, and how many requests left the queue. It is half an hour,
// unless settings ask for more.
func middleWindow(rules map[string]*settings) time.Duration {
	longest := max(residencyWindow, rules[prefillSaturatedName].duration("window"),
		rules[loadHeadroomLow].duration("window"), scaled(demandSlot, rules[demandGrowthName].timeScale))
	return min(longest, longWindow)
}
