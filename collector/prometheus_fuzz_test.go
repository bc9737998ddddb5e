package collector

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// FuzzPrometheusAnswer reads whatever a server may answer, for the present and
// for a stretch of time: what is wrong is told with a state, what is taken
// keeps its bounds and makes rounds of numbers.
func FuzzPrometheusAnswer(f *testing.F) {
	for _, result := range []string{
		``, vectorOf(1000.25, `vllm:num_requests_running{job="v",instance="a"} 3`, `up{job="v",instance="a"} 1`),
		`{"metric":{"__name__":"vllm:kv_cache_usage_perc","job":"v","instance":"a"},"values":[[0,"NaN"],[15,"+Inf"],[30,"1e999"],[-15,"0.5"]]}`,
		`{"metric":{"__name__":"vllm:prompt_tokens_total","job":"v","instance":"a","model_name":"a\"\\\nb","ü":"x"},"value":[1e300,"7"]}`,
		`{"metric":{"__name__":"vllm:time_to_first_token_seconds_bucket","job":"v","instance":"a","le":"+Inf"},"value":[1,"7"]}`,
		`{"metric":null,"value":null,"values":null},{"histogram":[1,{}]},null`, `{"metric":{"__name__":1}}`,
	} {
		f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[` + result + `]}}`))
	}
	f.Add([]byte(`{"data":{"result":[]},"warnings":["w"],"isPartial":true,"status":"success","status":"error"}`))
	f.Add([]byte(`[{"status":"success"}]`))
	const steps, seriesBound = 4, 8
	f.Fuzz(func(t *testing.T, body []byte) {
		client := queryClient{
			base: &url.URL{Scheme: "http", Host: "server"}, series: seriesBound,
			client: &http.Client{Transport: answer(func() io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) })},
			asker:  &targetScraper{found: found{target: *testTarget(""), config: &ScrapeConfig{}}},
		}
		for _, seen := range []*promAnswer{newPromAnswer(1), newPromRange(0, 15*time.Second, steps, steps*seriesBound)} {
			taken := 0
			_, err := client.instant(t.Context(), "up", func(q *querySeries) error {
				taken++
				return errors.Join(seen.series(q), seen.ofTarget(q, nil), seen.scraped(q))
			})
			if e, ok := errors.AsType[*queryError](err); err != nil && (!ok || e.state == "" || e.reason == "") {
				t.Fatalf("an error without a state: %v", err)
			}
			if taken > seriesBound {
				t.Fatalf("%d series of at most %d", taken, seriesBound)
			}
			if err != nil {
				continue
			}
			if !json.Valid(body) && !validPrefix(body) {
				t.Fatal("what is no JSON was taken")
			}
			for _, one := range seen.targets {
				checkRounds(t, one, len(seen.times))
			}
		}
	})
}

// validPrefix says whether JSON begins the text; what follows is not read.
func validPrefix(body []byte) bool {
	var first json.RawMessage
	return json.NewDecoder(bytes.NewReader(body)).Decode(&first) == nil
}

// checkRounds makes the rounds of a target.
func checkRounds(t *testing.T, one *promSeen, times int) {
	t.Helper()
	r := newRounds(*testTarget(""), DefaultLimits())
	for i := range times {
		round, _ := r.stored(one.page(nil, i), time.Unix(int64(i), 0))
		if round.State != StateUp && round.State != StateNoMetrics {
			t.Fatalf("%s: %s", round.State, round.Reason)
		}
		for _, s := range samplesOf(round) {
			if isNotNumber(s.Value) {
				t.Fatalf("%s is %g", s.Series.Labels.Get(model.MetricNameLabel), s.Value)
			}
		}
	}
}

// FuzzPrometheusConfig holds the decoder to errors instead of panics, and what
// it takes to entries that can be asked.
func FuzzPrometheusConfig(f *testing.F) {
	for _, text := range []string{
		`{url: "http://p:9090", match: ['{job="x"}', "vllm:num_requests_running"], backfill: 0s, http_headers: {X-Scope-OrgID: {values: [a]}}}`,
		`{url: "https://p/prometheus", interval: 5s, timeout: 5s, sample_limit: 10, gateway: {workers: 4}, basic_auth: {username: a, password: b}}`,
		`{url: "http://a:b@p"}`, `{url: "http://[::1"}`, `{match: ['{a=~"["}']}`, `{url: null, match: [null]}`, "[]", "{url: 'http://p', <<: {backfill: -1s}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c PrometheusConfig
		if strings.Contains(text, "file") || yaml.Unmarshal([]byte(text), &c) != nil || c.URL == nil {
			return // what is read from disk is another matter
		}
		if err := CheckPrometheusConfig([]PrometheusConfig{c}); err != nil {
			t.Fatalf("%q was taken: %v", text, err)
		}
		c = c.withDefaults(DefaultGlobalConfig())
		if c.Interval <= 0 || c.Timeout <= 0 || c.SampleLimit <= 0 {
			t.Errorf("interval %s, timeout %s, %d series", c.Interval, c.Timeout, c.SampleLimit)
		}
		for _, selector := range append(c.selectors(), c.targetSelectors([]string{Up}, []string{"a.b", `"`})...) {
			if _, err := parseSelector(selector); err != nil {
				t.Errorf("%q asks for %q: %v", text, selector, err)
			}
		}
	})
}

// FuzzRecordingConfig holds what is taken to something that can be played.
func FuzzRecordingConfig(f *testing.F) {
	for _, text := range []string{"{path: a.tar.zst}", "{path: a, speed: 0}", "{path: a, speed: .nan}", "{speed: -1}", "{path: [a]}", "[]", "{path: a, sped: 1}", "{path: a, speed: 1e400}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c RecordingConfig
		if yaml.Unmarshal([]byte(text), &c) != nil || c == (RecordingConfig{}) { // an empty document decodes nothing
			return
		}
		if ps := c.problems(); len(ps) > 0 {
			t.Errorf("%q was taken: %v", text, ps)
		}
	})
}
