package alerting

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	amlabels "github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/common/model"

	"kvwatch/rules"
)

// The times of a route that says nothing else. All but GroupWait are
// Alertmanager's; that one is shorter, since what kvwatch sees early is worth
// little when it is told late.
const (
	DefaultGroupWait      = 5 * time.Second
	DefaultGroupInterval  = 5 * time.Minute
	DefaultRepeatInterval = 4 * time.Hour
)

// groupByAll stands for all labels in group_by.
const groupByAll = "..."

// Route is one node of the routing tree, in Alertmanager's words. What a route
// leaves out it has from its parent.
type Route struct {
	// Receiver is the name of the receiver that is told.
	Receiver string `yaml:"receiver,omitempty"`
	// GroupBy lists the labels whose values make one incident; "..." is all of
	// them. Left out up to the root, everything is one incident.
	GroupBy []string `yaml:"group_by,omitempty"`
	// Matchers choose the alerts of this route; all of them must hold.
	Matchers []Matcher `yaml:"matchers,omitempty"`
	// Continue lets an alert that matched go on to the routes after this one.
	Continue bool `yaml:"continue,omitempty"`
	// GroupWait is how long the first message of an incident waits for more
	// alerts, GroupInterval how long the next one does, RepeatInterval after
	// how long an unchanged incident is told again.
	GroupWait      *model.Duration `yaml:"group_wait,omitempty"`
	GroupInterval  *model.Duration `yaml:"group_interval,omitempty"`
	RepeatInterval *model.Duration `yaml:"repeat_interval,omitempty"`
	// MuteTimeIntervals are the times in which nothing is told, and
	// ActiveTimeIntervals the only ones in which something is. They are not
	// handed down.
	MuteTimeIntervals   []string `yaml:"mute_time_intervals,omitempty"`
	ActiveTimeIntervals []string `yaml:"active_time_intervals,omitempty"`
	// Routes are tried in order; the first that matches takes the alert.
	Routes []*Route `yaml:"routes,omitempty"`
}

// labelName is what group_by may hold beside "...".
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// UnmarshalYAML decodes and checks one route. The times are decoded one by one,
// so that an error names the key.
func (r *Route) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Route
	times := struct {
		GroupWait      later          `yaml:"group_wait"`
		GroupInterval  later          `yaml:"group_interval"`
		RepeatInterval later          `yaml:"repeat_interval"`
		Rest           map[string]any `yaml:",inline"`
	}{}
	if err := unmarshal(&times); err != nil {
		return plainError(err)
	}
	given := map[string]later{
		"group_wait": times.GroupWait, "group_interval": times.GroupInterval, "repeat_interval": times.RepeatInterval,
	}
	for _, key := range sortedNames(given) {
		var d model.Duration
		l := given[key]
		if l.decode == nil {
			continue
		}
		if err := l.decode(&d); err != nil {
			return fmt.Errorf("route: %s: %w", key, err)
		}
		if d == 0 && key != "group_wait" {
			return fmt.Errorf("route: %s must be over 0s", key)
		}
	}
	if err := unmarshal((*plain)(r)); err != nil {
		return plainError(err)
	}
	for i, name := range r.GroupBy {
		switch {
		case name == groupByAll && len(r.GroupBy) > 1:
			return fmt.Errorf("route: group_by has %q beside other labels: %q alone means all labels", groupByAll, groupByAll)
		case name != groupByAll && !labelName.MatchString(name):
			return fmt.Errorf("route: group_by holds %q, which is no label name", name)
		case slices.Contains(r.GroupBy[:i], name):
			return fmt.Errorf("route: group_by holds %q twice", name)
		}
	}
	return nil
}

// Matcher is one condition on a label, in Alertmanager's syntax: `pool="chat"`,
// `severity=~"critical|warning"`, `team!=""`.
type Matcher struct{ m *amlabels.Matcher }

// UnmarshalYAML parses the matcher.
func (m *Matcher) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err != nil {
		return err
	}
	parsed, err := amlabels.ParseMatcher(text)
	if err != nil {
		return fmt.Errorf("matchers: %w; write label=\"value\", with =, !=, =~ or !~", err)
	}
	m.m = parsed
	return nil
}

// MarshalYAML writes the matcher as it is read.
func (m Matcher) MarshalYAML() (any, error) { return m.m.String(), nil }

