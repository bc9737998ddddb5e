package alerting

import (
	"fmt"
)

// part is an integration that was built and is not yet used.
type part struct {
	id, receiver string
	built        Receiver
	traits       traits
}

// build makes everything of a configuration that can fail.
func (d *Dispatcher) build(c Config) ([]part, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	for i, am := range c.Alertmanagers {
		if _, err := d.newPeer(am, ""); err != nil {
			return nil, fmt.Errorf("alertmanagers: entry %d: %w", i+1, err)
		}
	}
	var out []part
	for _, rc := range c.Receivers {
		for _, ic := range rc.integrations {
			built, err := ic.settings.receiver(d.env)
			if err != nil {
				return nil, fmt.Errorf("receiver %q: %s entry %d: %w", rc.Name, configKey(ic.kind), ic.index+1, err)
			}
			out = append(out, part{id: ic.id(rc.Name), receiver: rc.Name, built: built, traits: ic.settings.traits()})
		}
	}
	return out, nil
}

// Reload takes a new configuration: it builds what can fail, then swaps.
// Incidents, queues and the notification log stay. After an error the old
// configuration is in effect.
func (d *Dispatcher) Reload(c Config) error {
	parts, err := d.build(c)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.install(c, parts)
	d.regroup()
	d.poke()
	return nil
}

// install puts what was built into effect. The caller holds mu.
func (d *Dispatcher) install(c Config, parts []part) {
	d.ways, d.resolveTimeout, d.reportsTo = c.ways(), c.resolveTimeout(), c.firstReceiver()
	d.calendar, d.inhibitor = newCalendar(c.TimeIntervals), newInhibitor(c.inhibitRules())
	d.inhibitor.refresh(d.firing)
	d.alertmanagers = c.Alertmanagers
	if len(c.Alertmanagers) > 0 {
		d.metrics.expect(pushedTo)
	}
	select {
	case d.alertmanagersChanged <- struct{}{}:
	default:
	}
	d.env.sockets.keep(parts)
	d.receivers = map[string][]string{}
	stays := map[string]bool{}
	for _, rc := range c.Receivers {
		d.receivers[rc.Name] = nil
		d.metrics.expect(rc.Name)
	}
	for _, p := range parts {
		stays[p.id] = true
		d.receivers[p.receiver] = append(d.receivers[p.receiver], p.id)
		if _, ok := p.built.(illustrator); ok {
			d.metrics.expectCharts(p.receiver)
		}
		if s, ok := d.senders[p.id]; ok {
			s.replace(p.built, p.traits)
			continue
		}
		s := &sender{
			id: p.id, name: p.receiver, d: d, receiver: p.built, traits: p.traits,
			queued: map[string]bool{}, unwritten: map[string]bool{}, logger: d.logger.With("integration", p.id), wake: make(chan struct{}, 1),
			pictures: make(chan picture, mostPictures), gone: make(chan struct{}),
		}
		d.senders[p.id] = s
		if d.start != nil {
			d.start(s)
		}
	}
	for id, s := range d.senders {
		if !stays[id] {
			s.stop()
			delete(d.senders, id)
		}
	}
}

// regroup puts the alerts of all groups where the new routes want them. A group
// whose key is the same keeps its times. The caller holds mu.
func (d *Dispatcher) regroup() {
	old := d.groups
	d.groups = map[string]*group{}
	for _, g := range old {
		for _, h := range g.alerts {
			for _, n := range d.takers(h.alert, old) {
				now := d.groupFor(n, h.alert, true)
				now.alerts[h.alert.Key()] = h
				now.nextFlush, now.unseen, now.inFlight = g.nextFlush, g.unseen, 0
				if was, ok := old[now.key]; ok {
					now.nextFlush, now.unseen, now.inFlight = was.nextFlush, was.unseen, was.inFlight
				}
			}
		}
	}
	d.orphans()
}
