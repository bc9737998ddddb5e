package main

import (
	"time"

	"github.com/prometheus/common/model"

	"kvwatch/collector"
	"kvwatch/rules"
)

const (
	// A queue is sustained when requests wait at queueShare of all scrapes of the
	// pool's replicas within queueWindow, of which queueCovered at least must be
	// known. No rule's time_scale changes that.
	queueShare   = 0.4
	queueWindow  = 10 * time.Minute
	queueCovered = 8 * time.Minute
)

// queueWatch finds the sustained queues of pools.
type queueWatch struct {
	targets map[*collector.Target]*queueTarget
	engines map[queueEngine]*engineQueue
	pools   map[string]*poolQueue
}

// queueEngine identifies an engine.
type queueEngine struct{ job, instance, engine string }

// engineQueue is an engine and the pool that it belongs to; "" while unknown.
type engineQueue struct {
	pool *poolQueue
}

// queueTarget knows where on a target's page the queues are told.
type queueTarget struct {
	size   int
	places []queuePlace
}

// queuePlace is the series of one engine's queue.
type queuePlace struct {
	index  int
	series *collector.Series
	engine *engineQueue
}

// poolQueue is the queue of one pool over the last minutes.
type poolQueue struct {
	scrapes []queueScrape
	waiting int
	// sustained are the times of sustained queues; the last may have no end yet.
	sustained []timeRange
}

// queueScrape is one engine at one scrape.
type queueScrape struct {
	at      time.Time
	waiting bool
}

func newQueueWatch() *queueWatch {
	return &queueWatch{targets: map[*collector.Target]*queueTarget{}, engines: map[queueEngine]*engineQueue{}, pools: map[string]*poolQueue{}}
}

// observe takes one round.
func (q *queueWatch) observe(r *collector.Round) {
	if r.State != collector.StateUp {
		return
	}
	t := q.targets[r.Target]
	if t == nil || !t.fits(r.Samples) {
		t = q.find(r)
		q.targets[r.Target] = t
	}
	for _, p := range t.places {
		if p.engine.pool != nil {
			p.engine.pool.add(r.Time, r.Samples[p.index].Value > 0)
		}
	}
}

// fits says whether the page has its series where they were.
func (t *queueTarget) fits(samples []collector.Sample) bool {
	if len(samples) != t.size {
		return false
	}
	for _, p := range t.places {
		if samples[p.index].Series != p.series {
			return false
		}
	}
	return true
}

// find looks for the queues on a page.
func (q *queueWatch) find(r *collector.Round) *queueTarget {
	t := &queueTarget{size: len(r.Samples)}
	for i, s := range r.Samples {
		if s.Series.Labels.Get(model.MetricNameLabel) != collector.VLLMWaiting {
			continue
		}
		key := queueEngine{s.Series.Labels.Get(model.JobLabel), s.Series.Labels.Get(model.InstanceLabel), s.Series.Labels.Get("engine")}
		if q.engines[key] == nil {
			q.engines[key] = &engineQueue{}
		}
		t.places = append(t.places, queuePlace{i, s.Series, q.engines[key]})
	}
	return t
}

// place finds the pools of engines that are new.
func (q *queueWatch) place(e *rules.Engine) {
	known := true
	for _, one := range q.engines {
		known = known && one.pool != nil
	}
	if known {
		return
	}
	for _, p := range e.Pools() {
		if q.pools[p.Name] == nil {
			q.pools[p.Name] = &poolQueue{}
		}
		for _, m := range p.Engines {
			if one := q.engines[queueEngine{m.Job, m.Instance, m.Engine}]; one != nil {
				one.pool = q.pools[p.Name]
			}
		}
	}
}

// add takes one engine's scrape, and notes where a sustained queue begins or ends.
func (p *poolQueue) add(at time.Time, waiting bool) {
	p.scrapes = append(p.scrapes, queueScrape{at, waiting})
	if waiting {
		p.waiting++
	}
	old := 0
	for ; at.Sub(p.scrapes[old].at) >= queueWindow; old++ {
		if p.scrapes[old].waiting {
			p.waiting--
		}
	}
	p.scrapes = p.scrapes[old:]
	last := len(p.sustained) - 1
	open := last >= 0 && p.sustained[last].to.IsZero()
	switch holds := p.holds(at); {
	case holds && !open:
		p.sustained = append(p.sustained, timeRange{from: at})
	case !holds && open:
		p.sustained[last].to = at
	}
}

// holds says whether the queue is sustained.
func (p *poolQueue) holds(at time.Time) bool {
	return at.Sub(p.scrapes[0].at) >= queueCovered && float64(p.waiting) >= queueShare*float64(len(p.scrapes))
}

// spans lists the sustained queues of all pools by the pools' names.
func (q *queueWatch) spans() map[string][]timeRange {
	all := map[string][]timeRange{}
	for name, p := range q.pools {
		if len(p.sustained) > 0 {
			all[name] = p.sustained
		}
	}
	return all
}

// lead is the time from fired to the next sustained queue in the pool that an
// alert is about, 0 within one; false where none came.
func (q *queueWatch) lead(labels map[string]string, fired time.Time) (time.Duration, bool) {
	p := q.pools[labels["pool"]]
	for key, one := range q.engines {
		if p == nil && key.job == labels["job"] && key.instance == labels["instance"] {
			p = one.pool
		}
	}
	if p == nil {
		return 0, false
	}
	for _, s := range p.sustained {
		if s.to.IsZero() || s.to.After(fired) {
			return max(s.from.Sub(fired), 0), true
		}
	}
	return 0, false
}
