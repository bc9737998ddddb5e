package alerting

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	amlabels "github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/common/version"

	"kvwatch/rules"
)

// AlertmanagerAPI serves what clients of Alertmanager ask for, in the shape of its
// API, version 2: amtool, Grafana and karma can read and silence. Alerts cannot be
// posted: the rules alone say what fires. /silence is a form for people, which
// messages lead to. started is when the daemon was.
func (d *Dispatcher) AlertmanagerAPI(started time.Time, now func() time.Time) http.Handler {
	mux := http.NewServeMux()
	silences := silenceAPI{d: d, now: now}
	mux.HandleFunc("GET /api/v2/silences", silences.list)
	mux.HandleFunc("POST /api/v2/silences", silences.post)
	mux.HandleFunc("GET /api/v2/silence/{id}", silences.get)
	mux.HandleFunc("DELETE /api/v2/silence/{id}", silences.expire)
	mux.HandleFunc("GET "+silencePath, silences.form)
	mux.HandleFunc("POST "+silencePath, silences.submit)
	alerts := alertAPI{d: d, now: now, started: started}
	mux.HandleFunc("GET /api/v2/alerts", alerts.asked(alerts.alerts))
	mux.HandleFunc("GET /api/v2/alerts/groups", alerts.asked(alerts.groups))
	mux.HandleFunc("GET /api/v2/receivers", alerts.receivers)
	mux.HandleFunc("GET /api/v2/status", alerts.status)
	return mux
}

type alertAPI struct {
	d       *Dispatcher
	now     func() time.Time
	started time.Time
}

