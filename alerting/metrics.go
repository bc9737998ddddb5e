package alerting

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of a request.
const (
	outcomeSuccess = "success" // it arrived
	outcomeRetried = "retried" // it failed and will be tried again
	outcomeFailed  = "failed"  // it was refused for good
	outcomeWaiting = "waiting" // nothing went out yet
	outcomeDropped = "dropped" // a chart that nobody waits for
)

type metrics struct{ notifications, charts *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) (metrics, error) {
	m := metrics{notifications: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kvwatch_notifications_total",
		Help: "Requests to receivers by outcome: success, retried (failed, to be tried again), failed (refused for good).",
	}, []string{"receiver", "outcome"}), charts: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kvwatch_notification_charts_total",
		Help: "Charts for messages that arrived by outcome: success, failed, dropped (too many wait). A message never waits for its chart.",
	}, []string{"receiver", "outcome"})}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(r.Register(m.notifications), r.Register(m.charts))
}

// expect makes the series of a receiver exist before anything happens, so that
// a first failure is an increase.
func (m metrics) expect(receiver string) {
	for _, outcome := range []string{outcomeSuccess, outcomeRetried, outcomeFailed} {
		m.notifications.WithLabelValues(receiver, outcome)
	}
}

// expectCharts does the same for the charts of a receiver that has them.
func (m metrics) expectCharts(receiver string) {
	for _, outcome := range []string{outcomeSuccess, outcomeFailed, outcomeDropped} {
		m.charts.WithLabelValues(receiver, outcome)
	}
}

func (m metrics) count(receiver, outcome string) {
	m.notifications.WithLabelValues(receiver, outcome).Inc()
}
