package collector

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// BenchmarkReadVLLM reads the same page again and again, as it is most of the
// time between two scrapes: all series are known.
func BenchmarkReadVLLM(b *testing.B) {
	for _, name := range []string{"vllm-0.28-dp2.prom.gz", "vllm-0.32.0.prom.gz"} {
		b.Run(name, func(b *testing.B) { benchmarkRead(b, SourceVLLM, testPage(b, name)) })
	}
}

// BenchmarkReadLiteLLM reads a page of about 50 MB and 200 000 lines, of which
// a seventh is wanted: what a large gateway with many users exposes.
func BenchmarkReadLiteLLM(b *testing.B) {
	page := largeLiteLLMPage()
	b.Logf("%d bytes, %d lines", len(page), bytes.Count(page, []byte{'\n'}))
	benchmarkRead(b, SourceLiteLLM, page)
}

func benchmarkRead(b *testing.B, source string, page []byte) {
	p := newPageReader(testTarget(source), DefaultLimits())
	body := bytes.NewReader(page)
	at := time.Unix(1_800_000_000, 0)
	if _, _, err := p.read(body, "", at); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			b.Fatal(err)
		}
		if _, _, err := p.read(body, "", at); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadFirst reads a page whose series are all new.
func BenchmarkReadFirst(b *testing.B) {
	page := testPage(b, "vllm-0.28-dp2.prom.gz")
	b.ReportAllocs()
	for b.Loop() {
		p := newPageReader(testTarget(SourceVLLM), DefaultLimits())
		if _, _, err := p.read(bytes.NewReader(page), "", time.Unix(1_800_000_000, 0)); err != nil {
			b.Fatal(err)
		}
	}
}

// largeLiteLLMPage has 1 000 users with 200 lines each, one of seven wanted.
func largeLiteLLMPage() []byte {
	var page bytes.Buffer
	fmt.Fprintln(&page, "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.")
	fmt.Fprintln(&page, "process_start_time_seconds 1.8e+09")
	write := func(name, extra string, user int) {
		fmt.Fprintf(&page, `%s{api_key_alias="team-%d",api_provider="hosted_vllm",end_user="None",hashed_api_key="%064x",model="qwen3-coder-30b",model_id="engine-%d",requested_model="agents"%s,team="None",user="user-%d"} %d.0`+"\n",
			name, user%40, user, user%4, extra, user, 1000+user)
	}
	for _, f := range []struct {
		name  string
		lines int
	}{
		{"litellm_request_total_latency_metric_bucket", 26},
		{"litellm_spend_metric_total", 1},
		{"litellm_remaining_api_key_requests_for_model", 1},
		{"litellm_total_tokens_metric_total", 1},
		{"litellm_deployment_latency_per_output_token_bucket", 36},
		{"litellm_overhead_with_guardrails_latency_metric_bucket", 36},
		{"litellm_guardrail_latency_seconds_bucket", 36},
		{"litellm_input_tokens_metric_total", 1},
		{"litellm_output_tokens_metric_total", 1},
		{"litellm_proxy_total_requests_metric_total", 1},
		{"litellm_requests_metric_total", 30},
		{"litellm_total_tokens_metric_created", 30},
	} {
		for user := range 1000 {
			for i := range f.lines {
				write(f.name, fmt.Sprintf(`,le="%d.0"`, i), user)
			}
		}
	}
	return page.Bytes()
}

func testTarget(source string) *Target {
	return &Target{Labels: labels.FromStrings("job", "test", "instance", "host:8000"), Source: source}
}
