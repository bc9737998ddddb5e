package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/version"

	"kvwatch/collector"
)

// selfMetrics is what kvwatch tells of itself beside the derived series.
type selfMetrics struct {
	evaluation    prometheus.Histogram
	reloadSuccess prometheus.Gauge
	reloadTime    prometheus.Gauge
}

func newSelfMetrics(reg prometheus.Registerer) *selfMetrics {
	m := &selfMetrics{
		evaluation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kvwatch_rule_evaluation_seconds", Help: "Time that one evaluation of all rules took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}),
		reloadSuccess: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kvwatch_config_last_reload_successful", Help: "Whether the last reload of the configuration succeeded.",
		}),
		reloadTime: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kvwatch_config_last_reload_success_timestamp_seconds", Help: "When the configuration was last loaded with success.",
		}),
	}
	reg.MustRegister(m.evaluation, m.reloadSuccess, m.reloadTime, versioncollector.NewCollector("kvwatch"),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.reloadSuccess.Set(1)
	m.reloadTime.SetToCurrentTime()
	return m
}

// scrapeDurations shows how long each target's last scrape took.
type scrapeDurations struct {
	targets func() []collector.TargetStatus
	desc    *prometheus.Desc
}

func newScrapeDurations(targets func() []collector.TargetStatus) *scrapeDurations {
	return &scrapeDurations{
		targets: targets,
		desc: prometheus.NewDesc("kvwatch_target_scrape_duration_seconds", "How long the last scrape of the target took.",
			[]string{"job", "instance"}, nil),
	}
}

// Describe names the one metric.
func (s *scrapeDurations) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect leaves out targets that were not scraped yet.
func (s *scrapeDurations) Collect(ch chan<- prometheus.Metric) {
	for _, t := range s.targets() {
		if !t.LastScrape.IsZero() {
			ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, t.Duration.Seconds(), t.Job, t.Instance)
		}
	}
}

// versionString is the build's version, or "dev" where none was set.
func versionString() string {
	if version.Version == "" {
		return "dev"
	}
	return version.Version
}
