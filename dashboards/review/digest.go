package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"kvwatch/rules/sizing"
)

const (
	// digestPools and digestAlerts are how many pools and names of alerts a digest
	// spells out, those that matter most; the rest is counted.
	digestPools  = 4
	digestAlerts = 4
	// A pool of which less than this was read has gaps worth a word.
	wellCovered = 0.98
)

// DigestTitle says in one line how the period was.
func (r *Review) DigestTitle() string {
	firing := 0
	for _, i := range r.Incidents {
		if i.ResolvedAt == nil && rank(i.Severity) >= rank("warning") {
			firing++
		}
	}
	switch {
	case firing > 0:
		return fmt.Sprintf("kvwatch digest: %s now", plural(firing, "alert fires", "alerts fire"))
	case len(r.Episodes) > 0:
		return fmt.Sprintf("kvwatch digest: well now; %s since %s", plural(len(r.Episodes), "incident", "incidents"), moment(r.From))
	case len(r.Pools) == 0:
		return "kvwatch digest: nothing was measured"
	default:
		return "kvwatch digest: all is well"
	}
}

// Digest is the period in at most a dozen lines, each of which names first what it
// is about: what fires and fired, each pool, plans, the record.
func (r *Review) Digest() []string {
	lines := []string{r.firedLine()}
	pools := slices.Clone(r.Pools)
	slices.SortStableFunc(pools, func(a, b Pool) int { return cmp.Compare(r.trouble(b.Pool), r.trouble(a.Pool)) })
	for i := range pools {
		if i == digestPools && len(pools) > digestPools+1 {
			lines = append(lines, fmt.Sprintf("Beside them: %d more pools, %s of them without any alert", len(pools)-i, countQuiet(r, pools[i:])))
			break
		}
		lines = append(lines, pools[i].Pool+": "+pools[i].digest())
	}
	lines = append(lines, r.planLine(), r.recordLine())
	return slices.DeleteFunc(lines, func(s string) bool { return s == "" })
}

func countQuiet(r *Review, pools []Pool) string {
	quiet := 0
	for i := range pools {
		if r.trouble(pools[i].Pool) == 0 {
			quiet++
		}
	}
	if quiet == len(pools) {
		return "all"
	}
	return fmt.Sprint(quiet)
}

// rank orders severities.
func rank(severity string) int {
	switch severity {
	case "critical":
		return 3
	case "warning":
		return 2
	default:
		return 1
	}
}

// trouble is how much a pool's alerts matter: the worst that fires now comes first.
func (r *Review) trouble(pool string) int {
	most := 0
	for _, i := range r.Incidents {
		if i.Pool != pool {
			continue
		}
		weight := rank(i.Severity)
		if i.ResolvedAt == nil {
			weight += 3
		}
		most = max(most, weight)
	}
	return most
}

// firedLine says what fires, then what fired, by name: how often and how long.
func (r *Review) firedLine() string {
	if len(r.Incidents) == 0 {
		return "Fired: nothing"
	}
	all := r.fired()
	var parts []string
	for i, n := range all {
		if i == digestAlerts {
			parts = append(parts, "and "+plural(len(all)-i, "other kind", "other kinds"))
			break
		}
		part := n.name
		if n.times > 1 {
			part = fmt.Sprintf("%d × %s", n.times, n.name)
		}
		part += " (" + length(n.lasted)
		if n.open > 0 {
			part += ", fires now"
		}
		parts = append(parts, part+")")
	}
	return "Fired: " + strings.Join(parts, ", ")
}

// firedAlert is how often an alert fired, and how long in all.
type firedAlert struct {
	name, severity string
	times, open    int
	lasted         time.Duration
}

