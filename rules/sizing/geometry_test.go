package sizing

import (
	"embed"
	"strings"
	"testing"
)

//go:embed testdata/*.json
var configs embed.FS

func readConfig(t *testing.T, name string) Geometry {
	t.Helper()
	text, err := configs.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	g, err := ReadGeometry(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return g
}

// TestGeometry holds KV bytes to the published formula of each family: twice KV
// heads times head dimension in every layer, a latent instead in DeepSeek, and at
// most the window in a sliding layer. Where those do not divide by the full ones,
// vLLM pads them: 29 to 30 in Gemma 3 4B, 52 to 60 in 27B.
func TestGeometry(t *testing.T) {
	t.Parallel()
	const short, long = 100, 32_768
	for _, c := range []struct {
		config       string
		shortBytes   float64 // of each of 100 tokens, BF16
		longSequence float64 // of 32 768 tokens, BF16
		experts, per int
	}{
		{"llama-7b", 2 * 32 * 32 * 128 * 2, 2 * 32 * 32 * 128 * 2 * long, 0, 0},
		{"llama-3.1-8b", 131_072, 131_072 * long, 0, 0},
		{"llama-3.3-70b", 327_680, 327_680 * long, 0, 0},
		{"qwen2.5-14b", 196_608, 196_608 * long, 0, 0},
		{"qwen1.5-moe-a2.7b", 196_608, 196_608 * long, 60, 4},
		{"qwen3-14b", 163_840, 163_840 * long, 0, 0},
		{"qwen3-coder-30b-a3b", 98_304, 98_304 * long, 128, 8},
		{"mistral-7b-v0.1", 131_072, 131_072 * 4096, 0, 0},
		{"mistral-7b-v0.3", 131_072, 131_072 * long, 0, 0},
		{"mixtral-8x22b", 229_376, 229_376 * long, 8, 2},
		{"deepseek-v2-lite", 27 * 576 * 2, 27 * 576 * 2 * long, 64, 6},
		{"deepseek-v3", 70_272, 70_272 * long, 256, 8},
		{"gemma-2-9b", 344_064, 2 * 8 * 256 * 2 * (21*long + 21*4096), 0, 0},
		{"gemma-3-4b", 2 * 35 * 4 * 256 * 2, 2 * 4 * 256 * 2 * (5*long + 30*1024), 0, 0},
		{"gemma-3-12b", 2 * 48 * 8 * 256 * 2, 2 * 8 * 256 * 2 * (8*long + 40*1024), 0, 0},
		{"gemma-3-27b", 2 * 70 * 16 * 128 * 2, 2 * 16 * 128 * 2 * (10*long + 60*1024), 0, 0},
		{"gpt-oss-20b", 49_152, 2 * 8 * 64 * 2 * (12*long + 12*128), 32, 4},
		{"gpt-oss-120b", 73_728, 2 * 8 * 64 * 2 * (18*long + 18*128), 128, 4},
	} {
		g := readConfig(t, c.config)
		if got := g.BytesPerToken(short, 2); got != c.shortBytes {
			t.Errorf("%s: a token takes %v B, published %v", c.config, got, c.shortBytes)
		}
		if got := g.BytesPerSequence(long, 2); got != c.longSequence {
			t.Errorf("%s: %d tokens take %v B, published %v", c.config, long, got, c.longSequence)
		}
		if got := g.BytesPerToken(long, 1) * long; got != c.longSequence/2 {
			t.Errorf("%s: FP8 does not halve it: %v", c.config, got)
		}
		if g.Experts != c.experts || g.ExpertsPerToken != c.per {
			t.Errorf("%s: %d of %d experts", c.config, g.ExpertsPerToken, g.Experts)
		}
	}
}

// TestCopies: what tensor parallelism cannot split, every GPU keeps.
func TestCopies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config   string
		tp, want float64
	}{
		{"llama-3.3-70b", 4, 1},
		{"qwen3-coder-30b-a3b", 2, 1},
		{"qwen3-coder-30b-a3b", 8, 2},
		{"deepseek-v3", 8, 8},
		{"deepseek-v3", 1, 1},
	} {
		if got := readConfig(t, c.config).Copies(c.tp); got != c.want {
			t.Errorf("%s over %v GPUs keeps %v copies", c.config, c.tp, got)
		}
	}
}

func TestGeometryRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ config, want string }{
		{`{"model_type": "jamba", "attn_layer_period": 8, "num_hidden_layers": 32}`, "attn_layer_period: jamba has Mamba layers"},
		{`{"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*", "num_hidden_layers": 52}`, "hybrid_override_pattern"},
		{`{"model_type": "falcon_h1", "mamba_d_state": 256, "num_hidden_layers": 36}`, "mamba_d_state"},
		{`{"model_type": "mamba2", "state_size": 128, "num_hidden_layers": 64}`, "state_size"},
		{`{"model_type": "qwen3_next", "full_attention_interval": 4, "num_hidden_layers": 48}`, "full_attention_interval"},
		{`{"model_type": "granitemoehybrid", "layer_types": ["mamba", "attention"], "num_hidden_layers": 2}`, `layer_types: layer 0 of granitemoehybrid is "mamba"`},
		{`{"model_type": "llama4_text", "attention_chunk_size": 8192}`, "attention_chunk_size"},
		{`{"model_type": "deepseek_v32", "index_topk": 2048, "kv_lora_rank": 512}`, "index_topk"},
		{`{"model_type": "bert", "num_hidden_layers": 12}`, `model_type "bert" is not read`},
		{`{"model_type": "llama"}`, "num_hidden_layers is missing"},
		{`{"model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 28, "hidden_size": 3584}`, "num_key_value_heads is missing"},
		{`{"model_type": "llama", "num_hidden_layers": 28, "num_attention_heads": 3, "hidden_size": 100}`, "head_dim is missing"},
		{`{"model_type": "gpt_oss", "num_hidden_layers": 24, "num_key_value_heads": 8, "num_attention_heads": 64, "hidden_size": 2880}`, "head_dim is missing"},
		{`{"model_type": "deepseek_v3", "num_hidden_layers": 61}`, "kv_lora_rank is missing"},
		{`{"model_type": "deepseek_v3", "num_hidden_layers": 61, "kv_lora_rank": 512}`, "qk_rope_head_dim is missing"},
		{`{"model_type": "gemma3", "text_config": {"num_hidden_layers": "34"}}`, "text_config: num_hidden_layers is a string"},
		{`{"model_type": "mistral3", "text_config": {"num_hidden_layers": 40}}`, "text_config: model_type is missing"},
		{`{"model_type": "qwen3", "num_hidden_layers": 4, "num_key_value_heads": 2, "layer_types": ["full_attention"]}`, "layer_types has 1 layers, num_hidden_layers is 4"},
		{`{"model_type": "qwen3", "num_hidden_layers": 1, "num_key_value_heads": 2, "layer_types": ["sliding_attention"]}`, "sliding_window is missing"},
		{`{"model_type": "qwen2_moe", "num_hidden_layers": 4, "num_key_value_heads": 2, "num_attention_heads": 2, "hidden_size": 64, "use_sliding_window": true}`, "use_sliding_window: the layers of qwen2_moe"},
		{`{"num_hidden_layers": 4}`, "model_type is missing"},
		{`{"model_type": "llama", "num_hidden_layers": "4"}`, "num_hidden_layers is a string"},
		{`[]`, "it is no JSON object"},
	} {
		g, err := ReadGeometry([]byte(c.config))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %s", c.config, g, err, c.want)
		}
	}
}

// TestQwenWindow: Qwen's window holds from max_window_layers on, if it is used.
func TestQwenWindow(t *testing.T) {
	t.Parallel()
	g, err := ReadGeometry([]byte(`{"model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_size": 3584,
		"use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 20}`))
	if err != nil || g.SlidingLayers != 8 || g.FullLayers != 20 || g.Window != 4096 {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestWindowKeys: what a config that does not name its window has.
func TestWindowKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config        string
		full, sliding int
	}{
		{`{"model_type": "mistral", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 1024}`, 0, 4},
		{`{"model_type": "mistral", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 1024, "sliding_window": null}`, 4, 0},
		{`{"model_type": "mixtral", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 1024}`, 4, 0},
		{`{"model_type": "qwen3_moe", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 1024, "sliding_window": 512}`, 4, 0},
		{`{"model_type": "qwen3_moe", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 1024, "sliding_window": 512, "use_sliding_window": true, "max_window_layers": 2}`, 0, 4},
		{`{"model_type": "qwen2", "num_hidden_layers": 30, "num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 1024, "sliding_window": 512, "use_sliding_window": true}`, 28, 2},
	} {
		if g, err := ReadGeometry([]byte(c.config)); err != nil || g.FullLayers != c.full || g.SlidingLayers != c.sliding {
			t.Errorf("%s: %+v, %v; want %d full, %d sliding", c.config, g, err, c.full, c.sliding)
		}
	}
}

// TestQuantisedKV: the type of KV cache that a checkpoint asks for.
func TestQuantisedKV(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`null`:                    "",
		`{"quant_method": "fp8"}`: "",
		`{"quant_method": "compressed-tensors", "kv_cache_scheme": null}`:                                               "",
		`{"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": false}}`: "fp8",
		`{"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 4, "type": "float"}}`:                   "float4",
		`{"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}`:                                                    "fp8",
		`{"quant_method": "modelopt", "kv_cache_scheme": "NVFP4"}`:                                                      "nvfp4",
		`{"quant_method": "modelopt", "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}`:             "fp8",
		`{"quantization": "int8"}`: "",
	} {
		g, err := ReadGeometry([]byte(`{"model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 1024, "quantization_config": ` + config + `}`))
		if err != nil || g.KVDType != want {
			t.Errorf("%s: %q, %v; want %q", config, g.KVDType, err, want)
		}
	}
}

func FuzzReadGeometry(f *testing.F) {
	entries, err := configs.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		text, err := configs.ReadFile("testdata/" + e.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		g, err := ReadGeometry(config)
		if err == nil && (g.Layers() <= 0 || g.LayerElements() <= 0 || g.BytesPerSequence(1000, 2) <= 0) {
			t.Errorf("%+v keeps nothing", g)
		}
	})
}
