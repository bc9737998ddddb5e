package score

import (
	"slices"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/rules"
)

// kind is what a detector is there for.
type kind int

const (
	// kindCache tells of a cache that is worse than usual.
	kindCache kind = iota
	// kindQueue tells of a queue before it is there.
	kindQueue
	// kindDemand tells of what grows over weeks.
	kindDemand
)

// detector is one that is scored.
type detector struct {
	// Name is that in tables; Alert is the rule's, empty of a naive one.
	Name, Alert string
	kind        kind
	// excess is from which multiple of the usual miss ratio on it has something
	// to tell.
	excess float64
}

// scored are all detectors in the order of the tables: those of this build,
// then the naive ones.
func scored() []detector {
	var all []detector
	registered := rules.Registered().Alerts
	for _, d := range []detector{
		{Name: "D1 warn", Alert: "PrefixCacheMissRising", excess: fleet.ExcessFactor},
		{Name: "D1 page", Alert: "PrefixCacheCollapse", excess: fleet.ExcessFactor},
		{Name: "D1r", Alert: "ReprefillShareHigh", excess: fleet.ExcessFactor},
		{Name: "D2", Alert: "PrefixCacheDrift", excess: driftFactor},
		{Name: "D3", Alert: "LoadHeadroomLow", kind: kindQueue},
		{Name: "D4", Alert: "PrefillSaturated", kind: kindQueue},
		{Name: "D5", Alert: "KVSeatShortage", kind: kindQueue},
		{Name: "D6", Alert: "ReplicaOutlier", excess: fleet.ExcessFactor},
		{Name: "D8", Alert: "DemandGrowth", kind: kindDemand},
	} {
		if slices.ContainsFunc(registered, func(a rules.AlertInfo) bool { return a.Name == d.Alert }) {
			all = append(all, d)
		}
	}
	return append(all,
		detector{Name: naiveHit5m, excess: fleet.ExcessFactor},
		detector{Name: naiveHit1h, excess: fleet.ExcessFactor},
		detector{Name: naiveKV, kind: kindQueue},
		detector{Name: naiveTTFT, kind: kindQueue},
	)
}

// driftFactor is the excess that D2 fires on.
const driftFactor = 1.3

// fire is one alert of one detector, in simulated time.
type fire struct {
	at, end time.Duration
	cause   string
}