// apiAlert is an alert that fires, as Alertmanager shows it.
type apiAlert struct {
	Annotations map[string]string `json:"annotations"`
	// EndsAt is when it would end if the rules said no more of it.
	EndsAt       time.Time         `json:"endsAt"`
	Fingerprint  string            `json:"fingerprint"`
	Receivers    []apiReceiver     `json:"receivers"`
	StartsAt     time.Time         `json:"startsAt"`
	Status       apiStatus         `json:"status"`
	UpdatedAt    time.Time         `json:"updatedAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
	Labels       map[string]string `json:"labels"`
}

// apiStatus says whether an alert is told, and if not why.
type apiStatus struct {
	State       string   `json:"state"`
	SilencedBy  []string `json:"silencedBy"`
	InhibitedBy []string `json:"inhibitedBy"` // fingerprints
	MutedBy     []string `json:"mutedBy"`     // time intervals
}

type apiReceiver struct {
	Name string `json:"name"`
}

// apiGroup is an incident.
type apiGroup struct {
	Labels      map[string]string `json:"labels"`
	RouteLabels map[string]string `json:"routeLabels"`
	Receiver    apiReceiver       `json:"receiver"`
	Alerts      []apiAlert        `json:"alerts"`
}

// The states of an alert.
const (
	stateActive     = "active"
	stateSuppressed = "suppressed"
)

// asked answers queries with what find makes of them under the dispatcher's lock.
func (api alertAPI) asked(find func(q alertQuery, now time.Time) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := newAlertQuery(r)
		if err != nil {
			fail(w, http.StatusBadRequest, err)
			return
		}
		api.answer(w, func() any { return find(q, api.now()) })
	}
}

// answer answers with what find returns under the dispatcher's lock. The lock is
// given back before the answer goes out: a client that reads slowly holds up no
// alert.
func (api alertAPI) answer(w http.ResponseWriter, find func() any) {
	found, err := api.locked(find)
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, found)
}

// locked makes JSON of what find returns, while it cannot change.
func (api alertAPI) locked(find func() any) (json.RawMessage, error) {
	api.d.mu.Lock()
	defer api.d.mu.Unlock()
	return json.Marshal(find())
}

// alerts is every alert that fires and that the query wants.
func (api alertAPI) alerts(q alertQuery, now time.Time) any {
	out := []apiAlert{}
	for _, key := range sortedNames(api.d.firing) {
		h := api.d.firing[key]
		nodes := api.d.takers(h.alert, api.d.groups)
		if !q.wantsReceiver(nodes) {
			continue
		}
		quiet, _ := api.d.quiet(h.alert.Labels, now)
		if a := api.d.apiAlert(h, nodes, quiet, now); q.wants(a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b apiAlert) int { return strings.Compare(a.Fingerprint, b.Fingerprint) })
	return out
}

// groups is the incidents, each with the alerts that the query wants.
func (api alertAPI) groups(q alertQuery, now time.Time) any {
	out := []apiGroup{}
	for _, key := range sortedNames(api.d.groups) {
		g := api.d.groups[key]
		nodes := []*node{g.node}
		if !q.wantsReceiver(nodes) {
			continue
		}
		group := apiGroup{Labels: notNil(g.labels), RouteLabels: map[string]string{}, Receiver: apiReceiver{g.node.receiver}, Alerts: []apiAlert{}}
		muted := true
		for _, member := range sortedNames(g.alerts) {
			h := g.alerts[member]
			a := api.d.apiAlert(h, nodes, api.d.calendar.mutes(g.node, now), now)
			if h.alert.State == rules.StateFiring && q.wants(a) {
				group.Alerts = append(group.Alerts, a)
				muted = muted && a.Status.State == stateSuppressed
			}
		}
		if len(group.Alerts) > 0 && (q.muted || !muted) {
			out = append(out, group)
		}
	}
	return out
}

// apiAlert returns an alert as Alertmanager shows it. The caller holds mu.
func (d *Dispatcher) apiAlert(h held, nodes []*node, quiet []string, now time.Time) apiAlert {
	w := newWebhookAlert(h.alert, d.externalURL)
	a := apiAlert{
		Annotations: w.Annotations, Labels: w.Labels, Fingerprint: w.Fingerprint, GeneratorURL: w.GeneratorURL,
		StartsAt: w.StartsAt, UpdatedAt: h.seen, EndsAt: h.seen.Add(d.resolveTimeout), Receivers: []apiReceiver{},
		Status: apiStatus{State: stateActive, SilencedBy: []string{}, InhibitedBy: []string{}, MutedBy: append([]string{}, quiet...)},
	}
	for _, name := range receiversOf(nodes) {
		a.Receivers = append(a.Receivers, apiReceiver{name})
	}
	for _, s := range d.silences.active(now) {
		if s.covers(h.alert.Labels) {
			a.Status.SilencedBy = append(a.Status.SilencedBy, s.ID)
		}
	}
	if source, ok := d.inhibitor.by(h.alert.Labels); ok {
		a.Status.InhibitedBy = append(a.Status.InhibitedBy, newWebhookAlert(source, "").Fingerprint)
	}
	if len(a.Status.SilencedBy)+len(a.Status.InhibitedBy)+len(a.Status.MutedBy) > 0 {
		a.Status.State = stateSuppressed
	}
	return a
}

// receiversOf returns the receivers of nodes, each once.
func receiversOf(nodes []*node) []string {
	var out []string
	for _, n := range nodes {
		if !slices.Contains(out, n.receiver) {
			out = append(out, n.receiver)
		}
	}
	return out
}

func (api alertAPI) receivers(w http.ResponseWriter, _ *http.Request) {
	api.answer(w, func() any {
		out := []apiReceiver{}
		for _, name := range slices.Sorted(maps.Keys(api.d.receivers)) {
			out = append(out, apiReceiver{name})
		}
		return out
	})
}

// status answers with what clients look at to know what they talk to. The
// configuration is left out.
func (api alertAPI) status(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"cluster": map[string]any{"status": "disabled", "peers": []string{}},
		"config":  map[string]string{"original": ""},
		"uptime":  api.started,
		"versionInfo": map[string]string{
			"branch": version.Branch, "buildDate": version.BuildDate, "buildUser": version.BuildUser,
			"goVersion": version.GoVersion, "revision": version.GetRevision(), "version": version.Version,
		},
	})
}

// alertQuery is what a client asks for: filter=matcher (all of them must hold),
// receiver=regex, and the states that it does not want.
type alertQuery struct {
	matchers                           []*amlabels.Matcher
	receiver                           *regexp.Regexp
	active, silenced, inhibited, muted bool
}

func newAlertQuery(r *http.Request) (alertQuery, error) {
	values := r.URL.Query()
	q := alertQuery{active: true, silenced: true, inhibited: true, muted: true}
	for name, to := range map[string]*bool{"active": &q.active, "silenced": &q.silenced, "inhibited": &q.inhibited, "muted": &q.muted} {
		if text := values.Get(name); text != "" {
			b, err := strconv.ParseBool(text)
			if err != nil {
				return q, fmt.Errorf("%s must be true or false, not %q", name, text)
			}
			*to = b
		}
	}
	var err error
	if q.matchers, err = parseFilters(values["filter"]); err != nil {
		return q, err
	}
	if text := values.Get("receiver"); text != "" {
		if q.receiver, err = regexp.Compile("^(?:" + text + ")$"); err != nil {
			return q, fmt.Errorf("receiver is no regular expression: %w", err)
		}
	}
	return q, nil
}

// parseFilters reads the matchers of filter=.
func parseFilters(texts []string) ([]*amlabels.Matcher, error) {
	var out []*amlabels.Matcher
	for _, text := range texts {
		ms, err := amlabels.ParseMatchers(text)
		if err != nil {
			return nil, fmt.Errorf("filter %q is no matcher: %w", text, err)
		}
		out = append(out, ms...)
	}
	return out, nil
}

func (q alertQuery) wantsReceiver(nodes []*node) bool {
	return q.receiver == nil || slices.ContainsFunc(receiversOf(nodes), q.receiver.MatchString)
}

func (q alertQuery) wants(a apiAlert) bool {
	if slices.ContainsFunc(q.matchers, func(m *amlabels.Matcher) bool { return !m.Matches(a.Labels[m.Name]) }) {
		return false
	}
	switch {
	case !q.active && a.Status.State == stateActive, !q.silenced && len(a.Status.SilencedBy) > 0, !q.inhibited && len(a.Status.InhibitedBy) > 0:
		return false
	default:
		return true
	}
}
