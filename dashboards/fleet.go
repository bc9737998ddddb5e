package dashboards

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Fleet returns grafana/fleet.json: the fleet at a glance. The committed file
// is written by `go test ./dashboards -run Generated -update`; a test holds the two together.
func Fleet() ([]byte, error) {
	built, err := fleetBuilder().Build()
	if err != nil {
		return nil, fmt.Errorf("build the fleet's dashboard: %w", err)
	}
	for i, p := range built.Panels {
		id := uint32(i + 1)
		if p.RowPanel != nil {
			p.RowPanel.Id = id
		} else {
			p.Panel.Id = &id
		}
	}
	out, err := json.MarshalIndent(built, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the fleet's dashboard: %w", err)
	}
	return append(out, '\n'), nil
}

// The selectors that the variables of the dashboard fill in.
const (
	ofPool   = `pool=~"$pool"`
	ofEngine = `model_name=~"$model",instance=~"$instance"`
)

// fleetBuilder uses the classic schema: every Grafana in use can import and
// provision it, the second schema only the newest.
func fleetBuilder() *dashboard.DashboardBuilder { //nolint:staticcheck // deprecated for the second schema, see above.
	board := dashboard.NewDashboardBuilder("kvwatch: the fleet") //nolint:staticcheck // as above.
	return board.
		Uid("kvwatch-fleet").
		Description("LLM serving at a glance: prefix cache, KV, queue, latency, gateway. Works on kvwatch itself as a Prometheus data source, or on a Prometheus that scrapes it.").
		Tags([]string{"kvwatch", "llm", "vllm", "litellm"}).
		Readonly().
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Refresh("30s").
		Time("now-3h", "now").
		Timezone(common.TimeZoneBrowser).
		Variables([]cog.Builder[dashboard.VariableModel]{
			dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"),
			variable("pool", "Pool", `label_values(kvwatch_pool_kv_usage_ratio, pool)`),
			variable("model", "Model", `label_values(kvwatch_pool_kv_usage_ratio{pool=~"$pool"}, model_name)`),
			variable("instance", "Engine", `label_values(kvwatch_kv_usage_ratio{model_name=~"$model"}, instance)`),
		}).
		Annotation(collapses()).
		WithRow(dashboard.NewRowBuilder("Now")).
		WithPanel(number("Alerts firing", "Alerts that fire now, by severity. 0 is good; unknown means that kvwatch tells nothing at all.", "short",
			firing("critical"), firing("warning"), firing("info"))).
		WithPanel(number("Targets up", "Share of the targets whose page was read in the last scrape.", "percentunit", query{`avg(kvwatch_target_up)`, "up"})).
		WithPanel(number("Hit rate", "Prefix-cache hit ratio of each pool over 5 minutes, weighted by tokens.", "percentunit",
			query{`kvwatch_pool_prefix_cache_hit_ratio{window="5m",` + ofPool + `}`, "{{pool}}"})).
		WithPanel(number("Waiting", "Requests that wait in the engines of each pool.", "short",
			query{`sum by (pool) (kvwatch_pool_queue_waiting_requests{` + ofPool + `})`, "{{pool}}"})).
		WithRow(dashboard.NewRowBuilder("Prefix cache")).
		WithPanel(wide(hitByPool())).
		WithPanel(wide(chart("Hit rate by engine", "Prefix-cache hit ratio of each engine over 5 minutes. One engine that falls alone has a fault of its own; all together point at routing, content or residency.", "percentunit",
			query{`kvwatch_prefix_cache_hit_ratio{window="5m",` + ofEngine + `}`, "{{instance}} {{engine}}"}).Max(1))).
		WithPanel(wide(excess())).
		WithPanel(wide(chart("Tokens prefilled again", "Prompt tokens a second that were computed although they had been computed before.", "short",
			query{`rate(kvwatch_pool_reprefilled_tokens_total{` + ofPool + `}[$__rate_interval])`, "{{pool}}"}))).
		WithRow(dashboard.NewRowBuilder("KV and queue")).
		WithPanel(chart("KV in use", "Share of the KV cache that live sequences hold. Blocks that are cached but free do not count, so this says nothing about room for the prefix cache.", "percentunit",
			query{`kvwatch_pool_kv_usage_ratio{` + ofPool + `}`, "{{pool}}"},
			query{`kvwatch_kv_usage_ratio{` + ofEngine + `}`, "{{instance}} {{engine}}"}).Max(1)).
		WithPanel(chart("Free seats", "Calls of the usual size that still fit into the KV cache.", "short",
			query{`kvwatch_pool_kv_free_seats{` + ofPool + `}`, "{{pool}}"})).
		WithPanel(chart("Waiting requests", "Requests in the engines' queues, by the reason that the engine gives.", "short",
			query{`kvwatch_pool_queue_waiting_requests{` + ofPool + `}`, "{{pool}} {{reason}}"})).
		WithPanel(chart("Time to drain", "How long the queue takes at the present rate of finished requests.", "s",
			query{`kvwatch_pool_queue_drain_seconds{` + ofPool + `}`, "{{pool}}"})).
		WithPanel(chart("Preemptions", "Sequences a second that were thrown out of the KV cache and start over.", "short",
			query{`rate(kvwatch_preemptions_total{` + ofEngine + `}[$__rate_interval])`, "{{instance}} {{engine}}"})).
		WithRow(dashboard.NewRowBuilder("Latency")).
		WithPanel(wide(quantiles("Time to first token", "From the arrival at the engine to the first token, successful requests of the last 5 minutes. The 95th percentile of agents is mostly the calls at a turn's boundary.", "kvwatch_pool_ttft_seconds"))).
		WithPanel(wide(quantiles("Time between tokens", "Between two tokens of one request, over the last 5 minutes.", "kvwatch_pool_itl_seconds"))).
		WithRow(dashboard.NewRowBuilder("Gateway")).
		WithPanel(chart("In flight", "Requests that the gateway holds now.", "short", query{`kvwatch_gateway_in_flight_requests`, "{{instance}}"})).
		WithPanel(chart("Saturation", "In flight as a share of workers times their cap; absent where the cap is not configured.", "percentunit", query{`kvwatch_gateway_saturation_ratio`, "{{instance}}"}).Max(1)).
		WithPanel(chart("Overhead", "What the gateway itself adds to a request. Read it with its coverage: streamed calls often carry none.", "s",
			query{`kvwatch_gateway_overhead_seconds{quantile="0.5"}`, "{{instance}} p50"},
			query{`kvwatch_gateway_overhead_seconds{quantile="0.95"}`, "{{instance}} p95"})).
		WithPanel(chart("Overhead coverage", "Share of the requests for which the gateway reports its overhead.", "percentunit", query{`kvwatch_gateway_overhead_coverage_ratio`, "{{instance}}"}).Max(1)).
		WithPanel(chart("Rejected and cooled down", "Requests refused and deployments cooled down, a minute.", "short",
			query{`60 * rate(kvwatch_gateway_rejected_requests_total[$__rate_interval])`, "{{instance}} rejected"},
			query{`60 * rate(kvwatch_gateway_cooldowns_total[$__rate_interval])`, "{{instance}} cooldowns"})).
		WithRow(dashboard.NewRowBuilder("kvwatch itself")).
		WithPanel(list("Targets that are not up", "Each target that could not be read, with its state.", `sum by (job, instance, state) (kvwatch_target_state{state!="up"}) > 0`)).
		WithPanel(list("Series to read with care", "Derived series that are not plainly measured: partial, stale, reset, sampled, absent.", `count by (series, quality) (kvwatch_series_quality{quality!="ok"} > 0)`)).
		WithPanel(chart("Scrape duration", "How long the slowest and the usual target take to answer.", "s",
			query{`max(kvwatch_target_scrape_duration_seconds)`, "slowest"},
			query{`quantile(0.5, kvwatch_target_scrape_duration_seconds)`, "median"})).
		WithPanel(chart("Notifications", "Notifications a minute by receiver and outcome.", "short",
			query{`sum by (receiver, outcome) (60 * rate(kvwatch_notifications_total[$__rate_interval]))`, "{{receiver}} {{outcome}}"})).
		WithPanel(number("Configuration", "1 when the last reload of the configuration succeeded.", "short", query{`kvwatch_config_last_reload_successful`, "loaded"})).
		WithPanel(number("Version", "The build that runs.", "short", query{`kvwatch_build_info`, "{{version}}"}))
}

