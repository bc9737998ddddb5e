package score

import (
	"fmt"
	"slices"
	"strings"

	"kvwatch/cmd/fleetsim/fleet"
)

// variantOf is the scenario that another one is a variant of; empty for what is
// none.
func variantOf(scenario string) string {
	for _, s := range fleet.Scenarios() {
		if s.Name == scenario {
			return s.VariantOf
		}
	}
	return ""
}

// apart are the scores without those of variants, which count in no total: they
// are the same runs once more.
func (r Result) apart() Result {
	r.Incidents = withoutVariants(r.Incidents)
	r.Quiet = withoutVariants(r.Quiet)
	r.Queues = withoutVariants(r.Queues)
	return r
}

func withoutVariants[S interface{ subject() Subject }](all []S) []S {
	return slices.DeleteFunc(slices.Clone(all), func(s S) bool { return variantOf(s.subject().Scenario) != "" })
}

// variantTargets are what is wanted of variants.
func variantTargets() []target {
	ordinary, counters, sums := entry{"healthy_week_counters", "B"}, entry{"near_knee_counters", "B"}, entry{"near_knee_sums", "B"}
	return []target{
		quietOf("D1 warn", "counters of before vLLM 0.27", ordinary, 0.25),
		quietOf("D1 warn", "the same near the knee", counters, 0.25),
		quietOf("D1 page", "the same near the knee", counters, 0.25),
		quietOf("D1 warn", "sums of histograms beside them, near the knee", sums, 0),
		quietOf("D1 page", "sums of histograms beside them, near the knee", sums, 0),
		quietOf("D1 warn", "read once a minute", entry{"healthy_week_by_minute", "A"}, 0.05),
		quietOf("D1 page", "read once a minute", entry{"healthy_week_by_minute", "A"}, 0.02),
		quietOf("D3", "read once a minute", entry{"healthy_week_by_minute", "A"}, 0.08),
		later("D1 warn", "affinity lost, read once a minute", "affinity_random", "affinity_random_by_minute"),
		later("D1 warn", "a quarter misrouted, read once a minute", "affinity_quarter", "affinity_quarter_by_minute"),
	}
}

// quietOf is a target of false alarms in one scenario.
func quietOf(name, what string, e entry, most float64) target {
	return target{fmt.Sprintf("%s: false alarms per replica-week, %s", name, what), fmt.Sprintf("≤ %.2f", most), func(r Result) (string, bool) {
		sum := r.quietSum(name, e)
		return counted(sum.False, sum.ReplicaWeeks, most)
	}}
}

// later is a target of the time to detect beside that of what it is a variant of.
func later(name, what, usual, variant string) target {
	return target{fmt.Sprintf("%s: %s", name, what), "100 %, ≤ 1 min more", func(r Result) (string, bool) {
		before, s := of(r.Incidents, entry{usual, "A"}, name), of(r.Incidents, entry{variant, "A"}, name)
		if before == nil || s == nil || len(before.Minutes) == 0 || len(s.Minutes) == 0 {
			return "", false
		}
		more := quantile(s.Minutes, 0.5) - quantile(before.Minutes, 0.5)
		return fmt.Sprintf("%s, %+.1f min", percent(s.Found, s.Incidents), more), s.Found == s.Incidents && more <= 1
	}}
}

// writeVariants writes each variant below what it is one of.
func (r Result) writeVariants(b *strings.Builder) {
	is := func(s Subject) bool { return variantOf(s.Scenario) != "" }
	incidents := entriesOf(r.Incidents, func(s IncidentScore) bool { return s.Cause != "" && is(s.Subject) })
	quiet := entriesOf(r.Quiet, func(s QuietScore) bool { return is(s.Subject) && !slices.Contains(incidents, s.entry()) })
	if len(quiet)+len(incidents) == 0 {
		return
	}
	b.WriteString("## Older versions of vLLM, and pages that are read once a minute\n\n" +
		"Runs of scenarios above once more, in no total. Before vLLM 0.27 a request that waits for memory counts as looked up again at every step; `counters` has nothing else (as before 0.13), `sums` the histogram of computed tokens too (as before 0.16). `near_knee` is the same week with a newer version.\n\n")
	r.writeTargetTable(b, variantTargets())
	names := r.detectors(kindCache)
	head(b, append([]string{"incident", "runs"}, names...)...)
	for _, e := range besideUsual(incidents) {
		s := of(r.Incidents, e, names[0])
		if s == nil {
			continue
		}
		cells := []string{e.String(), fmt.Sprint(s.Incidents)}
		for _, name := range names {
			cells = append(cells, foundText(of(r.Incidents, e, name)))
		}
		row(b, cells...)
	}
	names = r.detectors(anyKind)
	b.WriteString("\nQuiet time, false + true fires per replica-week; the restarts are in it.\n\n")
	head(b, append([]string{"scenario", "replica-weeks"}, names...)...)
	for _, e := range besideUsual(quiet) {
		if of(r.Quiet, e, names[0]) != nil {
			r.quietRow(b, e.String(), names, e)
		}
	}
	b.WriteString("\n")
}

// besideUsual puts what each is a variant of in front of it, once.
func besideUsual(variants []entry) []entry {
	var all []entry
	for _, e := range variants {
		if usual := (entry{variantOf(e.scenario), e.profile}); !slices.Contains(all, usual) {
			all = append(all, usual)
		}
		if !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all
}
