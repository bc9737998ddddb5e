package collector

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// testFile is the part of a configuration file that belongs to this package.
type testFile struct {
	Global  GlobalConfig   `yaml:"global"`
	Scrapes []ScrapeConfig `yaml:"scrape_configs"`
}

func decodeFile(text string) (testFile, error) {
	f := testFile{Global: DefaultGlobalConfig()}
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return f, err
	}
	return f, CheckConfig(f.Global, f.Scrapes)
}

const goodConfig = `
global: {scrape_interval: 10s, scrape_timeout: 5s, external_labels: {cluster: madrid}}
scrape_configs:
  - job_name: vllm
    source: vllm
    static_configs: [{targets: ["vllm-0:8000", "vllm-1:8000"], labels: {rack: a}}]
  - job_name: gateway
    source: litellm
    scrape_interval: 30s
    scheme: https
    body_size_limit: 128MB
    sample_limit: 1000
    params: {"name[]": [a, b]}
    authorization: {credentials_file: /etc/kvwatch/litellm.key}
    tls_config: {ca_file: /etc/kvwatch/ca.pem}
    gateway: {workers: 4, max_in_flight_per_worker: 24, concurrent_token_counts: 4, dedicated_port: true}
    static_configs: [{targets: ["gateway:4000"]}]
  - job_name: found
    basic_auth: {username: me, password: hush}
    file_sd_configs: [{files: ["targets/*.yml"], refresh_interval: 1m}]
    http_sd_configs: [{url: "http://registry/targets"}]
    dns_sd_configs: [{names: [engines.svc], type: A, port: 8000}]
    relabel_configs:
      - {source_labels: [__address__], regex: "(.+):.*", target_label: instance}
`

func TestConfig(t *testing.T) {
	t.Parallel()
	f, err := decodeFile(goodConfig)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Global.ExternalLabels.Get("cluster"); got != "madrid" {
		t.Errorf("external label cluster is %q", got)
	}
	vllm, gateway, found := f.Scrapes[0].withDefaults(f.Global), f.Scrapes[1].withDefaults(f.Global), f.Scrapes[2].withDefaults(f.Global)
	if vllm.MetricsPath != "/metrics" || vllm.Scheme != "http" || time.Duration(vllm.ScrapeInterval) != 10*time.Second || time.Duration(vllm.ScrapeTimeout) != 5*time.Second {
		t.Errorf("vllm: %+v", vllm)
	}
	if diff := cmp.Diff(DefaultLimits(), vllm.limits()); diff != "" {
		t.Errorf("default limits: -want +got\n%s", diff)
	}
	if gateway.MetricsPath != "/metrics/" || time.Duration(gateway.ScrapeInterval) != 30*time.Second || time.Duration(gateway.ScrapeTimeout) != 5*time.Second {
		t.Errorf("gateway: %+v", gateway)
	}
	if l := gateway.limits(); l.BodyBytes != 128<<20 || l.Series != 1000 {
		t.Errorf("gateway's limits: %+v", l)
	}
	want := GatewaySettings{Workers: 4, MaxInFlightPerWorker: 24, ConcurrentTokenCounts: 4, DedicatedPort: true}
	if gateway.Gateway != want || gateway.HTTPClientConfig.Authorization.Type != "Bearer" || !gateway.HTTPClientConfig.FollowRedirects {
		t.Errorf("gateway: %+v", gateway)
	}
	if diff := cmp.Diff(url.Values{"name[]": {"a", "b"}}, gateway.Params); diff != "" {
		t.Errorf("params: -want +got\n%s", diff)
	}
	if n := len(found.discoverers()); n != 3 {
		t.Errorf("%d discoverers, want 3", n)
	}
	found.SetDirectory("/etc/kvwatch")
	if got := found.FileSDConfigs[0].Files[0]; got != "/etc/kvwatch/targets/*.yml" {
		t.Errorf("file %q", got)
	}
}

