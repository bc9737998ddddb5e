package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// openFleet serves a fleet without sessions of its own, a minute a second, and
// returns the addresses of its engines.
func openFleet(t *testing.T, config Config) (*Fleet, []string) {
	t.Helper()
	config.Quiet = true
	f := mustNew(t, config)
	engines, _, err := f.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, 60) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f, engines
}

// post sends a body to an engine's chat completions.
func post(t *testing.T, engine, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+engine+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(r)
}

// answered is what a client makes of an answer.
type answered struct {
	text, finish, stop string
	usage              *usage
	// chunks carried text, usages a count.
	chunks, usages int
}

// complete sends a body, reads the answer, streamed or not, and refuses any
// that is none.
func complete(t *testing.T, engine string, body map[string]any) answered {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := post(t, engine, string(data))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("%s: %s", response.Status, text)
	}
	var a answered
	if body["stream"] != true {
		var r reply
		if err := json.NewDecoder(response.Body).Decode(&r); err != nil {
			t.Fatal(err)
		}
		a.take(t, r)
		return a
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		t.Errorf("a stream of type %q", kind)
	}
	last := ""
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		if last = data; data == "[DONE]" {
			continue
		}
		var r reply
		if err := json.Unmarshal([]byte(data), &r); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		a.take(t, r)
	}
	if last != "[DONE]" {
		t.Errorf("the stream ends with %q", last)
	}
	return a
}

// take adds one reply to what was said.
func (a *answered) take(t *testing.T, r reply) {
	t.Helper()
	if !strings.HasPrefix(r.ID, "chatcmpl-") || r.Model != "qwen3-coder-30b" || r.Created == 0 {
		t.Errorf("a reply of %+v", r)
	}
	if r.Usage != nil {
		a.usage = r.Usage
		a.usages++
	}
	for _, choice := range r.Choices {
		message := choice.Message
		if message == nil {
			message = choice.Delta
		}
		a.text += message.Content
		if message.Content != "" {
			a.chunks++
		}
		if choice.FinishReason != nil {
			a.finish = *choice.FinishReason
		}
		if choice.StopReason != nil {
			a.stop = *choice.StopReason
		}
	}
}

// engineFigures reads the page of an engine: the sum of each family, of
// histograms that of their sums.
func engineFigures(t *testing.T, f *Fleet, i int) map[string]float64 {
	t.Helper()
	var page bytes.Buffer
	if err := f.EnginePage(i, &page); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&page)
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			figures[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return figures
}

// A conversation by HTTP, as a gateway or a load generator has it: each call
// sends all that was said, the engine finds it in its cache, and its page
// counts what the client was told.
func TestConversation(t *testing.T) {
	t.Parallel()
	f, engines := openFleet(t, Config{})
	messages := []map[string]any{
		{"role": "system", "content": strings.Repeat("You are an agent. ", 400)},
		{"role": "user", "content": []map[string]any{{"type": "text", "text": "Look into "}, {"type": "text", "text": "the tests."}}},
	}
	var prompts, cached, outputs, before int
	for call := range 4 {
		body := map[string]any{"model": "qwen3-coder-30b", "messages": messages, "temperature": 0.8, "max_tokens": 50, "ignore_eos": true}
		if call%2 == 1 {
			body["stream"], body["stream_options"] = true, map[string]any{"include_usage": true}
		}
		a := complete(t, engines[0], body)
		if len(a.text) != 200 || a.usage.CompletionTokens != 50 || a.finish != "length" || a.usages != 1 {
			t.Errorf("call %d: %d bytes, %+v, %s, %d usages; want 50 tokens of 4 bytes", call, len(a.text), a.usage, a.finish, a.usages)
		}
		if call%2 == 1 && a.chunks != 50 {
			t.Errorf("call %d: %d chunks, want one for each token", call, a.chunks)
		}
		if want := before / 16 * 16; a.usage.PromptDetails.CachedTokens != want {
			t.Errorf("call %d: %d tokens were cached, want the %d full blocks of %d tokens said before", call, a.usage.PromptDetails.CachedTokens, want/16, before)
		}
		prompts += a.usage.PromptTokens
		cached += a.usage.PromptDetails.CachedTokens
		outputs += a.usage.CompletionTokens
		before = a.usage.TotalTokens
		if a.usage.TotalTokens != a.usage.PromptTokens+a.usage.CompletionTokens {
			t.Errorf("call %d: usage %+v does not add up", call, a.usage)
		}
		messages = append(messages, map[string]any{"role": "assistant", "content": a.text},
			map[string]any{"role": "user", "content": "tool result: all of them pass"})
	}
	got := engineFigures(t, f, 0)
	for name, want := range map[string]int{
		"vllm:prompt_tokens_total": prompts, "vllm:prefix_cache_queries_total": prompts, "vllm:request_prompt_tokens": prompts,
		"vllm:prefix_cache_hits_total": cached, "vllm:prompt_tokens_cached_total": cached,
		"vllm:generation_tokens_total": outputs, "vllm:request_generation_tokens": outputs,
		"vllm:request_success_total": 4, "vllm:request_params_max_tokens": 200, "vllm:num_requests_running": 0, "vllm:kv_cache_usage_perc": 0,
	} {
		if got[name] != float64(want) {
			t.Errorf("%s is %v, want %d", name, got[name], want)
		}
	}
	if other := engineFigures(t, f, 1); other["vllm:prompt_tokens_total"] != 0 {
		t.Error("another engine counts the calls")
	}
}

