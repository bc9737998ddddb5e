package alerting

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	amlabels "github.com/prometheus/alertmanager/pkg/labels"

	"kvwatch/rules"
)

// InhibitRule says that alerts need not be told while another one fires, in
// Alertmanager's words.
type InhibitRule struct {
	// Name is for people.
	Name string `yaml:"name,omitempty"`
	// SourceMatchers choose the alerts that inhibit, TargetMatchers those that
	// are inhibited.
	SourceMatchers []Matcher `yaml:"source_matchers,omitempty"`
	TargetMatchers []Matcher `yaml:"target_matchers,omitempty"`
	// Equal lists the labels that both must have in common; one that both lack
	// counts as common.
	Equal []string `yaml:"equal,omitempty"`
}

// UnmarshalYAML decodes and checks one rule.
func (r *InhibitRule) UnmarshalYAML(unmarshal func(any) error) error {
	type plain InhibitRule
	if err := unmarshal((*plain)(r)); err != nil {
		return plainError(err)
	}
	if len(r.SourceMatchers) == 0 || len(r.TargetMatchers) == 0 {
		return errors.New("inhibit_rules: an entry needs source_matchers and target_matchers; without one of them it would be about every alert")
	}
	for _, name := range r.Equal {
		if !labelName.MatchString(name) {
			return fmt.Errorf("inhibit_rules: equal holds %q, which is no label name", name)
		}
	}
	return nil
}

// defaultInhibitRules hold where the configuration has none of its own: an early
// warning is no news once what it warned of is there, and what is derived from a
// target that is down says nothing more than that it is down.
func defaultInhibitRules() []InhibitRule {
	is := func(name, value string) Matcher { return Matcher{mustMatcher(amlabels.MatchEqual, name, value)} }
	return []InhibitRule{
		{
			Name:           "the collapse is told, not its early warning",
			SourceMatchers: []Matcher{is("alertname", "PrefixCacheCollapse")},
			TargetMatchers: []Matcher{is("alertname", "PrefixCacheMissRising")},
			Equal:          []string{"pool"},
		},
		{
			Name:           "a target that is down is told, not what is derived from it",
			SourceMatchers: []Matcher{is("alertname", "TargetDown")},
			TargetMatchers: []Matcher{{mustMatcher(amlabels.MatchNotEqual, "alertname", "TargetDown")}, {mustMatcher(amlabels.MatchNotEqual, "instance", "")}},
			Equal:          []string{"job", "instance"},
		},
	}
}

// mustMatcher makes a matcher of which nothing can fail: it has no regular expression.
func mustMatcher(t amlabels.MatchType, name, value string) *amlabels.Matcher {
	m, err := amlabels.NewMatcher(t, name, value)
	if err != nil {
		panic(err)
	}
	return m
}

// inhibitor knows which alerts fire and what they inhibit.
type inhibitor []*inhibition

// inhibition is one rule with the alerts that fire on its source's side.
type inhibition struct {
	rule InhibitRule
	// sources are the alerts on the source's side, by the values of the rule's equal labels.
	sources map[string][]rules.Alert
}

func newInhibitor(list []InhibitRule) inhibitor {
	out := make(inhibitor, 0, len(list))
	for _, r := range list {
		out = append(out, &inhibition{rule: r})
	}
	return out
}

// refresh takes the alerts that fire now.
func (in inhibitor) refresh(firing map[string]held) {
	for _, i := range in {
		i.sources = map[string][]rules.Alert{}
		for _, name := range sortedNames(firing) {
			if a := firing[name].alert; matchAll(i.rule.SourceMatchers, a.Labels) {
				key := i.common(a.Labels)
				i.sources[key] = append(i.sources[key], a)
			}
		}
	}
}

// by returns the alert that inhibits one with these labels. As in Alertmanager,
// an alert that is on both sides of a rule is inhibited by none that is too, so
// that no alert inhibits itself.
func (in inhibitor) by(lbls map[string]string) (rules.Alert, bool) {
	for _, i := range in {
		if !matchAll(i.rule.TargetMatchers, lbls) {
			continue
		}
		both := matchAll(i.rule.SourceMatchers, lbls)
		for _, source := range i.sources[i.common(lbls)] {
			if !both || !matchAll(i.rule.TargetMatchers, source.Labels) {
				return source, true
			}
		}
	}
	return rules.Alert{}, false
}

// common returns the values of the labels that source and target have in common.
func (i *inhibition) common(lbls map[string]string) string {
	var b strings.Builder
	for _, name := range i.rule.Equal {
		b.WriteString(lbls[name])
		b.WriteByte(0xff)
	}
	return b.String()
}

// matchAll says whether all matchers hold. A label that is missing is empty.
func matchAll(ms []Matcher, lbls map[string]string) bool {
	return !slices.ContainsFunc(ms, func(m Matcher) bool { return !m.m.Matches(lbls[m.m.Name]) })
}
