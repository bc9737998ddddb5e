package alerting

import "github.com/prometheus/client_golang/prometheus"

// The outcomes of a request.
const (
	outcomeSuccess = "success" // it arrived
	outcomeRetried = "retried" // it failed and will be tried again
	outcomeFailed  = "failed"  // it was refused for good
	outcomeWaiting = "waiting" // nothing went out yet
)

type metrics struct{ notifications *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) (metrics, error) {
	m := metrics{notifications: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kvwatch_notifications_total",
		Help: "Requests to receivers by outcome: success, retried (failed, to be tried again), failed (refused for good).",
	}, []string{"receiver", "outcome"})}
	if r == nil {
		return m, nil
	}
	return m, r.Register(m.notifications)
}

// expect makes the series of a receiver exist before anything happens, so that
// a first failure is an increase.
func (m metrics) expect(receiver string) {
	for _, outcome := range []string{outcomeSuccess, outcomeRetried, outcomeFailed} {
		m.notifications.WithLabelValues(receiver, outcome)
	}
}

func (m metrics) count(receiver, outcome string) {
	m.notifications.WithLabelValues(receiver, outcome).Inc()
}