// query is one PromQL expression with the name of its lines.
type query struct{ expr, legend string }

// target is the i-th query of a panel.
func (q query) target(i int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).Range().RefId(string(rune('A' + i)))
}

// firing counts the alerts of a severity: zero where kvwatch is seen and none fires.
func firing(severity string) query {
	return query{fmt.Sprintf(`sum(kvwatch_alerts{state="firing",severity=%q}) or 0 * count(kvwatch_target_up)`, severity), severity}
}

func dataSource() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}

// variable is a list of label values to choose from; all of them at first.
func variable(name, label, expr string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(dataSource()).
		Query(dashboard.StringOrMap{String: &expr}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(".*").
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

// collapses marks the times in which a prefix cache has collapsed.
func collapses() *dashboard.AnnotationQueryBuilder {
	return dashboard.NewAnnotationQueryBuilder().
		Name("Collapses").
		Datasource(dataSource()).
		Enable(true).
		IconColor("red").
		Expr(`kvwatch_alerts{alertname="PrefixCacheCollapse",state="firing"} > 0`).
		TitleFormat("PrefixCacheCollapse")
}

// chart is a panel of lines over time; gaps stay gaps.
func chart(title, description, unit string, queries ...query) *timeseries.PanelBuilder {
	panel := timeseries.NewPanelBuilder().
		Title(title).
		Description(description).
		Datasource(dataSource()).
		Unit(unit).
		Min(0).
		Span(8).
		Height(8).
		LineWidth(1.5).
		FillOpacity(6).
		ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	for i, q := range queries {
		panel.WithTarget(q.target(i))
	}
	return panel
}

// wide gives a panel half of the width.
func wide(panel *timeseries.PanelBuilder) *timeseries.PanelBuilder { return panel.Span(12) }

func hitByPool() *timeseries.PanelBuilder {
	return chart("Hit rate and what is usual", "Prefix-cache hit ratio of each pool over 5 minutes, with its baseline: the median of the last 72 hours with traffic.", "percentunit",
		query{`kvwatch_pool_prefix_cache_hit_ratio{window="5m",` + ofPool + `}`, "{{pool}}"},
		query{`kvwatch_pool_prefix_cache_hit_ratio_baseline{` + ofPool + `}`, "{{pool}} usual"},
	).Max(1).OverrideByRegexp(".* usual", []dashboard.DynamicConfigValue{
		{Id: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{8, 6}}},
		{Id: "custom.fillOpacity", Value: 0},
	})
}

func excess() *timeseries.PanelBuilder {
	return chart("Computed again, in full prompts (S)", "Prompt tokens computed beyond the usual, in prompts of the usual size. By default PrefixCacheCollapse fires at 40.", "short",
		query{`kvwatch_pool_reprefill_excess_prompts{` + ofPool + `}`, "{{pool}}"},
	).
		Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps([]dashboard.Threshold{
			{Color: "green"}, {Value: new(40.0), Color: "red"},
		})).
		ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
}

