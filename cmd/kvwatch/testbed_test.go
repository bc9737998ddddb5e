package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kvwatch/rules/sizing"
)

// vllmRecord is what vLLM said of a case of the test bed.
type vllmRecord struct {
	Case      string            `json:"case"`
	KVDType   string            `json:"kv_dtype"`
	Narrow    json.RawMessage   `json:"narrow"`
	BlockSize float64           `json:"block_size"`
	Blocks    float64           `json:"num_gpu_blocks"`
	Allocated float64           `json:"allocated_bytes"`
	Groups    []json.RawMessage `json:"groups"`
	Planned   []struct {
		Memory      float64 `json:"kv_memory_bytes"`
		MaxModelLen float64 `json:"max_model_len"`
		Batched     float64 `json:"max_num_batched_tokens"`
		InFlight    float64 `json:"max_in_flight_tokens"`
		Tokens      float64 `json:"kv_cache_size_tokens"`
	} `json:"planned"`
}

func readVLLMRecord(t *testing.T) map[string]vllmRecord {
	t.Helper()
	var all []vllmRecord
	readJSON(t, "rules/sizing/testdata/vllm/0.32.0-cpu.json", &all)
	cases := map[string]vllmRecord{}
	for _, r := range all {
		cases[r.Case] = r
	}
	return cases
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, path), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestTestbedCases: what vLLM said is of the cases that the test bed asks.
func TestTestbedCases(t *testing.T) {
	t.Parallel()
	var cases []struct {
		Config  string `json:"config"`
		Layers  int    `json:"layers"`
		KVDType string `json:"kv_dtype"`
	}
	readJSON(t, "deploy/testbed/cases.json", &cases)
	seen := readVLLMRecord(t)
	for _, c := range cases {
		layers, dtype := "all", "auto"
		if c.Layers > 0 {
			layers = strconv.Itoa(c.Layers)
		}
		if c.KVDType != "" {
			dtype = c.KVDType
		}
		name := strings.TrimSuffix(filepath.Base(c.Config), ".json") + "-" + dtype + "-" + layers
		if _, ok := seen[name]; !ok {
			t.Errorf("%s is not recorded", name)
		}
		delete(seen, name)
	}
	for name := range seen {
		t.Errorf("%s is recorded and no case", name)
	}
}

// accuracyModels are the rows of the table of KV accuracy, by family.
var accuracyModels = []struct{ family, model, config string }{
	{"Llama", "Llama 3.1 8B", "llama-3.1-8b-auto-all"},
	{"Llama", "Llama 3.3 70B", "llama-3.3-70b-auto-all"},
	{"Llama, trained in 32 bits", "of 4 layers", "llama-float32-auto-all"},
	{"Qwen2", "Qwen2.5 14B", "qwen2.5-14b-auto-all"},
	{"Qwen2, windows", "Qwen2.5 14B, 12 layers, all sliding", "qwen2.5-14b-window-auto-all"},
	{"Qwen2 MoE", "Qwen1.5 MoE A2.7B", "qwen1.5-moe-a2.7b-auto-all"},
	{"Qwen3", "Qwen3 14B", "qwen3-14b-auto-all"},
	{"Qwen3 MoE", "Qwen3 Coder 30B A3B", "qwen3-coder-30b-a3b-auto-all"},
	{"Qwen3 MoE, windows", "Qwen3 30B, 12 layers, all sliding", "qwen3-30b-window-auto-all"},
	{"Mistral", "Mistral 7B v0.3", "mistral-7b-v0.3-auto-all"},
	{"Mistral, windows", "Mistral 7B v0.1", "mistral-7b-v0.1-auto-all"},
	{"Mistral, no sliding_window key", "Mistral 7B, 8 layers", "mistral-7b-no-window-key-auto-all"},
	{"Mixtral", "Mixtral 8x22B", "mixtral-8x22b-auto-all"},
	{"DeepSeek V2", "DeepSeek V2 Lite", "deepseek-v2-lite-auto-all"},
	{"DeepSeek V3", "DeepSeek V3", "deepseek-v3-auto-all"},
	{"DeepSeek V3, FP8", "DeepSeek V3, 4 layers", "deepseek-v3-fp8-4"},
	{"Gemma 2", "Gemma 2 9B", "gemma-2-9b-auto-all"},
	{"Gemma 3", "Gemma 3 4B", "gemma-3-4b-auto-all"},
	{"Gemma 3", "Gemma 3 12B", "gemma-3-12b-auto-all"},
	{"Gemma 3", "Gemma 3 27B", "gemma-3-27b-auto-all"},
	{"GPT-OSS", "GPT-OSS 20B", "gpt-oss-20b-auto-all"},
	{"GPT-OSS", "GPT-OSS 120B", "gpt-oss-120b-auto-all"},
}

// TestAccuracyTable holds the table in the documents to what vLLM said.
func TestAccuracyTable(t *testing.T) {
	t.Parallel()
	doc, cases := string(readFile(t, "deploy/docs/sizing.md")), readVLLMRecord(t)
	table := "| family | model | bytes of a token, ours | vLLM | difference | tokens in 40 GiB, ours | vLLM | difference |\n|---|---|---|---|---|---|---|---|\n"
	for _, m := range accuracyModels {
		table += accuracyRow(t, m.family, m.model, cases[m.config])
	}
	if !strings.Contains(doc, table) {
		t.Errorf("deploy/docs/sizing.md should have\n%s", table)
	}
}

// accuracyRow compares a token of a short sequence, and the tokens that fit 40 GiB
// at a context of 32 768 with batches of 2048.
func accuracyRow(t *testing.T, family, model string, r vllmRecord) string {
	t.Helper()
	g, err := sizing.ReadGeometry(r.Narrow)
	if err != nil {
		t.Fatalf("%s: %v", model, err)
	}
	element := 2.0
	if r.KVDType == "fp8" {
		element = 1
	}
	paged := sizing.Paged{Geometry: g, BytesPerElement: element, BlockTokens: r.BlockSize, Copies: 1}
	perToken, vllm := g.BytesPerToken(1, element), r.Allocated/r.Blocks/r.BlockSize*float64(len(r.Groups))
	for _, p := range r.Planned {
		if p.Memory != 40*sizing.GiB || p.MaxModelLen != 32_768 || p.Batched != 2048 {
			continue
		}
		tokens := paged.CapacityTokens(p.Memory, p.MaxModelLen, p.InFlight)
		return fmt.Sprintf("| %s | %s | %.0f | %.0f | %.1f %% | %.0f | %.0f | %.1f %% |\n",
			family, model, perToken, vllm, 100*(perToken/vllm-1), tokens, p.Tokens, 100*(tokens/p.Tokens-1))
	}
	t.Errorf("%s: nothing is planned for 40 GiB", r.Case)
	return ""
}
