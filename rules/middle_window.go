package rules

import "time"

// middleWindow is the longest span that rules ask of what is held no longer than
// that: sums of seconds, and how many requests left the queue. It is 35 minutes,
// unless settings ask for more: what the headroom is predicted from may end that
// long ago, see poolHeadroom.tick.
func middleWindow(rules map[string]*settings) time.Duration {
	load := rules[loadHeadroomLow]
	longest := max(residencyWindow, rules[prefillSaturatedName].duration("window"),
		load.duration("window")+scaled(headroomEvery, load.timeScale), scaled(demandSlot, rules[demandGrowthName].timeScale))
	return min(longest, longWindow)
}
