package web

import (
	"testing"
	"time"

	"kvwatch/alerting"
)

// What nobody is told of is shown all the same, with the reason.
func TestMutedAlertsAreShown(t *testing.T) {
	t.Parallel()
	o := newFixture(t, time.Minute).options()
	o.Muted = func(lbls map[string]string, now time.Time) alerting.Muting {
		if lbls["alertname"] != "QueueGrowing" || !now.Equal(fixtureNow) {
			return alerting.Muting{}
		}
		return alerting.Muting{InhibitedBy: "PrefixCacheCollapse (pool agents)", Text: "Inhibited by PrefixCacheCollapse (pool agents), which fires"}
	}
	s := serve(t, o)
	f := fleetOf(t, s)
	if len(f.Alerts.Firing) != 2 {
		t.Fatalf("%d alerts fire, want 2", len(f.Alerts.Firing))
	}
	for _, a := range f.Alerts.Firing {
		if muted := a.Muted != nil; muted != (a.Name == "QueueGrowing") {
			t.Errorf("%s is muted: %t", a.Name, muted)
		}
	}
	holds(t, browse(t, s.URL), "<b>Nobody is told: </b>Inhibited by PrefixCacheCollapse (pool agents), which fires")
}