func TestTimeoutFollowsInterval(t *testing.T) {
	t.Parallel()
	f, err := decodeFile("global: {scrape_interval: 5s}\nscrape_configs: [{job_name: a}, {job_name: b, scrape_interval: 2s}]\n")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"5s", "2s"} {
		if got := f.Scrapes[i].withDefaults(f.Global).ScrapeTimeout; got.String() != want {
			t.Errorf("job %d: timeout %s, want %s", i, got, want)
		}
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	job := func(lines ...string) string {
		return "scrape_configs:\n  - job_name: a\n    " + strings.Join(lines, "\n    ") + "\n"
	}
	tests := []struct{ name, config, want string }{
		{"unknown key", job("sauce: vllm"), `line 3: scrape_configs job "a": unknown key "sauce"`},
		{"unknown key of the gateway", job("gateway: {worker: 4}"), `line 3: scrape_configs job "a": unknown key "worker"`},
		{"unknown key of the credentials", job("authorization:", "  credential: x"), `line 4: scrape_configs job "a": unknown key "credential"`},
		{"unknown key of static targets", job("static_configs: [{target: [a]}]"), `line 3: scrape_configs job "a": unknown key "target"`},
		{"unknown global key", "global: {interval: 5s}\n", `line 1: global: unknown key "interval"`},
		{"bad duration", job("scrape_timeout: 5s", "scrape_interval: 10 sec"), `line 4: scrape_configs job "a": scrape_interval is not valid: unknown unit " sec" in duration "10 sec"; write 15s, 1m or 1h30m`},
		{"bad global duration", "global:\n  scrape_interval: soon\n", `line 2: global: scrape_interval is not valid: `},
		{"no interval", "global: {scrape_interval: 0s}\n", "line 1: global: scrape_interval must be more than 0"},
		{"unknown source", job("source: sglang"), `line 3: scrape_configs job "a": source "sglang" is unknown: use litellm or vllm, or leave it out to recognise it from the page`},
		{"unknown scheme", job("scheme: ftp"), `line 3: scrape_configs job "a": scheme "ftp" is unknown: use http or https`},
		{"path", job("metrics_path: metrics"), `line 3: scrape_configs job "a": metrics_path "metrics" does not begin with /`},
		{"no name", "scrape_configs: [{source: vllm}]\n", "line 1: scrape_configs: job_name is missing"},
		{"same name", "scrape_configs:\n  - job_name: a\n  - job_name: a\n", `line 3: scrape_configs job "a": job_name is used twice (first on line 2): rename one`},
		{"timeout of the job", job("scrape_interval: 5s", "scrape_timeout: 6s"), `line 4: scrape_configs job "a": scrape_timeout 6s is longer than the scrape_interval of 5s: lower it or raise the interval`},
		{"timeout over the global interval", job("scrape_timeout: 20s"), `line 2: scrape_configs job "a": scrape_timeout 20s is longer than the scrape_interval of 15s`},
		{"global timeout", "global: {scrape_timeout: 20s}\n", "line 1: global: scrape_timeout 20s is longer than the scrape_interval of 15s"},
		{"global label", `global: {external_labels: {"a b": x}}`, `external_labels "a b" is no valid label name`},
		{"gateway at an engine", job("source: vllm", "gateway: {workers: 2}"), `line 4: scrape_configs job "a": gateway is only for source litellm`},
		{"negative workers", job("gateway: {workers: -1}"), `line 3: scrape_configs job "a": gateway has a negative number`},
		{"negative limit", job("sample_limit: -1"), `line 3: scrape_configs job "a": sample_limit is negative`},
		{"kind of value", job("sample_limit: many"), `line 3: scrape_configs job "a": wrong kind of value, a whole number is expected`},
		{"secret in the wrong place", job("authorization: sk-hush"), `line 3: scrape_configs job "a": wrong kind of value, a block of keys is expected`},
		{"two credentials", job("authorization: {credentials: x}", "basic_auth: {username: x}"), `line 2: scrape_configs job "a": at most one of basic_auth, oauth2 & authorization must be configured`},
		{"relabelling", job("relabel_configs: [{action: hashmod, target_label: x}]"), `line 3: scrape_configs job "a": relabel_configs relabel configuration for hashmod requires non-zero modulus`},
		{"regular expression", job(`relabel_configs: [{regex: "("}]`), "line 3: scrape_configs job \"a\": relabel_configs is not valid: error parsing regexp"},
		{"empty static entry", job("static_configs: [null]"), `line 3: scrape_configs job "a": static_configs has an empty entry`},
		{"URL as target", job(`static_configs: [{targets: ["http://a:8000/metrics"]}]`), `line 2: scrape_configs job "a": static_configs target "http://a:8000/metrics" is a URL: write host:port, and use scheme and metrics_path for the rest`},
		{"user info", job(`static_configs: [{targets: ["me:sk-hush@a:8000"]}]`), `target …@a:8000 holds user info: write host:port and put the credentials into basic_auth or authorization`},
		{"path in a target", job(`static_configs: [{targets: ["a:8000/metrics"]}]`), `target "a:8000/metrics": "a:8000/metrics" is not a valid hostname`},
		{"target twice in a job", job(`static_configs: [{targets: ["a:1", "a:1"]}]`), `line 2: scrape_configs job "a": static_configs duplicate target http://a:1/metrics twice in job "a": remove one`},
		{"target in two jobs", "scrape_configs:\n" +
			"  - {job_name: a, static_configs: [{targets: [\"x:1\"]}]}\n" +
			"  - {job_name: b, static_configs: [{targets: [\"x:1\"]}]}\n", `line 3: scrape_configs job "b": static_configs duplicate target http://x:1/metrics in job "a" and "b": remove one`},
		{"same instance", job(`static_configs: [{targets: ["a:1", "b:1"], labels: {instance: i}}]`), `duplicate target instance "i" (http://a:1/metrics and http://b:1/metrics) twice in job "a"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := decodeFile(tt.config)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant …%s…", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "collector.")) {
				t.Errorf("a secret or a Go type is told: %v", err)
			}
		})
	}
}

func TestAllProblemsAreTold(t *testing.T) {
	t.Parallel()
	_, err := decodeFile("scrape_configs:\n  - {job_name: a, source: x, scheme: y}\n  - {job_name: b, z: 1}\n")
	for _, want := range []string{`source "x"`, `scheme "y"`, `unknown key "z"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestFilesAreReadAtStart(t *testing.T) {
	t.Parallel()
	c := DefaultScrapeConfig()
	c.JobName = "a"
	c.HTTPClientConfig.TLSConfig.CAFile = "/nowhere/ca.pem"
	_, err := New(Options{Global: DefaultGlobalConfig(), Scrapes: []ScrapeConfig{c}, Sink: ignore})
	if err == nil || !strings.Contains(err.Error(), `scrape_configs job "a"`) || !strings.Contains(err.Error(), "/nowhere/ca.pem") {
		t.Errorf("got %v", err)
	}
}

// FuzzScrapeConfig holds the decoder to errors instead of panics, and what it
// takes to settings that can be scraped with.
func FuzzScrapeConfig(f *testing.F) {
	f.Add([]byte(goodConfig))
	f.Add([]byte("scrape_configs: [{job_name: a, source: vllm, static_configs: [{targets: [a]}, {targets: [a]}]}]"))
	f.Add([]byte("scrape_configs: [null, {relabel_configs: [null]}, {static_configs: [null]}]"))
	f.Add([]byte("global: {scrape_interval: -5s, scrape_timeout: 1y, external_labels: {a: b}}"))
	f.Add([]byte("scrape_configs: [{job_name: a, <<: {scheme: https}, static_configs: [{targets: ['[::1]:80'], labels: {__scrape_interval__: 0s}}]}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("scrape_configs: [{job_name: a, body_size_limit: 1EB, params: {a: []}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte("file")) {
			return // what is read from disk is another matter
		}
		file, err := decodeFile(string(text))
		if err != nil {
			return
		}
		for _, c := range file.Scrapes {
			c = c.withDefaults(file.Global)
			if c.ScrapeInterval <= 0 || c.ScrapeTimeout <= 0 || c.ScrapeTimeout > c.ScrapeInterval {
				t.Errorf("job %q: interval %s, timeout %s", c.JobName, c.ScrapeInterval, c.ScrapeTimeout)
			}
			targets, _ := targetsOf(&c, c.StaticConfigs)
			for _, target := range targets {
				if target.target.Labels.Get(model.JobLabel) == "" || target.interval <= 0 || target.timeout <= 0 {
					t.Errorf("target %+v", target)
				}
			}
		}
	})
}
