// Package web is the page that the daemon serves at /, and its JSON API. It
// shows what the stages before it hand over and judges nothing itself.
package web

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/storage"

	"kvwatch/collector"
	"kvwatch/rules"
)

// Options is what the page needs of the stages before it.
type Options struct {
	// Version is shown beside the product's name.
	Version string
	// ExternalURL is the address under which people reach this page; the path
	// in it is the prefix of all links. Empty means "/".
	ExternalURL string
	// Demo says that the fleet is simulated; a banner tells so.
	Demo bool
	// TimeScaleNote is said in the banner: "its rules run 20 times faster".
	TimeScaleNote string
	// Interval is the scrape interval, at which the page refreshes; 0 means 15 s.
	Interval time.Duration

	// Targets, Recorded, Alerts and Detectors give the present state; they are
	// called for each request and must be safe for concurrent use. What they
	// return is not changed.
	Targets   func() []collector.TargetStatus
	Recorded  func() []rules.Recorded
	Alerts    func() []rules.Alert
	Detectors func() []rules.DetectorStatus
	// PoolOf tells the pool of an engine; nil, or "" as answer, leaves it to
	// the pool's model_name and to the default name <job>/<model_name>.
	PoolOf func(job, instance, modelName string) string

	// Queryable answers the charts' queries.
	Queryable storage.Queryable
	// Now is the clock.
	Now    func() time.Time
	Logger *slog.Logger
	// Runbooks holds <alert name>.md; nil means that there are none.
	Runbooks fs.FS
}

// New makes the handler of the page and its API.
func New(o Options) (http.Handler, error) {
	if o.Targets == nil || o.Recorded == nil || o.Alerts == nil || o.Detectors == nil {
		return nil, errors.New("web: Targets, Recorded, Alerts and Detectors must be set")
	}
	if o.Queryable == nil || o.Now == nil || o.Logger == nil {
		return nil, errors.New("web: Queryable, Now and Logger must be set")
	}
	return http.NotFoundHandler(), nil
}
