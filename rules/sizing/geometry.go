package sizing

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Geometry is what a model's config.json says of its KV cache: which layers keep
// what of each token. It is read exactly or refused, never approximated.
type Geometry struct {
	// ModelType is the config's model_type.
	ModelType string
	// FullLayers keep every token of the context, SlidingLayers the last Window.
	FullLayers, SlidingLayers, Window int
	// KVHeads and HeadDim are the key and value heads of a layer and their size.
	KVHeads, HeadDim int
	// Latent is what a layer with multi-head latent attention keeps of a token, in
	// elements: kv_lora_rank + qk_rope_head_dim. 0 is keys and values of heads.
	Latent int
	// Experts are those of a layer, ExpertsPerToken those that a token goes
	// through; 0 for a dense model.
	Experts, ExpertsPerToken int
	// DType is the type of the weights as trained, "" where the config does not
	// tell; Quantised says that the checkpoint holds them in another one.
	DType     string
	Quantised bool
	// KVDType is the type of the KV cache that a quantised checkpoint asks for, by
	// vLLM's name where it is one that is read; "" is that of the weights as trained.
	KVDType string
	// MaxPositions is the longest context, 0 where the config does not tell.
	MaxPositions int
}

// Layers is how many layers keep something of a token.
func (g Geometry) Layers() int { return g.FullLayers + g.SlidingLayers }

// LayerElements is what a layer keeps of one token, in elements.
func (g Geometry) LayerElements() int {
	if g.Latent > 0 {
		return g.Latent
	}
	return 2 * g.KVHeads * g.HeadDim
}

// BytesPerSequence is what a sequence of that many tokens takes, in bytes: all
// of them in a full layer, the window's in a sliding one, and as much in a layer
// that pads a group (Groups). Blocks round it up: Paged.
func (g Geometry) BytesPerSequence(contextTokens, bytesPerElement float64) float64 {
	groups := g.Groups()
	perGroup := float64(groups.Layers*g.LayerElements()) * bytesPerElement
	return perGroup * (float64(groups.Full)*contextTokens + float64(groups.Sliding)*min(contextTokens, float64(g.Window)))
}

// BytesPerToken is BytesPerSequence over the tokens of the sequence, in bytes;
// without sliding layers it is the same at every length.
func (g Geometry) BytesPerToken(contextTokens, bytesPerElement float64) float64 {
	if g.SlidingLayers == 0 {
		return float64(g.LayerElements()*g.FullLayers) * bytesPerElement
	}
	return g.BytesPerSequence(contextTokens, bytesPerElement) / contextTokens
}

// Copies is how often a replica keeps each byte of KV when tensor parallelism
// splits its heads over that many GPUs: once, unless there are more GPUs than
// heads. A latent cannot be split, so every GPU keeps all of it.
func (g Geometry) Copies(tensorParallel float64) float64 {
	heads := float64(g.KVHeads)
	if g.Latent > 0 {
		heads = 1
	}
	return max(1, tensorParallel/heads)
}

// loaded is the type in which vLLM loads weights that are not quantised, and
// keeps their KV cache: DType, but 16 bits for what was trained in 32; and why.
func (g Geometry) loaded() (dtype, why string) {
	if g.DType == "float32" {
		return "bfloat16", "as vLLM loads float32"
	}
	return g.DType, "as config.json has it"
}

// modelConfig are the fields of config.json that say something of the KV cache.
type modelConfig struct {
	ModelType     string           `json:"model_type"`
	Text          *json.RawMessage `json:"text_config"`
	Layers        int              `json:"num_hidden_layers"`
	Hidden        int              `json:"hidden_size"`
	Heads         int              `json:"num_attention_heads"`
	KVHeads       int              `json:"num_key_value_heads"`
	HeadDim       int              `json:"head_dim"`
	LoraRank      int              `json:"kv_lora_rank"`
	RopeHeadDim   int              `json:"qk_rope_head_dim"`
	LayerTypes    []string         `json:"layer_types"`
	Window        *int             `json:"sliding_window"`
	Pattern       int              `json:"sliding_window_pattern"`
	UseWindow     bool             `json:"use_sliding_window"`
	WindowLayers  *int             `json:"max_window_layers"`
	LocalExperts  int              `json:"num_local_experts"`
	Experts       int              `json:"num_experts"`
	RoutedExperts int              `json:"n_routed_experts"`
	PerToken      int              `json:"num_experts_per_tok"`
	TorchDType    string           `json:"torch_dtype"`
	DType         string           `json:"dtype"`
	Quantisation  *json.RawMessage `json:"quantization_config"`
	MaxPositions  int              `json:"max_position_embeddings"`
}

// family says how a family of models lays out its layers and which values its
// class in transformers takes for fields that a config may leave out.
type family struct {
	layout func(c *modelConfig, g *Geometry) error
	// kvHeads and headDim are the class's defaults; 0 is none. headsAreKV says that
	// KV heads default to the attention heads, splitHidden that the head dimension
	// defaults to hidden_size over the heads.
	kvHeads, headDim        int
	headsAreKV, splitHidden bool
	window, pattern         int
	// absentWindow is the window of a config that does not name one; null is none.
	absentWindow int
}

