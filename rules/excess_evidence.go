package rules

import (
	"fmt"
	"strings"
	"time"
)

// recentWindow is the span of the miss ratio that the evidence quotes.
const recentWindow = 10 * time.Minute

// recentSpan is that window scaled, but long enough to hold a dozen scrapes.
func (c *cacheExcess) recentSpan(w PoolWindow) time.Duration {
	return max(scaled(recentWindow, c.conf.scale), 12*w.interval)
}

// verdict says where a level stands.
func (c *cacheExcess) verdict(w PoolWindow, level int, firing time.Time) Verdict {
	if text := c.blind(w); text != "" {
		v := unknown(text)
		v.Numbers = c.numbers(w, level)
		return v
	}
	v := Verdict{Active: c.judge(w, level, firing)}
	v.Phase, v.Text = c.standing(w, level)
	v.Numbers = c.numbers(w, level)
	t := c.track()
	if t == nil {
		return v
	}
	l := &t.Levels[level]
	heavy := c.prompt.tokens()
	if heavy > 0 {
		v.Value = l.S / heavy
	}
	if !v.Active {
		if !firing.IsZero() {
			v.Over = c.over(w)
		}
		return v
	}
	if l.Cause == nil {
		cause := c.cause(w, level, l.Onset)
		l.Cause = &cause
	}
	v.Since = time.UnixMilli(l.Onset).UTC()
	if !t.Baseline.valid() {
		c.tellLearning(w, &v)
		return v
	}
	c.tell(w, level, &v)
	return v
}

// blind says why nothing can be judged now, "" where it can: no engine was
// read lately, or none of those that were has the source that is judged.
func (c *cacheExcess) blind(w PoolWindow) string {
	switch {
	case w.Fresh() == 0:
		return reasonNobodyRead
	case c.active < 0 || offered(w, c.active) == 0:
		return "no engine tells how many prompt tokens it found in its cache"
	default:
		return ""
	}
}

// over says how things are once an alert is over.
func (c *cacheExcess) over(w PoolWindow) string {
	t := c.track()
	now := missedText(c.recent(w, c.recentSpan(w)))
	if !t.Baseline.valid() {
		return fmt.Sprintf("Pool %s is quiet while its usual miss ratio is learned: now %s", w.pool.name, now)
	}
	return fmt.Sprintf("Pool %s no longer computes prompts again beyond its usual: now %s, usual are %s", w.pool.name, now, percent(t.Baseline.usual()))
}

// missedText says how much of what was prompted was missed, as far as that is
// known.
func missedText(ratio, prompted float64) string {
	if prompted == 0 {
		return "nothing was prompted lately"
	}
	return percent(ratio) + " missed"
}

// standing says in plain words where the detector stands when nothing fires.
func (c *cacheExcess) standing(w PoolWindow, level int) (phase, text string) {
	if text := c.blind(w); text != "" {
		return PhaseUnknown, text
	}
	t := c.track()
	heavy := c.prompt.tokens()
	switch {
	case level == levelPage && c.active == sourceCounters:
		return PhaseUnknown, "capped at warning: " + untrustedText
	case t.contaminated:
		return PhaseUnknown, "the cache counters count more tokens than were prompted: " + untrustedText
	case heavy == 0:
		return PhaseLearning, c.learningPrompts()
	case !t.Baseline.valid():
		return PhaseLearning, fmt.Sprintf("learning, %d of %d hours", len(t.Baseline.Entries), baselineValid)
	}
	l := t.Levels[level]
	text = fmt.Sprintf("excess %.1f of %g full prompts; usual miss ratio %s", l.S/heavy, c.conf.levels[level].prompts, percent(t.Baseline.usual()))
	if _, prompted := c.recent(w, scaled(learnWindow, c.conf.scale)); prompted < baselineTokens*heavy {
		text += "; insufficient evidence: too little was prompted within the last hour to tell"
	}
	return PhaseWatching, text
}

// learningPrompts says how far P is learned.
func (c *cacheExcess) learningPrompts() string {
	return fmt.Sprintf("learning the usual size of prompts, %d of %d calls", int(c.prompt.Calls), heavyCalls)
}

const untrustedText = "only prefix_cache_queries and prefix_cache_hits are there, and before vLLM 0.27 they count a waiting request again at every step, so that they are wrong when it matters; upgrade vLLM to 0.16 or later for prompt_tokens_cached"

