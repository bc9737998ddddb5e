package alerting

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	amlabels "github.com/prometheus/alertmanager/pkg/labels"
)

// mostSilenceBody bounds the body of a silence, in bytes.
const mostSilenceBody = 64 << 10

// Silences returns the silences, those that ended lately too.
func (d *Dispatcher) Silences(now time.Time) []Silence { return d.silences.all(now) }

// Silence makes a silence, or changes the one with its ID, and returns the ID.
func (d *Dispatcher) Silence(s Silence, now time.Time) (id string, err error) {
	id, err = d.silences.set(s, now)
	if err == nil {
		d.logger.Info("A silence is in effect", "silence", id, "until", s.EndsAt)
	}
	return id, err
}

// ExpireSilence ends a silence.
func (d *Dispatcher) ExpireSilence(id string, now time.Time) error {
	err := d.silences.expire(id, now)
	if err == nil {
		d.logger.Info("A silence was ended", "silence", id)
	}
	return err
}

// silenceAPI serves the silences.
type silenceAPI struct {
	d   *Dispatcher
	now func() time.Time
}

// list takes filter=matcher, repeatedly: it returns the silences that have such
// matchers, as Alertmanager does.
func (api silenceAPI) list(w http.ResponseWriter, r *http.Request) {
	filters, err := parseFilters(r.URL.Query()["filter"])
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	all := api.d.Silences(api.now())
	answer(w, slices.DeleteFunc(all, func(s Silence) bool {
		values := map[string]string{}
		for _, m := range s.Matchers {
			values[m.Name] = m.Value
		}
		return slices.ContainsFunc(filters, func(m *amlabels.Matcher) bool { return !m.Matches(values[m.Name]) })
	}))
}

func (api silenceAPI) get(w http.ResponseWriter, r *http.Request) {
	s, err := api.d.silences.get(r.PathValue("id"), api.now())
	if err != nil {
		fail(w, http.StatusNotFound, err)
		return
	}
	answer(w, s)
}

func (api silenceAPI) post(w http.ResponseWriter, r *http.Request) {
	// Fields that are not known are passed over: clients of Alertmanager send more.
	var s Silence
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostSilenceBody)).Decode(&s); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("the body is no silence: %w", err))
		return
	}
	id, err := api.d.Silence(s, api.now())
	switch {
	case errors.Is(err, ErrNoSilence):
		fail(w, http.StatusNotFound, err)
	case err != nil:
		fail(w, http.StatusBadRequest, err)
	default:
		answer(w, map[string]string{"silenceID": id})
	}
}

func (api silenceAPI) expire(w http.ResponseWriter, r *http.Request) {
	err := api.d.ExpireSilence(r.PathValue("id"), api.now())
	switch {
	case errors.Is(err, ErrNoSilence):
		fail(w, http.StatusNotFound, err)
	case err != nil:
		fail(w, http.StatusBadRequest, err)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

// fail writes an error as Alertmanager does: a JSON string.
func fail(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(err.Error()) // the client is gone
}
