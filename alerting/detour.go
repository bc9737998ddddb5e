package alerting

import (
	"slices"

	"kvwatch/rules"
)

// ways are the routes, and which receivers people hear of.
type ways struct {
	tree *node // nil: nobody is told
	// audible are the integrations of each receiver that people hear of, and
	// order the receivers that have one, as in the configuration.
	audible map[string]int
	order   []string
}

// ways returns the ways of a configuration.
func (c Config) ways() ways {
	w := ways{tree: c.tree(), audible: map[string]int{}}
	for _, rc := range c.Receivers {
		for _, ic := range rc.integrations {
			if !ic.settings.traits().deaf {
				w.audible[rc.Name]++
			}
		}
		if w.audible[rc.Name] > 0 {
			w.order = append(w.order, rc.Name)
		}
	}
	return w
}

// of returns the nodes that are told of an alert with these labels, in steps. All
// alerts but one have one step, what the routes say. Of a receiver that fails
// another one must be told: that of the routes, where it is not the one that
// fails; else that of the root; else the next of the configuration; at last the
// other integrations of the receiver itself. A step is for when nobody of the
// ones before can be told either.
func (w ways) of(lbls map[string]string) [][]*node {
	routed := w.tree.takers(lbls)
	if lbls["alertname"] != rules.NotificationsFailing || w.tree == nil {
		return [][]*node{routed}
	}
	failing := lbls["receiver"]
	var steps [][]*node
	used := map[string]bool{failing: true}
	step := func(nodes ...*node) {
		nodes = slices.DeleteFunc(nodes, func(n *node) bool { return n.receiver == failing || w.audible[n.receiver] == 0 })
		if len(nodes) == 0 || len(nodes) == 1 && used[nodes[0].receiver] {
			return
		}
		for _, n := range nodes {
			used[n.receiver] = true
		}
		steps = append(steps, nodes)
	}
	step(slices.Clone(routed)...)
	step(w.tree)
	for _, name := range w.order {
		step(w.tree.detour(name))
	}
	if w.audible[failing] > 1 {
		steps = append(steps, []*node{w.tree.detour(failing)})
	}
	return steps
}

// detour returns a node that leads to another receiver and is otherwise the root.
func (n *node) detour(receiver string) *node {
	out := *n
	out.receiver, out.routes = receiver, nil
	out.key = n.key + "/instead:" + receiver
	return &out
}

// takers returns the nodes that are told of an alert: those of the first step in
// which somebody can be told, and those whose groups hold it already. The caller
// holds mu.
func (d *Dispatcher) takers(a rules.Alert, groups map[string]*group) []*node {
	var out []*node
	for _, nodes := range d.ways.of(a.Labels) {
		known := slices.ContainsFunc(nodes, func(n *node) bool {
			g, ok := groups[n.groupKey(n.groupLabels(a.Labels))]
			return ok && g.holds(a)
		})
		if known || !slices.ContainsFunc(out, d.audible) {
			out = append(out, nodes...)
		}
	}
	return out
}

// audible says that people hear of what the node's receiver is told: one of its
// integrations does not fail. The caller holds mu.
func (d *Dispatcher) audible(n *node) bool {
	return slices.ContainsFunc(d.receivers[n.receiver], func(id string) bool {
		s := d.senders[id]
		return !s.traitsNow().deaf && !s.health.failing()
	})
}

// mindUnheard says once that nobody can be told of a receiver that fails. The
// caller holds mu.
func (d *Dispatcher) mindUnheard(a rules.Alert, takers []*node) {
	key := a.Key()
	switch firing := a.State == rules.StateFiring; {
	case a.Name != rules.NotificationsFailing:
	case !firing || len(takers) > 0 || d.pushes.audible():
		delete(d.unheard, key)
	case !d.unheard[key]:
		d.unheard[key] = true
		d.logger.Error("A receiver cannot be told, and there is no other one to say so: configure a second receiver", "receiver", a.Labels["receiver"], "integration", a.Labels["integration"], "summary", a.Annotations["summary"])
	}
}
