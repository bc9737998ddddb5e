package sizing

import (
	_ "embed"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// vllmSaid is what deploy/testbed/kvfit.py wrote down of a running vLLM.
//
//go:embed testdata/vllm/0.32.0-cpu.json
var vllmSaid []byte

// said is what vLLM says of a model.
type said struct {
	Case    string          `json:"case"`
	Config  string          `json:"config"`
	KVDType string          `json:"kv_dtype"`
	Narrow  json.RawMessage `json:"narrow"` // the config.json that vLLM read
	Refused string          `json:"refused"`
	saidCapacity
	BlockSize float64     `json:"block_size"`
	Allocated float64     `json:"allocated_bytes"`
	Groups    []saidGroup `json:"groups"`
	Held      []struct {
		Context float64 `json:"context_tokens"`
		Blocks  float64 `json:"blocks"`
	} `json:"held"`
	Planned []saidCapacity `json:"planned"`
}

// saidCapacity is what fits in a memory.
type saidCapacity struct {
	Memory      float64 `json:"kv_memory_bytes"`
	MaxModelLen float64 `json:"max_model_len"`
	InFlight    float64 `json:"max_in_flight_tokens"`
	Blocks      float64 `json:"num_gpu_blocks"`
	Tokens      float64 `json:"kv_cache_size_tokens"`
	Refused     string  `json:"refused"`
}

type saidGroup struct {
	Kind        string  `json:"kind"`
	Layers      int     `json:"layers"`
	BlockTokens float64 `json:"block_tokens"`
	PageBytes   float64 `json:"page_bytes_per_layer"`
}

// sliding says that the group forgets what has left a window.
func (g saidGroup) sliding() bool { return strings.HasPrefix(g.Kind, "SlidingWindow") }

// readSaid decodes what vLLM said, by case.
func readSaid(t *testing.T) []said {
	t.Helper()
	var all []said
	if err := json.Unmarshal(vllmSaid, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// paged is what we make of the config.json that vLLM was given.
func (s said) paged(t *testing.T) Paged {
	t.Helper()
	g, err := ReadGeometry(s.Narrow)
	if err != nil {
		t.Fatalf("%s: %v", s.Case, err)
	}
	dtype := s.KVDType
	if dtype == autoDType {
		dtype, _ = g.loaded()
	}
	element, err := BytesPerKVElement(dtype)
	if err != nil {
		t.Fatalf("%s: %v", s.Case, err)
	}
	return Paged{Geometry: g, BytesPerElement: element, BlockTokens: s.BlockSize, Copies: 1}
}

// refusedByUs are the recorded models that vLLM runs and that we refuse: a state of
// fixed size, or windows laid out in another way than vLLM has them.
var refusedByUs = map[string]string{
	"granite-4.0-h":      "Mamba layers",
	"jamba":              "Mamba layers",
	"mamba2":             "Mamba layers",
	"qwen3-next":         "linear attention",
	"qwen1.5-moe-window": "use_sliding_window",
}

// refusedByVLLM are the recorded cases that vLLM's CPU build does not run, and its
// reason.
var refusedByVLLM = map[string]string{
	"llama-3.1-8b-fp8-2":                "FP8 KV cache on CPU requires x86 with AVX-512",
	"qwen2.5-14b-some-windows-auto-all": "Sliding window for some but all layers is not supported",
}

// TestRefusedByVLLM: nothing else is left out of the comparison.
func TestRefusedByVLLM(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, s := range readSaid(t) {
		want, listed := refusedByVLLM[s.Case]
		if listed {
			seen++
		}
		if listed != (s.Refused != "") || !strings.Contains(s.Refused, want) {
			t.Errorf("%s: %q, want %q", s.Case, s.Refused, want)
		}
	}
	if seen != len(refusedByVLLM) {
		t.Errorf("%d of %d are recorded", seen, len(refusedByVLLM))
	}
}

// TestAgainstVLLM holds the KV cache of each family, read from the config.json
// that a running vLLM was given, to what that vLLM says: the layers and their
// groups, the bytes of a block, the blocks and tokens that fit a memory, and the
// blocks that a sequence holds while it decodes. All of it is exact.
func TestAgainstVLLM(t *testing.T) {
	t.Parallel()
	asked := map[string]bool{}
	for _, s := range readSaid(t) {
		if _, ours := refusedByUs[s.Config]; ours || s.Refused != "" {
			continue
		}
		p := s.paged(t)
		asked[p.Geometry.ModelType] = true
		holdLayers(t, s, p)
		holdCapacity(t, s, p)
		holdSequences(t, s, p)
	}
	for name := range families {
		if !asked[name] {
			t.Errorf("no running vLLM was asked of %s", name)
		}
	}
}

// holdLayers: as many layers of a kind, in as many groups, of as many bytes.
func holdLayers(t *testing.T, s said, p Paged) {
	t.Helper()
	var full, sliding, widest int
	groups := Groups{}
	for _, g := range s.Groups {
		if g.sliding() {
			sliding += g.Layers
			groups.Sliding++
		} else {
			full += g.Layers
			groups.Full++
		}
		widest = max(widest, g.Layers)
		if got, want := float64(p.Geometry.LayerElements())*p.BytesPerElement, g.PageBytes/g.BlockTokens; got != want {
			t.Errorf("%s: a layer keeps %v B of a token, vLLM %v", s.Case, got, want)
		}
	}
	groups.Layers = widest
	if full != p.Geometry.FullLayers || sliding != p.Geometry.SlidingLayers || groups != p.Geometry.Groups() {
		t.Errorf("%s: %d full and %d sliding layers, %+v; vLLM %d and %d, %+v",
			s.Case, p.Geometry.FullLayers, p.Geometry.SlidingLayers, p.Geometry.Groups(), full, sliding, groups)
	}
	if got, want := p.BlockBytes(), s.Allocated/s.Blocks; got != want {
		t.Errorf("%s: a block takes %v B, vLLM %v", s.Case, got, want)
	}
}

// holdCapacity: as many blocks and tokens in every memory; and the bytes of a
// token are, within 1 %, the memory over the tokens that vLLM says it holds.
func holdCapacity(t *testing.T, s said, p Paged) {
	t.Helper()
	for _, c := range append(s.Planned, s.saidCapacity) {
		if c.Refused != "" {
			continue
		}
		if got := p.Blocks(c.Memory); got != c.Blocks {
			t.Errorf("%s: %v blocks in %v B, vLLM %v", s.Case, got, c.Memory, c.Blocks)
		}
		if got := p.CapacityTokens(c.Memory, c.MaxModelLen, c.InFlight); got != c.Tokens {
			t.Errorf("%s: %v B hold %v tokens at %v, vLLM %v", s.Case, c.Memory, got, c.MaxModelLen, c.Tokens)
		}
		// A context of 10 000 tokens ends within a block of 128, which costs 1.1 %.
		whole := math.Mod(c.MaxModelLen, s.BlockSize) == 0
		perToken := c.Blocks * p.BlockBytes() / c.Tokens
		if got := p.Geometry.BytesPerToken(c.MaxModelLen, p.BytesPerElement); whole && p.Geometry.SlidingLayers == 0 && math.Abs(got/perToken-1) > 0.01 {
			t.Errorf("%s: a token takes %v B, by vLLM's capacity %v", s.Case, got, perToken)
		}
	}
}

// holdSequences: a sequence that decodes holds the blocks that we say, and its
// bytes are those before blocks round them up, by at most one and the misaligned
// one of each window.
func holdSequences(t *testing.T, s said, p Paged) {
	t.Helper()
	groups := p.Geometry.Groups()
	for _, h := range s.Held {
		most := p.SequenceBlocks(h.Context, 1)
		if h.Blocks > most || h.Blocks < most-float64(groups.Sliding) {
			t.Errorf("%s: %v tokens hold %v blocks, vLLM %v", s.Case, h.Context, most, h.Blocks)
		}
		bytes, vllm := p.Geometry.BytesPerSequence(h.Context, p.BytesPerElement), h.Blocks*p.BlockBytes()
		rounding := float64(groups.Full+2*groups.Sliding) * p.BlockBytes()
		if bytes > vllm || bytes < vllm-rounding {
			t.Errorf("%s: %v tokens take %v B, vLLM %v with blocks of %v B", s.Case, h.Context, bytes, vllm, p.BlockBytes())
		}
	}
}

// TestNarrowed: the narrow models have the KV cache of the real ones, so that what
// vLLM says of these holds for those.
func TestNarrowed(t *testing.T) {
	t.Parallel()
	asked := 0
	for _, s := range readSaid(t) {
		if !strings.HasSuffix(s.Case, "-all") || s.Refused != "" {
			continue
		}
		text, err := configs.ReadFile("testdata/" + s.Config + ".json")
		if err != nil {
			continue // a model made for the test bed
		}
		whole, err := ReadGeometry(text)
		if err != nil {
			t.Fatalf("%s: %v", s.Config, err)
		}
		narrow, err := ReadGeometry(s.Narrow)
		if err != nil {
			t.Errorf("%s: %v", s.Config, err)
			continue
		}
		asked++
		if whole.Groups() != narrow.Groups() || whole.LayerElements() != narrow.LayerElements() || whole.Window != narrow.Window {
			t.Errorf("%s: %+v, narrowed %+v", s.Config, whole, narrow)
		}
	}
	if asked < 16 {
		t.Errorf("%d models were asked with all of their layers", asked)
	}
}

// TestRefusedByUs: vLLM runs them, and we say why we do not reckon them.
func TestRefusedByUs(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, s := range readSaid(t) {
		why, ours := refusedByUs[s.Config]
		if !ours {
			continue
		}
		seen++
		if g, err := ReadGeometry(s.Narrow); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %+v, %v; want %s", s.Config, g, err, why)
		}
	}
	if seen != len(refusedByUs) {
		t.Errorf("%d of %d are recorded", seen, len(refusedByUs))
	}
}

// TestServedPage: what vllm serve put on its page for 13 layers of Gemma 3 27B, with
// 2 GiB, --max-model-len 8192 and --max-num-batched-tokens 2048: 1024 blocks, of
// which a sequence takes 64 and six times 25.
func TestServedPage(t *testing.T) {
	t.Parallel()
	g := readConfig(t, "gemma-3-27b")
	g.FullLayers, g.SlidingLayers = 2, 11
	p := Paged{Geometry: g, BytesPerElement: 2, BlockTokens: 128, Copies: 1}
	if blocks, tokens := p.Blocks(2*GiB), p.CapacityTokens(2*GiB, 8192, 2048); blocks != 1024 || tokens != 39_199 {
		t.Errorf("%v blocks, %v tokens", blocks, tokens)
	}
}

// TestGroups: how vLLM pads where the kinds of layers do not divide.
func TestGroups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		full, sliding int
		want          Groups
	}{
		{80, 0, Groups{Layers: 80, Full: 1}},
		{0, 32, Groups{Layers: 32, Sliding: 1}},
		{10, 52, Groups{Layers: 10, Full: 1, Sliding: 6}},
		{12, 12, Groups{Layers: 12, Full: 1, Sliding: 1}},
		{13, 12, Groups{Layers: 13, Full: 1, Sliding: 1}}, // less than half as many again: the others are padded
		{18, 12, Groups{Layers: 12, Full: 2, Sliding: 1}},
	} {
		if got := (Geometry{FullLayers: c.full, SlidingLayers: c.sliding}).Groups(); got != c.want {
			t.Errorf("%d full, %d sliding: %+v, want %+v", c.full, c.sliding, got, c.want)
		}
	}
}