// node is a route with everything that it has from its parents.
type node struct {
	// key tells routes apart: the matchers from the root down, and the place
	// among routes with equal ones.
	key            string
	receiver       string
	groupBy        []string
	matchers       []*amlabels.Matcher
	goesOn         bool
	groupWait      time.Duration
	groupInterval  time.Duration
	repeatInterval time.Duration
	muteTimes      []string
	activeTimes    []string
	routes         []*node
}

// newTree builds the routing tree below r, which has no parent.
func newTree(r *Route) *node {
	root := &node{
		groupWait:      DefaultGroupWait,
		groupInterval:  DefaultGroupInterval,
		repeatInterval: DefaultRepeatInterval,
	}
	return newNode(r, root, "")
}

func newNode(r *Route, parent *node, prefix string) *node {
	n := *parent
	n.routes = nil
	n.goesOn = r.Continue
	n.muteTimes, n.activeTimes = r.MuteTimeIntervals, r.ActiveTimeIntervals
	n.matchers = make([]*amlabels.Matcher, 0, len(r.Matchers))
	for _, m := range r.Matchers {
		n.matchers = append(n.matchers, m.m)
	}
	if r.Receiver != "" {
		n.receiver = r.Receiver
	}
	if len(r.GroupBy) > 0 { // as in Alertmanager, an empty list leaves it out
		n.groupBy = slices.Sorted(slices.Values(r.GroupBy))
	}
	inherit(&n.groupWait, r.GroupWait)
	inherit(&n.groupInterval, r.GroupInterval)
	inherit(&n.repeatInterval, r.RepeatInterval)
	n.key = prefix + matchersText(n.matchers)
	seen := map[string]int{}
	for _, child := range r.Routes {
		c := newNode(child, &n, n.key+"/")
		// Two routes with the same matchers (one of them continues) are two
		// incidents; the second is numbered.
		if seen[c.key]++; seen[c.key] > 1 {
			c = newNode(child, &n, fmt.Sprintf("%s/%d:", n.key, seen[c.key]))
		}
		n.routes = append(n.routes, c)
	}
	return &n
}

func inherit(to *time.Duration, from *model.Duration) {
	if from != nil {
		*to = time.Duration(*from)
	}
}

func matchersText(ms []*amlabels.Matcher) string {
	texts := make([]string, 0, len(ms))
	for _, m := range ms {
		texts = append(texts, m.String())
	}
	slices.Sort(texts)
	return "{" + strings.Join(texts, ",") + "}"
}

// match returns the nodes that take an alert with these labels: depth first,
// left to right, stopping at the first that matches and does not continue. A
// tree that is nil leads nowhere.
func (n *node) match(lbls map[string]string) []*node {
	if n == nil {
		return nil
	}
	for _, m := range n.matchers {
		if !m.Matches(lbls[m.Name]) {
			return nil
		}
	}
	var out []*node
	for _, child := range n.routes {
		got := child.match(lbls)
		out = append(out, got...)
		if got != nil && !child.goesOn {
			break
		}
	}
	if len(out) == 0 {
		out = append(out, n)
	}
	return out
}

// takers returns the nodes that are told of an alert with these labels. The
// alert that always fires goes only where a route asks for it by name.
func (n *node) takers(lbls map[string]string) []*node {
	nodes := n.match(lbls)
	if lbls["alertname"] != rules.Watchdog {
		return nodes
	}
	return slices.DeleteFunc(nodes, func(n *node) bool {
		return !slices.ContainsFunc(n.matchers, func(m *amlabels.Matcher) bool { return m.Name == "alertname" })
	})
}

// groupLabels returns the labels by which an alert is grouped at this node.
func (n *node) groupLabels(lbls map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range lbls {
		if len(n.groupBy) == 1 && n.groupBy[0] == groupByAll || slices.Contains(n.groupBy, name) {
			out[name] = value
		}
	}
	return out
}

// groupKey names an incident: the route and the labels that it is grouped by.
func (n *node) groupKey(groupLabels map[string]string) string {
	var b strings.Builder
	b.WriteString(n.key)
	b.WriteString(":{")
	for i, name := range sortedNames(groupLabels) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%q", name, groupLabels[name])
	}
	b.WriteString("}")
	return b.String()
}