// numbers are the figures of the level.
func (c *cacheExcess) numbers(w PoolWindow, level int) []Number {
	t := c.track()
	if t == nil {
		return nil
	}
	heavy := c.prompt.tokens()
	l := t.Levels[level]
	ns := []Number{
		{Name: "baseline_entries", Value: float64(len(t.Baseline.Entries)), Unit: "hours"},
		{Name: "heavy_prompt", Value: heavy, Unit: "tokens"},
	}
	if t.Baseline.valid() && heavy > 0 { // before that there is no excess over anything
		ns = append(ns,
			Number{Name: "excess", Value: l.S, Unit: "tokens"},
			Number{Name: "excess_prompts", Value: l.S / heavy, Unit: "prompts"},
			Number{Name: "threshold_prompts", Value: c.conf.levels[level].prompts, Unit: "prompts"})
	}
	if t.Baseline.valid() {
		ns = append(ns, Number{Name: "usual_miss_ratio", Value: t.Baseline.usual(), Unit: "ratio"})
	}
	if ratio, prompted := c.recent(w, c.recentSpan(w)); prompted > 0 {
		ns = append(ns, Number{Name: "miss_ratio", Value: ratio, Unit: "ratio"})
	}
	if l.FiredAt > 0 {
		ns = append(ns, Number{Name: "cost", Value: max(l.Cost, 0), Unit: "tokens"})
	}
	return ns
}

// tell writes the evidence of a level that holds.
func (c *cacheExcess) tell(w PoolWindow, level int, v *Verdict) {
	t := c.track()
	l, conf := t.Levels[level], c.conf.levels[level]
	heavy, usual := c.prompt.tokens(), t.Baseline.usual()
	window := c.recentSpan(w)
	ratio, prompted := c.recent(w, window)
	since := w.now.Sub(v.Since)

	v.Summary = fmt.Sprintf("Pool %s computes prompts again that its cache used to hold: %s, usual are %s",
		w.pool.name, missedText(ratio, prompted), percent(usual))
	recomputed := max(0, l.Recomputed)
	seen := []string{fmt.Sprintf("Since %s (%s) this pool recomputed %s prompt tokens more than %g times its usual (= %.0f full prompts).",
		clock(v.Since), spell(since), amount(recomputed), conf.kappa, recomputed/heavy)}
	if prompted > 0 {
		seen = append(seen, fmt.Sprintf("Miss ratio over %s: %s, usual %s.", spell(window), percent(ratio), percent(usual)))
	} else {
		seen = append(seen, fmt.Sprintf("Nothing was prompted for %s.", spell(window)))
	}
	if share, calls, ok := w.pool.share.share(w.ms, window); ok && w.pool.share.Baseline.valid() {
		seen = append(seen, fmt.Sprintf("Re-prefill share %.2f of %s with a long prompt (usual %.2f).", share, plural(int(calls), "call"), w.pool.share.Baseline.usual()))
	}
	if s := t.sharesText(level); s != "" {
		seen = append(seen, s)
	}
	if l.Cause.Residency > 0 {
		seen = append(seen, fmt.Sprintf("Residency before the onset: %s.", spellSeconds(l.Cause.Residency)))
	}
	if t.source == sourceCounters {
		seen = append(seen, "This alert is never more than a warning here: "+untrustedText+".")
	}
	v.Evidence = Evidence{
		Seen: strings.Join(seen, " "),
		Against: fmt.Sprintf("Usual miss ratio %s, the median of %s of traffic; fires at %g full prompts of %s tokens in excess of %g times that.",
			percent(usual), plural(len(t.Baseline.Entries), "hour"), conf.prompts, amount(heavy), conf.kappa),
		Cause: l.Cause.Name, CauseText: l.Cause.Text, RunnersUp: l.Cause.RunnersUp,
		Cost: c.cost(w, l.Cost), Next: nextSteps(l.Cause.Name), Confidence: c.confidence(w, v.Since),
		Numbers: v.Numbers,
	}
}

