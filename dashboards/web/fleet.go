package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/rules"
)

// fleet is everything that the page shows now; the charts alone ask for more.
type fleet struct {
	Version         string    `json:"version"`
	Now             time.Time `json:"now"`
	IntervalSeconds float64   `json:"interval_seconds"`
	Demo            bool      `json:"demo"`
	Note            string    `json:"note,omitempty"`

	Targets   targetSummary  `json:"targets"`
	Alerts    alertLists     `json:"alerts"`
	Detectors []detectorView `json:"detectors"`
	Pools     []*poolView    `json:"pools"`
	// Unpooled holds engines that no pool claims.
	Unpooled []*engineView  `json:"unpooled"`
	Gateways []*gatewayView `json:"gateways"`
	// Sessions is what the gateways' logs of calls tell beside the series of the
	// pools; pools without a logged call are not in it.
	Sessions []rules.PoolSessions `json:"sessions"`
	// Plans are the sizing plans, held against what was measured.
	Plans []rules.PlanReview `json:"plans"`
	// PlanEvents are what was recommended about them, and what came of it.
	PlanEvents []rules.Event `json:"plan_events"`
	// Reviews are the newest that were made by the clock.
	Reviews []KeptReview `json:"reviews"`
	// Events are those of the last day.
	Events []rules.Event `json:"events"`
}

// values holds an owner's series by short name: the part after kvwatch_ or
// kvwatch_pool_, and after a colon the label that tells it from its siblings:
// prefix_cache_hit_ratio:5m, ttft_seconds:0.95, queue_waiting_requests:capacity.
type values map[string]value

type poolView struct {
	Name      string        `json:"name"`
	ModelName string        `json:"model_name"`
	Problem   string        `json:"problem,omitempty"`
	Values    values        `json:"values"`
	Engines   []*engineView `json:"engines"`
}

type engineView struct {
	Job       string `json:"job"`
	Instance  string `json:"instance"`
	Engine    string `json:"engine"`
	ModelName string `json:"model_name"`
	stateView
	Values values `json:"values"`
}

type gatewayView struct {
	Job      string `json:"job"`
	Instance string `json:"instance"`
	stateView
	Values values `json:"values"`
}

// engineKey is what identifies an engine in the labels of its series.
type engineKey struct{ job, instance, engine, model string }

// fleetBuilder sorts the recorded series to their owners.
type fleetBuilder struct {
	states   map[[2]string]stateView
	pools    map[string]*poolView
	engines  map[engineKey]*engineView
	gateways map[[2]string]*gatewayView
	// members holds the names of the pools that an engine belongs to.
	members  map[rules.PoolMember][]string
	unpooled []*engineView
}

// fleetNow gathers the present state of the fleet.
func (p *page) fleetNow() fleet {
	now := p.o.Now()
	targets := p.o.Targets()
	b := newFleetBuilder(targets, p.o.Pools())
	for _, r := range p.o.Recorded() {
		b.add(r)
	}
	b.fillPools()
	return fleet{
		Version:         p.o.Version,
		Now:             now,
		IntervalSeconds: p.o.Interval.Seconds(),
		Demo:            p.o.Demo,
		Note:            p.o.TimeScaleNote,
		Targets:         summarise(targets),
		Alerts:          p.alertLists(),
		Detectors:       forPage(p.detectorViews(p.o.Detectors())),
		Pools:           sortedBy(b.pools, func(v *poolView) string { return v.Name }),
		Unpooled:        b.unpooled,
		Events:          p.o.Events(now.Add(-eventsShown), now),
		Gateways:        sortedBy(b.gateways, func(g *gatewayView) string { return g.Job + "\xff" + g.Instance }),
		Sessions:        append([]rules.PoolSessions{}, p.o.Sessions()...), // never null
		Plans:           append([]rules.PlanReview{}, p.o.Plans()...),
		PlanEvents:      p.planEvents(""),
		Reviews:         p.newestReviews(),
	}
}

func engineOrder(e *engineView) string {
	return strings.Join([]string{e.Job, e.Instance, e.Engine, e.ModelName}, "\xff")
}

