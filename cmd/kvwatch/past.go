package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/alerting/chart"
	"kvwatch/collector/history"
	"kvwatch/rules"
)

// past reads recorded series for the charts of messages. Series that match
// together add up.
func (d *daemon) past(ctx context.Context, q rules.Query, from, to time.Time) ([]chart.Point, error) {
	matchers := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, q.Name)}
	for name, value := range q.Labels {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, name, value))
	}
	sums := map[int64]float64{}
	err := d.store.Scan(ctx, from, to, matchers, func(_ labels.Labels, points []history.Point) error {
		for _, p := range points {
			sums[p.T] += p.V
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]chart.Point, 0, len(sums))
	for _, t := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, chart.Point{At: time.UnixMilli(t), Value: sums[t]})
	}
	return out, nil
}