// tellLearning writes the evidence of a page before there is a baseline.
func (c *cacheExcess) tellLearning(w PoolWindow, v *Verdict) {
	window := scaled(learnWindow, c.conf.scale)
	ratio, prompted := c.recent(w, window)
	cause := c.track().Levels[levelPage].Cause
	v.Since = w.now
	v.Value = ratio
	v.Summary = fmt.Sprintf("Pool %s finds less than half of its prompt tokens in the cache: %s", w.pool.name, missedText(ratio, prompted))
	seen := fmt.Sprintf("Over %s nothing was prompted.", spell(window))
	if prompted > 0 {
		seen = fmt.Sprintf("Over %s %s of %s prompt tokens were not found in the cache.", spell(window), percent(ratio), amount(prompted))
	}
	v.Evidence = Evidence{
		Seen: seen,
		Against: fmt.Sprintf("There is no usual miss ratio yet (%s); until then more than %s missed over an hour pages.",
			v.Text, percent(learnMiss)),
		Cause: cause.Name, CauseText: cause.Text, RunnersUp: cause.RunnersUp,
		Cost:       c.cost(w, ratio*prompted),
		Next:       "If this is normal for the pool (prompts that share nothing), accept it: kvwatch accept " + w.pool.name + ". Otherwise: " + nextSteps(cause.Name),
		Confidence: c.confidence(w, w.now.Add(-window)), Numbers: v.Numbers,
	}
}

// sharesText says who carries the excess.
func (t *excessTrack) sharesText(level int) string {
	shares := t.shares(level)
	if len(shares) < 2 {
		return ""
	}
	var parts []string
	for i, s := range shares {
		if i == 4 {
			parts = append(parts, plural(len(shares)-i, "other")+" the rest")
			break
		}
		parts = append(parts, fmt.Sprintf("%s %s", s.unit.name(), percent(s.share)))
	}
	return "Shares of the excess: " + strings.Join(parts, ", ") + "."
}

// beyondUsual is the prompt tokens that were computed beyond the usual in the
// window that ends now; 0 while the usual is not known.
func (c *cacheExcess) beyondUsual(w PoolWindow, d time.Duration) float64 {
	t := c.track()
	if t == nil || !t.Baseline.valid() {
		return 0
	}
	ratio, prompted := c.recent(w, d)
	return max(0, (ratio-t.Baseline.usual())*prompted)
}

// cost says what the excess cost: tokens, and the prefill time of them at the
// speed that the engines measured.
func (c *cacheExcess) cost(w PoolWindow, tokens float64) string {
	seconds, _ := w.sum(func(e EngineWindow) (float64, bool) { return e.HistSum(histPrefill, residencyWindow), true })
	computed, _ := w.sum(func(e EngineWindow) (float64, bool) { return e.HistSum(histComputed, residencyWindow), true })
	return prefilledAgain(tokens, seconds, computed, w.pool.price)
}

// prefilledAgain says what it costs to prefill tokens again, where so many
// seconds of prefill computed so many tokens: in tokens, in the time of GPUs, and
// in money where a plan prices the engine.
func prefilledAgain(tokens, seconds, computed float64, price *EnginePrice) string {
	if tokens <= 0 {
		return ""
	}
	text := fmt.Sprintf("%s prompt tokens beyond the usual were prefilled again.", amount(tokens))
	if seconds <= 0 || computed <= 0 {
		return text
	}
	again := tokens * seconds / computed
	text = fmt.Sprintf("%s That is about %s of prefill at the %s tokens/s that a request of this pool sees",
		text, spellSeconds(again), amount(computed/seconds))
	if price == nil {
		return text + "."
	}
	return fmt.Sprintf("%s: %s GPU seconds, about %.2f %s at the price of plan %s.",
		text, amount(again*price.GPUs), again/3600*price.PerHour, price.Currency, price.Plan)
}

// confidence judges by the number of requests since the onset.
func (c *cacheExcess) confidence(w PoolWindow, since time.Time) string {
	d := min(w.now.Sub(since), longWindow)
	requests, _ := w.sum(func(e EngineWindow) (float64, bool) { return e.Requests(d), true })
	return confidence(requests)
}

// confidence is low under 20 requests and high over 100.
func confidence(requests float64) string {
	word := "medium"
	switch {
	case requests < 20:
		word = "low"
	case requests > 100:
		word = "high"
	}
	return fmt.Sprintf("%s: %s requests were seen", word, amount(requests))
}

// nextSteps says what to do about a cause.
func nextSteps(cause string) string {
	switch cause {
	case causeRestart:
		return "Wait until the restarted engine has read its sessions once. If the miss ratio stays up, look at the queue: near its limit a pool does not recover by itself; shed or delay load."
	case causeResidency:
		return "Fewer live sessions per engine or more room for their contexts: add an engine, raise gpu-memory-utilization, use an fp8 KV cache or offload KV to CPU memory."
	case causeReplica:
		return "Compare the named engine with its peers: version, --enable-prefix-caching, free KV blocks. Take it out of the router if it stays different."
	default:
		return "Check that the router still keeps a session on one engine (affinity, restarts of the gateway), then whether the first words of the prompts changed with a deploy (dates, ids, tools before the conversation)."
	}
}