func newFleetBuilder(targets []collector.TargetStatus, pools []rules.PoolStatus) *fleetBuilder {
	b := &fleetBuilder{
		states:   map[[2]string]stateView{},
		pools:    map[string]*poolView{},
		engines:  map[engineKey]*engineView{},
		gateways: map[[2]string]*gatewayView{},
		members:  map[rules.PoolMember][]string{},
		unpooled: []*engineView{},
	}
	for _, pool := range pools {
		b.pool(pool.Name, pool.ModelName).Problem = pool.Problem
		for _, m := range pool.Engines {
			b.members[m] = append(b.members[m], pool.Name)
		}
	}
	for _, t := range targets {
		key := [2]string{t.Job, t.Instance}
		b.states[key] = stateOf(t)
		if t.Source == collector.SourceLiteLLM {
			b.gateway(key)
		}
	}
	return b
}

// add gives a recorded series to its pool, gateway or engine. A series of none
// of them (a plan's, kvwatch's own) is not on this page.
func (b *fleetBuilder) add(r rules.Recorded) {
	name := r.Labels.Get(model.MetricNameLabel)
	switch {
	case strings.HasPrefix(name, "kvwatch_pool_"):
		b.pool(r.Labels.Get("pool"), r.Labels.Get("model_name")).Values.add(strings.TrimPrefix(name, "kvwatch_pool_"), r)
	case strings.HasPrefix(name, "kvwatch_gateway_"):
		key := [2]string{r.Labels.Get("job"), r.Labels.Get("instance")}
		b.gateway(key).Values.add(strings.TrimPrefix(name, "kvwatch_"), r)
	case r.Labels.Has("engine"):
		b.engine(r.Labels).Values.add(strings.TrimPrefix(name, "kvwatch_"), r)
	}
}

func (b *fleetBuilder) pool(name, modelName string) *poolView {
	v, ok := b.pools[name]
	if !ok {
		v = &poolView{Name: name, ModelName: modelName, Values: values{}, Engines: []*engineView{}}
		b.pools[name] = v
	}
	return v
}

func (b *fleetBuilder) gateway(key [2]string) *gatewayView {
	v, ok := b.gateways[key]
	if !ok {
		v = &gatewayView{Job: key[0], Instance: key[1], stateView: b.state(key), Values: values{}}
		b.gateways[key] = v
	}
	return v
}

func (b *fleetBuilder) engine(l labels.Labels) *engineView {
	key := engineKey{l.Get("job"), l.Get("instance"), l.Get("engine"), l.Get("model_name")}
	v, ok := b.engines[key]
	if !ok {
		v = &engineView{
			Job: key.job, Instance: key.instance, Engine: key.engine, ModelName: key.model,
			stateView: b.state([2]string{key.job, key.instance}),
			Values:    values{},
		}
		b.engines[key] = v
	}
	return v
}

func (b *fleetBuilder) state(key [2]string) stateView {
	if s, ok := b.states[key]; ok {
		return s
	}
	return stateOf(collector.TargetStatus{State: collector.StateUnknown})
}

// fillPools puts each engine into its pool.
func (b *fleetBuilder) fillPools() {
	for _, e := range sortedBy(b.engines, engineOrder) {
		pool := b.poolOf(e)
		if pool == nil {
			b.unpooled = append(b.unpooled, e)
			continue
		}
		pool.Engines = append(pool.Engines, e)
	}
}

// poolOf finds the pool that an engine is a member of; nil when none claims it.
// One engine can serve several models, each in a pool of its own.
func (b *fleetBuilder) poolOf(e *engineView) *poolView {
	var found *poolView
	for _, name := range b.members[rules.PoolMember{Job: e.Job, Instance: e.Instance, Engine: e.Engine}] {
		pool := b.pools[name]
		if pool.ModelName == e.ModelName {
			return pool
		}
		if pool.ModelName == "" {
			found = pool
		}
	}
	return found
}

// sortedBy returns a map's values in the order of their keys' text.
func sortedBy[K comparable, V any](m map[K]V, key func(V) string) []V {
	list := make([]V, 0, len(m))
	for _, v := range m {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b V) int { return cmp.Compare(key(a), key(b)) })
	return list
}