// families are the model types that are read.
var families = map[string]family{ //nolint:gochecknoglobals // a table, never written.
	"llama":       {layout: fullLayers, headsAreKV: true, splitHidden: true},
	"mistral":     {layout: windowEverywhere, splitHidden: true, absentWindow: 4096},
	"mixtral":     {layout: windowEverywhere, splitHidden: true},
	"qwen2":       {layout: windowAbove, splitHidden: true},
	"qwen2_moe":   {layout: windowUnused, splitHidden: true},
	"qwen3":       {layout: windowAbove, headDim: 128},
	"qwen3_moe":   {layout: windowIfUsed, splitHidden: true},
	"deepseek_v2": {layout: latentLayers},
	"deepseek_v3": {layout: latentLayers},
	"gemma2":      {layout: windowPattern, kvHeads: 4, headDim: 256, window: 4096, pattern: 2},
	"gemma3_text": {layout: windowPattern, kvHeads: 4, headDim: 256, window: 4096, pattern: 6},
	"gpt_oss":     {layout: windowPattern, window: 128, pattern: 2},
}

// ReadGeometry reads a Hugging Face config.json. What it does not know exactly
// it refuses, with the field's name.
func ReadGeometry(config []byte) (Geometry, error) {
	c, fields, err := readModelConfig(config)
	if err != nil {
		return Geometry{}, err
	}
	if err := refuseFixedState(c, fields); err != nil {
		return Geometry{}, err
	}
	f, known := families[c.ModelType]
	if !known {
		return Geometry{}, fmt.Errorf("model_type %q is not read: it may be %s", c.ModelType, strings.Join(slices.Sorted(maps.Keys(families)), ", "))
	}
	if c.Layers <= 0 {
		return Geometry{}, errors.New("num_hidden_layers is missing")
	}
	if _, named := fields["sliding_window"]; !named && f.absentWindow > 0 {
		c.Window = &f.absentWindow
	}
	f.fill(&c)
	g := Geometry{
		ModelType: c.ModelType, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Experts: max(c.LocalExperts, c.Experts, c.RoutedExperts), ExpertsPerToken: c.PerToken,
		DType: c.TorchDType, Quantised: c.Quantisation != nil, MaxPositions: c.MaxPositions,
	}
	if g.DType == "" {
		g.DType = c.DType
	}
	if g.Experts == 0 {
		g.ExpertsPerToken = 0
	}
	if c.Quantisation != nil {
		g.KVDType = quantisedKV(*c.Quantisation)
	}
	return g, f.layout(&c, &g)
}

// readModelConfig decodes the fields; those of a multimodal model are the ones
// of its text part.
func readModelConfig(config []byte) (modelConfig, map[string]json.RawMessage, error) {
	var c modelConfig
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(config, &fields); err != nil {
		return c, nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return c, nil, jsonError(err)
	}
	if c.ModelType == "" {
		return c, nil, errors.New("model_type is missing: is it a Hugging Face config.json?")
	}
	if c.Text == nil {
		return c, fields, nil
	}
	text := modelConfig{TorchDType: c.TorchDType, DType: c.DType, Quantisation: c.Quantisation}
	if err := json.Unmarshal(*c.Text, &text); err != nil {
		return c, nil, fmt.Errorf("text_config: %w", jsonError(err))
	}
	if text.ModelType == "" && c.ModelType == "gemma3" {
		text.ModelType = "gemma3_text"
	}
	if text.ModelType == "" {
		return c, nil, errors.New("text_config: model_type is missing")
	}
	err := json.Unmarshal(*c.Text, &fields)
	return text, fields, err
}

// jsonError names the field that does not hold what it should, not a Go type.
func jsonError(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s is a %s", wrong.Field, wrong.Value)
	}
	return err
}

// fixedState are fields, or beginnings of their names, of models that keep
// something else beside keys and values of tokens, by what they stand for.
var fixedState = []struct{ prefix, what string }{ //nolint:gochecknoglobals // a table, never written.
	{"mamba_", "Mamba layers"},
	{"ssm_", "Mamba layers"},
	{"state_size", "Mamba layers"},
	{"hybrid_override_pattern", "Mamba layers"},
	{"layers_block_type", "Mamba layers"},
	{"attn_layer_", "Mamba layers"},
	{"linear_num_", "linear attention"},
	{"full_attention_interval", "linear attention"},
	{"attention_chunk_size", "chunked attention"},
	{"index_topk", "sparse attention with an index"},
	{"cross_attention_layers", "cross-attention"},
	{"num_kv_shared_layers", "layers that share keys and values"},
	{"num_global_key_value_heads", "layers with other heads"},
}