func quantiles(title, description, series string) *timeseries.PanelBuilder {
	return chart(title, description, "s",
		query{series + `{quantile="0.5",` + ofPool + `}`, "{{pool}} p50"},
		query{series + `{quantile="0.95",` + ofPool + `}`, "{{pool}} p95"})
}

// number is a panel of single values.
func number(title, description, unit string, queries ...query) *stat.PanelBuilder {
	panel := stat.NewPanelBuilder().
		Title(title).
		Description(description).
		Datasource(dataSource()).
		Unit(unit).
		Span(6).
		Height(5).
		NoValue("unknown").
		ColorMode(common.BigValueColorModeNone).
		GraphMode(common.BigValueGraphModeArea).
		TextMode(common.BigValueTextModeValueAndName).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
	for i, q := range queries {
		panel.WithTarget(q.target(i))
	}
	return panel
}

// list is a table of what an expression finds now.
func list(title, description, expr string) *table.PanelBuilder {
	return table.NewPanelBuilder().
		Title(title).
		Description(description).
		Datasource(dataSource()).
		Span(8).
		Height(8).
		NoValue("none").
		WithTarget(prometheus.NewDataqueryBuilder().Expr(expr).Format(prometheus.PromQueryFormatTable).Instant().RefId("A")).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": map[string]bool{"Time": true},
		}})
}
