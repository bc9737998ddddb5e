package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"kvwatch/cmd/fleetsim/fleet"
)

// serveFleet runs a simulated fleet until ctx ends.
func serveFleet(ctx context.Context, stdout io.Writer, base *net.TCPAddr, speed float64, config fleet.Config) error {
	config.Start = time.Now()
	f, err := fleet.New(config)
	if err != nil {
		return err
	}
	listeners, err := listenFrom(ctx, base, f.Config().Engines+f.Config().Standby+1)
	if err != nil {
		return err
	}
	describeFleet(stdout, f, listeners)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.ServeOn(ctx, listeners) })
	group.Go(func() error { return f.Run(ctx, speed) })
	return group.Wait()
}

// listenFrom opens n listeners on the base address and the ports after it.
func listenFrom(ctx context.Context, base *net.TCPAddr, n int) ([]net.Listener, error) {
	var listen net.ListenConfig
	var listeners []net.Listener
	for i := range n {
		address := *base
		if base.Port != 0 {
			address.Port += i
		}
		l, err := listen.Listen(ctx, "tcp", address.String())
		if err != nil {
			for _, open := range listeners {
				_ = open.Close()
			}
			return nil, fmt.Errorf("%w (choose another --listen: it takes %d ports from there)", err, n)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// describeFleet prints what runs where, as a scrape configuration.
func describeFleet(w io.Writer, f *fleet.Fleet, listeners []net.Listener) {
	s := f.Scenario()
	fmt.Fprintf(w, "# scenario %s: %s\n", s.Name, s.Description)
	if s.Onset > 0 {
		fmt.Fprintf(w, "# begins after %v", s.Onset)
		if s.End > 0 {
			fmt.Fprintf(w, ", ends after %v", s.End)
		}
		fmt.Fprintln(w, " (simulated time)")
	}
	last := len(listeners) - 1
	fmt.Fprintln(w, "scrape_configs:")
	fmt.Fprintf(w, jobHead, "vllm", "vllm")
	for _, l := range listeners[:last] {
		fmt.Fprintf(w, "      - targets: [%q]\n", l.Addr())
	}
	fmt.Fprintf(w, jobHead, "gateway", "litellm")
	fmt.Fprintf(w, "      - targets: [%q]\n", listeners[last].Addr())
}

// jobHead begins a job of the printed scrape configuration.
const jobHead = `  - job_name: %s
    source: %s
    scrape_interval: 1s
    scrape_timeout: 1s
    static_configs:
`
