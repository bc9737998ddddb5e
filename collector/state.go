package collector

// State is what is known of a target after its last scrape.
type State string

// The target states. A page without a known family, a redirect to an empty
// body, a 401, a 404, a 503 from admission control and a dead socket are
// different things, and are told apart.
const (
	// StateUnknown is a target that was not scraped yet.
	StateUnknown State = "unknown"
	// StateUp is a page that was read whole and holds known families.
	StateUp State = "up"
	// StateDown is a refused or reset connection, a name that does not resolve,
	// or an HTTP status that no other state stands for (500).
	StateDown State = "down"
	// StateTimeout is a scrape that took longer than scrape_timeout.
	StateTimeout State = "timeout"
	// StateRedirect is a redirect that may not be followed, or one that ends in an empty body.
	StateRedirect State = "redirect"
	// StateUnauthorised is a 401 or 403.
	StateUnauthorised State = "unauthorised"
	// StateNotFound is a 404.
	StateNotFound State = "not_found"
	// StateOverloaded is a 503: evidence of saturation, not of an outage.
	StateOverloaded State = "overloaded"
	// StateNoMetrics is a metrics page without any known family.
	StateNoMetrics State = "no_metrics"
	// StateNotMetrics is a body that is no metrics page (HTML, binary).
	StateNotMetrics State = "not_metrics"
	// StateTruncated is a page that ended early.
	StateTruncated State = "truncated"
	// StateTooLarge is a page over the body, series or label limit; it is refused whole.
	StateTooLarge State = "too_large"
	// StateMetricsDisabled is a vLLM that runs with --disable-log-stats.
	StateMetricsDisabled State = "metrics_disabled"
)

// States lists all target states in the order in which they are documented.
func States() []State {
	return []State{
		StateUnknown, StateUp, StateDown, StateTimeout, StateRedirect, StateUnauthorised, StateNotFound,
		StateOverloaded, StateNoMetrics, StateNotMetrics, StateTruncated, StateTooLarge, StateMetricsDisabled,
	}
}