// refuseFixedState refuses what keeps more or other than keys, values and
// latents of tokens: its memory is not proportional to them.
func refuseFixedState(c modelConfig, fields map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		for _, state := range fixedState {
			if strings.HasPrefix(name, state.prefix) && value != "null" && value != "0" {
				return fmt.Errorf("%s: %s has %s, and keeps more than keys and values of tokens: its memory is not computed", name, c.ModelType, state.what)
			}
		}
	}
	for i, kind := range c.LayerTypes {
		if kind != "full_attention" && kind != "sliding_attention" {
			return fmt.Errorf("layer_types: layer %d of %s is %q, which keeps more than keys and values of tokens: its memory is not computed", i, c.ModelType, kind)
		}
	}
	return nil
}

// fill puts in what the family's class takes for fields that are left out.
func (f family) fill(c *modelConfig) {
	if c.KVHeads == 0 {
		c.KVHeads = f.kvHeads
	}
	if c.KVHeads == 0 && f.headsAreKV {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 {
		c.HeadDim = f.headDim
	}
	if c.HeadDim == 0 && f.splitHidden && c.Heads > 0 && c.Hidden%c.Heads == 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	if c.Window == nil && f.window > 0 {
		c.Window = &f.window
	}
	if c.Pattern <= 0 {
		c.Pattern = f.pattern
	}
}

// heads checks what layers with keys and values need.
func (c *modelConfig) heads() error {
	switch {
	case c.KVHeads <= 0:
		return errors.New("num_key_value_heads is missing")
	case c.HeadDim <= 0:
		return errors.New("head_dim is missing, and hidden_size over num_attention_heads does not give it")
	default:
		return nil
	}
}

// windowed splits the layers into full ones and sliding ones.
func (c *modelConfig) windowed(g *Geometry, sliding int) error {
	if sliding > 0 && (c.Window == nil || *c.Window <= 0) {
		return errors.New("sliding_window is missing, and there are sliding layers")
	}
	g.FullLayers, g.SlidingLayers = c.Layers-sliding, sliding
	if sliding > 0 {
		g.Window = *c.Window
	}
	return c.heads()
}

// listed counts the sliding layers that layer_types lists; false without a list.
func (c *modelConfig) listed() (sliding int, ok bool, err error) {
	if len(c.LayerTypes) == 0 {
		return 0, false, nil
	}
	if len(c.LayerTypes) != c.Layers {
		return 0, false, fmt.Errorf("layer_types has %d layers, num_hidden_layers is %d", len(c.LayerTypes), c.Layers)
	}
	for _, kind := range c.LayerTypes {
		if kind == "sliding_attention" {
			sliding++
		}
	}
	return sliding, true, nil
}

// fullLayers is attention over the whole context in every layer.
func fullLayers(c *modelConfig, g *Geometry) error { return c.windowed(g, 0) }

// windowEverywhere is a window in every layer where one is set (Mistral 7B v0.1).
func windowEverywhere(c *modelConfig, g *Geometry) error {
	if c.Window != nil && *c.Window > 0 {
		return c.windowed(g, c.Layers)
	}
	return c.windowed(g, 0)
}

// windowIfUsed is a window in every layer where use_sliding_window says so (Qwen 3
// MoE: its class knows max_window_layers no more).
func windowIfUsed(c *modelConfig, g *Geometry) error {
	if !c.UseWindow {
		c.Window = nil
	}
	return windowEverywhere(c, g)
}

// windowUnused refuses a window: transformers lays it out in another way than
// vLLM, which keeps all tokens (Qwen 2 MoE; no published model has one).
func windowUnused(c *modelConfig, g *Geometry) error {
	if c.UseWindow {
		return fmt.Errorf("use_sliding_window: the layers of %s with a window are not read", c.ModelType)
	}
	return fullLayers(c, g)
}

// qwenWindowLayers is max_window_layers where Qwen's configs leave it out.
const qwenWindowLayers = 28

// windowAbove is a window in the layers from max_window_layers on, where
// use_sliding_window says so (Qwen). vLLM runs it in all layers or none.
func windowAbove(c *modelConfig, g *Geometry) error {
	sliding, listed, err := c.listed()
	switch {
	case err != nil:
		return err
	case listed:
		return c.windowed(g, sliding)
	case c.UseWindow && c.Window != nil:
		from := qwenWindowLayers
		if c.WindowLayers != nil {
			from = *c.WindowLayers
		}
		return c.windowed(g, min(c.Layers, max(0, c.Layers-from)))
	default:
		return c.windowed(g, 0)
	}
}

// windowPattern is one full layer after each pattern-1 sliding ones (Gemma,
// GPT-OSS).
func windowPattern(c *modelConfig, g *Geometry) error {
	sliding, listed, err := c.listed()
	if err != nil {
		return err
	}
	if !listed {
		sliding = c.Layers - c.Layers/c.Pattern
	}
	return c.windowed(g, sliding)
}

// latentLayers keep one latent per token instead of keys and values (DeepSeek).
func latentLayers(c *modelConfig, g *Geometry) error {
	switch {
	case c.LoraRank <= 0:
		return errors.New("kv_lora_rank is missing")
	case c.RopeHeadDim <= 0:
		return errors.New("qk_rope_head_dim is missing")
	}
	g.FullLayers, g.Latent = c.Layers, c.LoraRank+c.RopeHeadDim
	g.KVHeads, g.HeadDim = 0, 0
	return nil
}
