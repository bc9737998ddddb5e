package rules

import (
	"fmt"
	"time"
)

const sessionAffinityLost = "SessionAffinityLost"

func init() {
	alert(Alerting{
		Name:     sessionAffinityLost,
		Help:     "Calls of a pool's sessions go to another replica than the call before and compute again what that one had in its cache, by 4 full prompts beyond the usual. From logs of calls; within half an hour of a restart or deploy it is information.",
		Severity: SeverityWarning,
		Settings: lossSettings(4, 2),
		Pool:     func(s *settings) detector[PoolWindow] { return &affinityLost{newCallLosses(s)} },
	})
}

// causeRouting is what D7 tells where calls moved.
const causeRouting = "routing"

// affinityLost is D7 of the cause routing.
type affinityLost struct{ callLosses }

// Judge implements detector.
func (d *affinityLost) Judge(w PoolWindow, firing time.Time) Verdict {
	p, r := w.calls()
	if p == nil {
		return unknown(r.Reason)
	}
	d.refresh(w, firing)
	heavy := w.callPrompt(p)
	for c := range p.placedAfter(d.resumed) {
		lost := 0.0
		if c.moved {
			lost = c.lost
		}
		d.take(c, lost, heavy, !firing.IsZero())
	}
	if phase, text := d.unready(w, p); text != "" {
		return Verdict{Phase: phase, Text: text}
	}
	v := Verdict{
		Active: d.holds(firing, heavy), Phase: PhaseWatching, Value: d.S, Numbers: d.figures(),
		Text: fmt.Sprintf("%.1f of %g full prompts lost to other replicas; %d of %s lost something", d.S, d.fire, d.Losing, plural(d.Calls, "call")),
		Over: overText(firing, "Pool %s: sessions stay on their replica again", w.pool.name),
	}
	if v.Active {
		d.tell(w, &v, heavy)
	}
	return v
}

func (d *affinityLost) tell(w PoolWindow, v *Verdict, heavy float64) {
	v.Since = time.UnixMilli(d.Onset).UTC()
	v.Summary = fmt.Sprintf("Pool %s: sessions lost their replica: %s computed again since %s", w.pool.name, plural(d.Losing, "call"), clock(v.Since))
	v.Evidence = Evidence{
		Seen: fmt.Sprintf("Since %s (%s) %d of %s reached another replica than the session's call before and lost %s of %s prompt tokens.",
			clock(v.Since), spell(w.now.Sub(v.Since)), d.Losing, plural(d.Calls, "call"), amount(d.Lost), amount(d.Prompted)),
		Against:    d.against(heavy),
		Cause:      causeRouting,
		CauseText:  "Routing: the router no longer keeps a session on one replica: affinity switched off or expired, a restart that forgot the map, or a replica that was put aside.",
		Cost:       d.cost(heavy),
		Next:       "Look at the router: session affinity (its key, its store, its expiry), restarts of the gateway, deployments that were put aside. Is the store of the map (Redis) there, and shared by all workers?",
		Confidence: confidence(float64(d.Calls)), Numbers: v.Numbers,
	}
	if change := w.knownChange(d.LastLoss, d.scale); change != "" {
		v.Severity = SeverityInfo
		v.Evidence.CauseText = fmt.Sprintf("%s: sessions move then, and each computes its context once more. It becomes a warning if calls go on to move for longer than %s after that. ",
			change, spell(scaled(restartWindow, d.scale))) + v.Evidence.CauseText
	}
}
