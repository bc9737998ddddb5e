package collector

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTargets(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, config string
		want         []string // labels, page, request
	}{
		{
			"labels of the group, instance from the address",
			`{job_name: vllm, static_configs: [{targets: ["b:8000", "a:8000"], labels: {rack: "1"}}]}`,
			[]string{
				`{instance="b:8000", job="vllm", rack="1"} http://b:8000/metrics http://b:8000/metrics`,
				`{instance="a:8000", job="vllm", rack="1"} http://a:8000/metrics http://a:8000/metrics`,
			},
		},
		{
			"the gateway's own path",
			`{job_name: gw, source: litellm, scheme: https, static_configs: [{targets: ["gw"]}]}`,
			[]string{`{instance="gw", job="gw"} https://gw/metrics/ https://gw/metrics/`},
		},
		{
			"scheme, path and parameters by relabelling",
			`{job_name: vllm, params: {"name[]": [a, b]}, static_configs: [{targets: ["a:8000"], labels: {__param_engine: "2", zone: x}}],
			  relabel_configs: [
			    {target_label: __scheme__, replacement: https},
			    {target_label: __metrics_path__, replacement: /engine/metrics},
			    {source_labels: [__address__], regex: "(.+):8000", target_label: __address__, replacement: "$1:9000"},
			    {source_labels: [zone], target_label: instance},
			    {regex: zone, action: labeldrop}]}`,
			[]string{`{instance="x", job="vllm"} https://a:9000/engine/metrics?engine=2&name%5B%5D=a&name%5B%5D=b https://a:9000/engine/metrics?engine=2&name%5B%5D=a&name%5B%5D=b`},
		},
		{
			"dropped by relabelling",
			`{job_name: vllm, static_configs: [{targets: ["a:8000", "b:8000"]}], relabel_configs: [{source_labels: [__address__], regex: "a.*", action: drop}]}`,
			[]string{`{instance="b:8000", job="vllm"} http://b:8000/metrics http://b:8000/metrics`},
		},
		{
			"secret parameters are asked, not shown",
			`{job_name: vllm, params: {api_key: [hush]}, static_configs: [{targets: ["a"]}]}`,
			[]string{`{instance="a", job="vllm"} http://a/metrics?api_key=redacted http://a/metrics?api_key=hush`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := decodeFile("scrape_configs: [" + strings.ReplaceAll(tt.config, "\t", " ") + "]")
			if err != nil {
				t.Fatal(err)
			}
			c := f.Scrapes[0].withDefaults(f.Global)
			targets, errs := targetsOf(&c, c.StaticConfigs)
			var got []string
			for _, f := range targets {
				got = append(got, f.target.Labels.String()+" "+f.target.URL+" "+f.address)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || errs != nil {
				t.Errorf("-want +got\n%s\nerrors %v", diff, errs)
			}
		})
	}
}

func TestIntervalByLabel(t *testing.T) {
	t.Parallel()
	f, err := decodeFile(`scrape_configs: [{job_name: a, static_configs: [{targets: [x], labels: {__scrape_interval__: 1m, __scrape_timeout__: 20s}}]}]`)
	if err != nil {
		t.Fatal(err)
	}
	c := f.Scrapes[0].withDefaults(f.Global)
	targets, _ := targetsOf(&c, c.StaticConfigs)
	if targets[0].interval.String() != "1m0s" || targets[0].timeout.String() != "20s" {
		t.Errorf("interval %s, timeout %s", targets[0].interval, targets[0].timeout)
	}
}

func TestUniqueKeepsTheFirst(t *testing.T) {
	t.Parallel()
	g := DefaultGlobalConfig()
	var all []found
	for _, job := range []string{"a", "b"} {
		c := DefaultScrapeConfig()
		c.JobName = job
		c = c.withDefaults(g)
		targets, errs := targetsOf(&c, static("x:1", job+":1"))
		if errs != nil {
			t.Fatal(errs)
		}
		all = append(all, targets...)
	}
	kept, twice := distinct(all)
	var urls []string
	for _, f := range kept {
		urls = append(urls, f.config.JobName+" "+f.target.URL)
	}
	slices.Sort(urls)
	if diff := cmp.Diff([]string{"a http://a:1/metrics", "a http://x:1/metrics", "b http://b:1/metrics"}, urls); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(twice) != 1 || twice[0].text() != `duplicate target http://x:1/metrics in job "a" and "b": remove one, it would be counted twice` {
		t.Errorf("twice %+v", twice)
	}
}
