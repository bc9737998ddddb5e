package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The kinds of a derived series.
const (
	KindGauge   = "gauge"
	KindCounter = "counter"
	KindSummary = "summary"
)

// Recording is one family of derived series; record_*.go holds one each. The
// functions are pure: the window is all that they see. What is nil does not
// exist at that level.
type Recording struct {
	// Name is the family's name. A pool's is the same with kvwatch_pool_ in
	// front, unless the name begins so already.
	Name string
	// Help is the text of /metrics: one sentence with the unit.
	Help string
	// Kind is KindGauge, KindCounter or KindSummary.
	Kind string
	// Label names the one label that the family has beside those of its
	// subject, and Values lists its values; both empty where there is none.
	Label  string
	Values []string

	// Engine, Pool, Gateway and Target give the value for one subject and one
	// of Values ("" where there are none).
	Engine  func(w EngineWindow, value string) Result
	Pool    func(w PoolWindow, value string) Result
	Gateway func(w GatewayWindow, value string) Result
	Target  func(w TargetWindow, value string) Result
}

// Result is what a recording function found.
type Result struct {
	// Value is set when Known and the family is no summary.
	Value float64
	Known bool
	// Summary is set when Known and the family is a summary.
	Summary *Summary
	Quality Quality
	// Coverage is in 0..1 where Quality is partial.
	Coverage float64
	// Reason says why the value is absent or not ok.
	Reason string
	// From is the exposed name (or formula of names) that was read.
	From string
}

// Alerting is one alert; alert_*.go holds one each.
type Alerting struct {
	// Name is the CamelCase name.
	Name string
	// Help says in one sentence when it fires.
	Help string
	// Severity and For are defaults that an override may change.
	Severity string
	For      time.Duration
	// Settings are the detector's own.
	Settings []Setting
	// One of these makes the detector: of one pool, engine, gateway or target,
	// of all that kvwatch watches, of a sizing plan, or of an integration of a
	// receiver.
	Pool     func(s *settings) detector[PoolWindow]
	Engine   func(s *settings) detector[EngineWindow]
	Gateway  func(s *settings) detector[GatewayWindow]
	Target   func(s *settings) detector[TargetWindow]
	Fleet    func(s *settings) detector[FleetWindow]
	Plan     func(s *settings) detector[PlanWindow]
	Receiver func(s *settings) detector[ReceiverWindow]
}

// subjects counts the kinds of subject that the alert has a detector for.
func (a Alerting) subjects() int {
	n := 0
	for _, has := range []bool{a.Pool != nil, a.Engine != nil, a.Gateway != nil, a.Target != nil, a.Fleet != nil, a.Plan != nil, a.Receiver != nil} {
		if has {
			n++
		}
	}
	return n
}

var (
	recordings = map[string]Recording{} //nolint:gochecknoglobals // a registration table: written by init only
	alertings  = map[string]*Alerting{} //nolint:gochecknoglobals // a registration table: written by init only
)

// record registers a family of derived series; it is called by init only.
func record(r Recording) {
	if _, ok := recordings[r.Name]; ok {
		panic("rules: " + r.Name + " is recorded twice")
	}
	recordings[r.Name] = r
}

// alert registers an alert; it is called by init only.
func alert(a Alerting) {
	if _, ok := alertings[a.Name]; ok {
		panic("rules: " + a.Name + " is registered twice")
	}
	if a.subjects() != 1 {
		panic("rules: " + a.Name + " needs one of Pool, Engine, Gateway, Target, Fleet, Plan and Receiver")
	}
	alertings[a.Name] = &a
}

// Registry lists what this build can derive and detect, in order of name.
type Registry struct {
	Recordings []RecordingInfo
	Alerts     []AlertInfo
}

// RecordingInfo describes one family of derived series.
type RecordingInfo struct {
	Name string
	Help string
	Kind string
	// Labels are the names of the labels that its series carry.
	Labels []string
}

// AlertInfo describes one alert with its defaults.
type AlertInfo struct {
	Name     string
	Help     string
	Severity string
	For      time.Duration
	Settings []Setting
}

// Registered returns the tables, for `kvwatch list`, /metrics and the docs.
func Registered() Registry {
	var reg Registry
	for _, name := range slices.Sorted(maps.Keys(recordings)) {
		reg.Recordings = append(reg.Recordings, recordings[name].infos()...)
	}
	reg.Recordings = append(append(reg.Recordings, ownFamilies()...), planFamilies()...)
	slices.SortFunc(reg.Recordings, func(a, b RecordingInfo) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range alertNames() {
		a := alertings[name]
		reg.Alerts = append(reg.Alerts, AlertInfo{Name: name, Help: a.Help, Severity: a.Severity, For: a.For, Settings: a.Settings})
	}
	return reg
}

func alertNames() []string { return slices.Sorted(maps.Keys(alertings)) }

// infos describes the families that r makes: its own and its pool's.
func (r Recording) infos() []RecordingInfo {
	var infos []RecordingInfo
	add := func(name string, labelNames ...string) {
		if r.Label != "" {
			labelNames = append(labelNames, r.Label)
		}
		infos = append(infos, RecordingInfo{Name: name, Help: r.Help, Kind: r.Kind, Labels: labelNames})
	}
	if r.Engine != nil {
		add(r.Name, "job", "instance", "engine", "model_name")
	}
	if r.Gateway != nil || r.Target != nil {
		add(r.Name, "job", "instance")
	}
	if r.Pool != nil {
		add(r.poolName(), "pool", "model_name")
	}
	return infos
}

// poolName is the name of the family at the level of pools.
func (r Recording) poolName() string {
	rest := strings.TrimPrefix(r.Name, "kvwatch_")
	if strings.HasPrefix(rest, "pool_") {
		return r.Name
	}
	return fmt.Sprintf("kvwatch_pool_%s", rest)
}

// sortedRecordings lists the recordings in order of name.
func sortedRecordings() []Recording {
	all := make([]Recording, 0, len(recordings))
	for _, name := range slices.Sorted(maps.Keys(recordings)) {
		all = append(all, recordings[name])
	}
	return all
}

// values are the values of the recording's own label: "" alone without one.
func (r Recording) values() []string {
	if r.Label == "" {
		return []string{""}
	}
	return r.Values
}
