package collector

import (
	"hash/maphash"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzSpendLogsRow reads what a table may hold in its free texts.
func FuzzSpendLogsRow(f *testing.F) {
	for _, metadata := range []string{
		"", "null", "{}", "[]", `"x"`, `{"usage_object": null}`, `{"usage_object": {"prompt_tokens_details": {"cached_tokens": 64}}}`,
		`{"usage_object": {"cache_read_input_tokens": 1e400}}`, `{"additional_usage_values": {"prompt_tokens_details": {"cached_tokens": -1}}}`,
	} {
		f.Add(metadata, "64", "http://engine:8000/v1", "s", int64(100), int64(10))
	}
	f.Add("{}", "NaN", "http://[::1", "", int64(-1), int64(1<<62))
	f.Add("{}", "1e300", "postgres://u:p@h/x?y", "\x00", int64(0), int64(0))
	seed := maphash.MakeSeed()
	f.Fuzz(func(t *testing.T, metadata, cached, base, session string, prompt, output int64) {
		row := spendRow{metadata: &metadata, cached: &cached, base: &base, session: &session, prompt: &prompt, output: &output}
		c := row.call(seed, &interned{})
		if c.CachedTokens < 0 || c.CachedTokens > c.PromptTokens || c.PromptTokens < 0 || c.OutputTokens < 0 {
			t.Errorf("%+v", c)
		}
		if !c.CachedKnown && c.CachedTokens != 0 {
			t.Errorf("not reported, and %d", c.CachedTokens)
		}
		if (c.Session == 0) != (session == "") {
			t.Errorf("session %q is %d", session, c.Session)
		}
	})
}

func FuzzSpendLogsConfig(f *testing.F) {
	for _, text := range []string{
		"{dsn: x}", "{dsn_file: y, interval: 30s, timeout: 5s, lookback: 2h, overlap: 11m, page_size: 5000}",
		"{dsn: x, dsn_file: y}", "{dsn: [x]}", "{interval: 1s}", "[]", "x", "{dsn: x, table: '', schema: s, name: n}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c SpendLogsConfig
		if yaml.Unmarshal([]byte(text), &c) != nil || c == (SpendLogsConfig{}) { // an empty document decodes nothing
			return
		}
		if ps := c.problems(); len(ps) > 0 {
			t.Errorf("%q was taken: %v", text, ps)
		}
	})
}
