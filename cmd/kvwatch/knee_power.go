package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	// powerSeries is the draw of one GPU in watts, as the DCGM exporter has it.
	powerSeries = "DCGM_FI_DEV_POWER_USAGE"
	// powerPatience bounds one query.
	powerPatience = 30 * time.Second
)

// powerSource asks a server what GPUs drew.
type powerSource struct {
	client   promapi.API
	selector string
}

// newPowerSource checks the address and the selector; nothing is contacted.
func newPowerSource(address, selector string) (*powerSource, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("--prometheus.url is no http:// or https:// address: write http://prometheus:9090")
	}
	if selector != "" && !strings.HasPrefix(selector, "{") {
		return nil, fmt.Errorf(`--power.selector %s: write it in braces, as in {Hostname="gpu-1"}`, selector)
	}
	if _, err := parser.NewParser(parser.Options{}).ParseMetricSelector(powerSeries + selector); err != nil {
		return nil, fmt.Errorf("--power.selector %s: %w", selector, err)
	}
	client, err := api.NewClient(api.Config{Address: address})
	if err != nil {
		return nil, fmt.Errorf("--prometheus.url: %w", err)
	}
	return &powerSource{promapi.NewAPI(client), selector}, nil
}

// errNoPower is a server without GPUs.
var errNoPower = errors.New("the server has no " + powerSeries + " of that time")

// watts is what all GPUs drew together on average between two moments.
func (p *powerSource) watts(ctx context.Context, from, to time.Time) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, powerPatience)
	defer cancel()
	query := fmt.Sprintf("sum(avg_over_time(%s%s[%dms]))", powerSeries, p.selector, max(to.Sub(from).Milliseconds(), 1))
	answer, _, _, err := p.client.Query(ctx, query, to)
	if err != nil {
		return 0, withoutAddress(err)
	}
	vector, ok := answer.(model.Vector)
	if !ok || len(vector) == 0 || math.IsNaN(float64(vector[0].Value)) {
		return 0, errNoPower
	}
	return float64(vector[0].Value), nil
}

// withoutAddress drops the address from an error of HTTP: it may hold a password.
func withoutAddress(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// addPower averages the GPUs' draw over the time of each level. A level without
// stays without, and a warning says why.
func (r *kneeReport) addPower(ctx context.Context, from *powerSource) {
	missing := map[string][]string{}
	var order []string
	for i := range r.Levels {
		l := &r.Levels[i]
		why := l.addPower(ctx, from)
		if why == nil {
			continue
		}
		if _, seen := missing[why.Error()]; !seen {
			order = append(order, why.Error())
		}
		missing[why.Error()] = append(missing[why.Error()], fmt.Sprint(i))
	}
	for _, why := range order {
		r.Warnings = append(r.Warnings, fmt.Sprintf("no power of level %s: %s", strings.Join(missing[why], ", "), why))
	}
}

func (l *kneeLevel) addPower(ctx context.Context, from *powerSource) error {
	if l.Start == nil {
		return errors.New("the report does not say when it ran")
	}
	watts, err := from.watts(ctx, *l.Start, *l.End)
	if err != nil {
		return err
	}
	l.PowerWatts = &watts
	if l.OutputTPS != nil && *l.OutputTPS > 0 {
		joules := watts / *l.OutputTPS
		l.JoulesPerToken = &joules
	}
	return nil
}
