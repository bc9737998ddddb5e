package web

import (
	"fmt"
	"net/http"
	"time"
)

// eventsShown is how far back the page shows events.
const eventsShown = 24 * time.Hour

// events answers /api/v1/kvwatch/events?from=&to= with the events of that time,
// the last day when nothing is said.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	now := p.o.Now()
	from, err := timeOr(r.FormValue("from"), now.Add(-eventsShown))
	if err != nil {
		p.failure(w, http.StatusBadRequest, "bad_data", "from: "+err.Error())
		return
	}
	to, err := timeOr(r.FormValue("to"), now)
	if err != nil {
		p.failure(w, http.StatusBadRequest, "bad_data", "to: "+err.Error())
		return
	}
	p.success(w, map[string]any{"events": p.o.Events(from, to)})
}

func timeOr(text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	t, err := parseTime(text)
	if err != nil {
		return t, fmt.Errorf("%w: give RFC 3339 or Unix seconds", err)
	}
	return t, nil
}
