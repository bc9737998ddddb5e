package rules

import (
	"math"
	"time"
)

// served counts, minute by minute, the requests for one model that a gateway
// answered with a 2xx, by its own counter.
type served struct {
	minutes [callSlots]int64
	counts  [callSlots]float64
}

func (s *served) add(at int64, n float64) {
	minute := at / time.Minute.Milliseconds()
	i := minute % callSlots
	if s.minutes[i] != minute {
		s.minutes[i], s.counts[i] = minute, 0
	}
	s.counts[i] += n
}

// between sums up the minutes after from, up to to.
func (s *served) between(from, to int64) float64 {
	sum := 0.0
	for i, minute := range s.minutes {
		if minute > from && minute <= to {
			sum += s.counts[i]
		}
	}
	return sum
}

// servedFor finds or makes the count of a model.
func (t *target) servedFor(model string) *served {
	if t.served == nil {
		t.served = map[string]*served{}
	}
	if len(t.served) >= mostServed {
		model = ""
	}
	if t.served[model] == nil {
		t.served[model] = &served{}
	}
	return t.served[model]
}

// servedShare is the part of the answered requests for the pool's model whose
// rows came in the last hour; NaN where the gateways do not tell: not scraped,
// not for the whole hour, or one worker of several at a time.
func (e *Engine) servedShare(p *poolCalls, now time.Time) float64 {
	asked := e.askedOf(p)
	if asked == nil {
		return math.NaN()
	}
	last := now.Add(-settled).UnixMilli() / time.Minute.Milliseconds()
	first := last - int64(hour/time.Minute)
	n := e.instant(now)
	counted, told := 0.0, false
	for _, t := range e.sortedTargets() {
		for _, u := range t.units {
			if u.engine != "" {
				continue
			}
			w := n.unit(u)
			if !w.Fresh() || w.sampled() || w.Increase(totalCovered, hour+settled) < leastCovered*hour.Seconds() {
				return math.NaN()
			}
			told = true
			for model := range asked {
				if s := t.served[model]; s != nil {
					counted += s.between(first, last)
				}
			}
		}
	}
	if !told || counted < leastCounted {
		return math.NaN()
	}
	arrived := 0.0
	for _, s := range p.slots {
		if s != nil && s.minute > first && s.minute <= last {
			arrived += float64(s.arrived)
		}
	}
	return min(arrived/counted, 1)
}

const (
	// leastCovered is how much of the hour pages must cover.
	leastCovered = 0.95
	// leastCounted is how many requests a share needs.
	leastCounted = 20
	// mostServed bounds how many models are told apart: clients may ask for any.
	mostServed = 256
)

// askedOf lists the names by which clients ask for the pool's model; nil where
// another pool is asked for by one of them, so that the gateway's counters
// cannot be told apart.
func (e *Engine) askedOf(p *poolCalls) map[string]bool {
	asked := map[string]bool{}
	for name := range p.asked {
		asked[name] = true
	}
	conf, _ := e.callPool(p.name)
	for _, name := range conf.GatewayModels {
		asked[name] = true
	}
	for name, other := range e.sessions.pools {
		if name == p.name {
			continue
		}
		for model := range other.asked {
			if asked[model] {
				return nil
			}
		}
	}
	return asked
}