func TestCompletionOptions(t *testing.T) {
	t.Parallel()
	_, engines := openFleet(t, Config{})
	ask := func(more map[string]any) answered {
		body := map[string]any{"messages": []map[string]any{{"role": "user", "content": "Hello"}}}
		maps.Copy(body, more)
		return complete(t, engines[0], body)
	}
	usual := ask(nil)
	if usual.finish != "stop" || usual.usage.CompletionTokens < 1 || usual.usage.PromptTokens != 9 { // four bytes each of <|user|>\nHello<|end|>\n<|assistant|>\n
		t.Errorf("by itself it answers %+v, %+v", usual, usual.usage)
	}
	if again := ask(nil); again.text != usual.text {
		t.Error("the same prompt has another answer")
	}
	if a := ask(map[string]any{"max_completion_tokens": 3, "max_tokens": 5}); a.finish != "length" || a.usage.CompletionTokens != 3 || !strings.HasPrefix(usual.text, a.text) {
		t.Errorf("with 3 tokens at most it answers %+v, %+v", a, a.usage)
	}
	if a := ask(map[string]any{"min_tokens": 5000, "max_tokens": 6000}); a.usage.CompletionTokens != 5000 {
		t.Errorf("with 5000 tokens at least it answers %+v", a.usage)
	}
	word := usual.text[4:8]
	for _, stop := range []any{word, []string{"never said", word}} {
		a := ask(map[string]any{"stop": stop})
		if a.finish != "stop" || a.stop != word || a.usage.CompletionTokens != 2 || a.text != usual.text[:4] {
			t.Errorf("stopped by %q: %+v, %+v; want the first word, and two counted", stop, a, a.usage)
		}
	}
	if a := ask(map[string]any{"stream": true}); a.text != usual.text || a.usages != 0 || a.finish != "stop" {
		t.Errorf("streamed without usage: %+v", a)
	}
	a := ask(map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}})
	if a.usages != a.usage.CompletionTokens+2 || a.usage.PromptDetails == nil {
		t.Errorf("with usage throughout: %d usages, the last %+v", a.usages, a.usage)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	_, engines := openFleet(t, Config{Engines: 1})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+engines[0]+"/v1/models", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var list struct {
		Data []struct {
			ID          string `json:"id"`
			MaxModelLen int    `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil || len(list.Data) != 1 || list.Data[0].ID != "qwen3-coder-30b" || list.Data[0].MaxModelLen != 131_072 {
		t.Errorf("models: %+v, %v", list, err)
	}
}

func TestRefusedCompletions(t *testing.T) {
	t.Parallel()
	f, engines := openFleet(t, Config{Engines: 1})
	long := strings.Repeat("four", 131_072)
	hello := `"messages":[{"role":"user","content":"Hello"}]`
	for _, tt := range []struct {
		name, body  string
		status      int
		kind, param string
		message     string
	}{
		{"no JSON", `{`, 400, "Bad Request", "body", "1 validation error"},
		{"no messages", `{"model":"qwen3-coder-30b"}`, 400, "Bad Request", "body.messages", "Field required"},
		{"another model", `{"model":"gpt",` + hello + `}`, 404, "NotFoundError", "model", "The model `gpt` does not exist."},
		{
			"a prompt that is too long", `{"messages":[{"role":"user","content":"` + long + `"}]}`, 400, "BadRequestError", "input_tokens",
			"This model's maximum context length is 131072 tokens. However, your prompt contains 131080 input tokens",
		},
		{"an answer that is too long", `{"max_tokens":200000,` + hello + `}`, 400, "BadRequestError", "max_tokens", "max_tokens=200000 cannot be greater than max_model_len=131072."},
		{"no answer", `{"max_tokens":0,` + hello + `}`, 400, "BadRequestError", "max_tokens", "max_tokens must be at least 1, got 0."},
		{"two answers", `{"n":2,` + hello + `}`, 400, "BadRequestError", "n", "n=2 is not simulated"},
		{"a picture", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "Bad Request", "body", `"image_url" is not simulated`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			response, err := post(t, engines[0], tt.body)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			var body struct{ Error chatError }
			if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
				t.Fatal(err)
			}
			e := body.Error
			if response.StatusCode != tt.status || e.Code != tt.status || e.Type != tt.kind || e.Param == nil || *e.Param != tt.param || !strings.Contains(e.Message, tt.message) {
				t.Errorf("refused with %d, %+v of %q", response.StatusCode, e, *e.Param)
			}
		})
	}
	if f.hosts() {
		t.Error("the engine has a refused request")
	}
}

// An engine that goes down cuts the connections of all who wait for it, and of
// all who come.
func TestCompletionsOfAnEngineThatGoesDown(t *testing.T) {
	t.Parallel()
	f, engines := openFleet(t, Config{Engines: 1})
	long := `{"stream":true,"max_tokens":100000,"ignore_eos":true,"messages":[{"role":"user","content":"Hello"}]}`
	response, err := post(t, engines[0], long)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	f.mu.Lock()
	f.engines[0].stop()
	f.mu.Unlock()
	if text, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("the stream ends as if it were whole, with %d bytes", len(text))
	}
	if response, err := post(t, engines[0], long); err == nil {
		_ = response.Body.Close()
		t.Errorf("an engine that is down answers %s", response.Status)
	}
}

// A client that goes away leaves nothing in the engine.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	f, engines := openFleet(t, Config{Engines: 1})
	response, err := post(t, engines[0], `{"stream":true,"max_tokens":100000,"ignore_eos":true,"messages":[{"role":"user","content":"Hello"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if running := f.Truth().Engines[0].Running; running != 1 {
		t.Fatalf("%d requests run", running)
	}
	_ = response.Body.Close()
	for f.hosts() {
		if err := t.Context().Err(); err != nil {
			t.Fatal("the engine keeps the request")
		}
		// Another call waits until the engine has gone on by some steps.
		complete(t, engines[0], map[string]any{"messages": []map[string]any{{"role": "user", "content": "Anybody there?"}}, "max_tokens": 5})
	}
	if truth := f.Truth().Engines[0]; truth.Running != 0 || truth.KVUsage != 0 {
		t.Errorf("the engine has %+v", truth)
	}
}

func FuzzChat(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"Hello"}],"stop":["the",""],"max_tokens":7}`)
	f.Add(`{"messages":[{"role":"system","content":null,"tool_calls":[{}]}],"tools":[{"a":1}],"stop":"a","min_tokens":-1}`)
	f.Add(`{"messages":[{"content":[{"type":"text","text":"x"}]}],"ignore_eos":true,"max_completion_tokens":3,"n":1}`)
	fleet, err := New(Config{Quiet: true, Engines: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		request, err := readChat(strings.NewReader(body))
		if err != nil {
			return
		}
		c, err := fleet.converse(request)
		if err != nil {
			return
		}
		if c.outputTokens < 1 || c.outputTokens > c.maxTokens || c.promptTokens+c.outputTokens > fleet.longest {
			t.Errorf("an answer of %d tokens, at most %d, to a prompt of %d", c.outputTokens, c.maxTokens, c.promptTokens)
		}
		if text := c.part(0, c.outputTokens); text != c.answer {
			t.Errorf("its tokens are %q, it is %q", text, c.answer)
		}
	})
}