// fired lists the alerts by name: what fires at the end first, then the worst.
func (r *Review) fired() []*firedAlert {
	byName := map[string]*firedAlert{}
	var all []*firedAlert
	for _, i := range r.Incidents {
		n := byName[i.Alert]
		if n == nil {
			n = &firedAlert{name: i.Alert, severity: i.Severity}
			byName[i.Alert] = n
			all = append(all, n)
		}
		end := r.To
		if i.ResolvedAt != nil {
			end = *i.ResolvedAt
		} else {
			n.open++
		}
		n.times++
		if rank(i.Severity) > rank(n.severity) {
			n.severity = i.Severity
		}
		n.lasted += max(end.Sub(later(i.FiredAt, r.From)), 0)
	}
	slices.SortStableFunc(all, func(a, b *firedAlert) int {
		return cmp.Or(cmp.Compare(b.open, a.open), cmp.Compare(rank(b.severity), rank(a.severity)), cmp.Compare(b.lasted, a.lasted))
	})
	return all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// digest is how a pool is now, and was.
func (p *Pool) digest() string {
	parts := []string{plural(p.Engines, "engine", "engines"), number(p.Requests) + " requests"}
	if p.PromptTokens != nil && *p.PromptTokens > 0 {
		part := "cache hits " + share(1 - *p.ComputedTokens / *p.PromptTokens)
		if p.UsualMiss != nil && p.Excess > 0 {
			part += " (usual " + share(1-*p.UsualMiss) + ")"
		}
		parts = append(parts, part)
	} else {
		parts = append(parts, "cache hits unknown")
	}
	if p.TTFTP95 != nil {
		parts = append(parts, "first token P95 "+seconds(*p.TTFTP95))
	}
	if kv, ok := p.peak(peakKV); ok {
		parts = append(parts, "KV at most "+share(kv.Value))
	}
	if waiting, ok := p.peak(peakWaiting); ok && waiting.Value >= 1 {
		parts = append(parts, fmt.Sprintf("up to %s waited", number(waiting.Value)))
	} else if ok {
		parts = append(parts, "nothing queued")
	}
	return strings.Join(parts, ", ")
}

// planLine says what drifted from the plans; "" without plans.
func (r *Review) planLine() string {
	if len(r.Plans) == 0 {
		return ""
	}
	var parts []string
	unknown := 0
	for _, l := range r.Plans {
		var drifted []string
		for _, a := range l.Assumptions {
			switch a.Verdict {
			case sizing.Drifted:
				drifted = append(drifted, driftText(a))
			case sizing.CannotTell:
				unknown++
			}
		}
		if len(drifted) == 0 {
			continue
		}
		part := l.Plan + " (" + strings.Join(drifted[:min(len(drifted), 3)], ", ")
		if more := len(drifted) - 3; more > 0 {
			part += fmt.Sprintf(" and %d more", more)
		}
		part += ")"
		if at := slices.IndexFunc(l.Drift, func(c sizing.Change) bool { return c.Resource == sizing.ResourceReplicas }); at >= 0 {
			part += fmt.Sprintf(" needs %s replicas, not %s", number(l.Drift[at].To), number(l.Drift[at].From))
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return fmt.Sprintf("Plans: nothing drifted, %s cannot be told", plural(unknown, "assumption", "assumptions"))
	}
	return "Drifted: " + strings.Join(parts, "; ")
}

// driftText says what an assumption that drifted is now.
func driftText(a sizing.Judged) string {
	return fmt.Sprintf("%s is %s, not %s", shortName(a.Name), number(*a.Live), number(a.Planned))
}

// shortName is an assumption without its sections, in words.
func shortName(name string) string {
	return strings.ReplaceAll(name[strings.LastIndexByte(name, '.')+1:], "_", " ")
}

// assumptionName is an assumption in words, with the profile that it is about.
func assumptionName(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) == 4 && parts[1] == "profiles" {
		return shortName(name) + " of " + parts[2]
	}
	return shortName(name)
}

// resourceName is a resource in words.
func resourceName(resource string) string {
	switch resource {
	case sizing.ResourceGPUs:
		return "GPUs"
	case sizing.ResourceKVGB:
		return "GB of KV memory"
	default:
		return strings.ReplaceAll(resource, "_", " ")
	}
}

// recordLine says how far the record can be trusted.
func (r *Review) recordLine() string {
	var parts []string
	for _, name := range sortedKeys(r.Data.Covered) {
		if c := r.Data.Covered[name]; c < wellCovered {
			parts = append(parts, fmt.Sprintf("%s was read %s of the time", name, share(c)))
		}
	}
	if more := len(parts) - digestPools; more > 0 {
		parts = append(parts[:digestPools], fmt.Sprintf("and %d more not always", more))
	}
	if n := len(r.Data.Notes); n > 0 {
		parts = append(parts, plural(n, "gap or fault", "gaps or faults"))
	}
	if n := len(r.Data.Learning); n > 0 {
		parts = append(parts, plural(n, "detector still learns", "detectors still learn"))
	}
	switch {
	case len(r.Data.Covered) == 0:
		parts = append([]string{"nothing was read"}, parts...)
	case len(parts) == 0:
		return "Record: complete"
	}
	return "Record: " + strings.Join(parts, ", ")
}

// Title names the review and its period.
func (r *Review) Title() string {
	return fmt.Sprintf("Capacity review, %s to %s", r.From.Format("2 January"), r.To.Format("2 January 2006"))
}
