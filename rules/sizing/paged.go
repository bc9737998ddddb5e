package sizing

import "math"

// Groups are a model's layers as vLLM deals them out blocks. A block holds some
// tokens of every layer of one group, and all groups draw on one pool, so that
// they have to be of one size: where full and sliding layers are mixed, the last
// group of a kind is padded with layers that keep nothing and take memory
// (vllm/v1/core/kv_cache_utils.py of 0.32).
type Groups struct {
	// Layers are those of each group, padding included.
	Layers int
	// Full groups keep every token of the context, Sliding ones the last of it.
	Full, Sliding int
}

// Groups are as many layers each as the rarer kind has; as the more frequent one
// has, where that is less than half as many again.
func (g Geometry) Groups() Groups {
	switch {
	case g.SlidingLayers == 0:
		return Groups{Layers: g.FullLayers, Full: 1}
	case g.FullLayers == 0:
		return Groups{Layers: g.SlidingLayers, Sliding: 1}
	}
	size, most := min(g.FullLayers, g.SlidingLayers), max(g.FullLayers, g.SlidingLayers)
	if 2*most < 3*size {
		size = most
	}
	groups := func(layers int) int { return (layers + size - 1) / size }
	return Groups{Layers: size, Full: groups(g.FullLayers), Sliding: groups(g.SlidingLayers)}
}

// Paged is the KV cache of a replica in blocks of tokens, as vLLM deals it out.
type Paged struct {
	Geometry Geometry
	// BytesPerElement is of the KV cache's type, BlockTokens vLLM's block size.
	BytesPerElement, BlockTokens float64
	// Copies is how often the replica keeps each byte: Geometry.Copies.
	Copies float64
}

// BlockBytes is what a block takes, in bytes over all GPUs of the replica.
func (p Paged) BlockBytes() float64 {
	return float64(p.Geometry.Groups().Layers*p.Geometry.LayerElements()) * p.BytesPerElement * p.BlockTokens * p.Copies
}

// Blocks is how many blocks that many bytes hold. vLLM keeps one of them back.
func (p Paged) Blocks(bytes float64) float64 {
	return max(0, math.Floor(bytes/p.BlockBytes()))
}

// SequenceBlocks is how many blocks a sequence of that many tokens holds at most
// while inFlight of them are being computed: 1 while it decodes, those of a
// prefill's steps before. A sliding layer gives a block back only when all of
// its tokens have left the window, which seldom begins where a block does: it
// holds one more.
func (p Paged) SequenceBlocks(contextTokens, inFlight float64) float64 {
	groups, window := p.Geometry.Groups(), float64(p.Geometry.Window)
	blocks := func(tokens float64) float64 { return math.Ceil(tokens / p.BlockTokens) }
	sliding := blocks(min(window-1+inFlight, contextTokens)) + 1
	return float64(groups.Full)*blocks(contextTokens) + float64(groups.Sliding)*sliding
}

// CapacityTokens is what vLLM gives as kv_cache_size_tokens of that many bytes:
// how many sequences of the longest context they hold, each while a full batch
// of it is computed, times that context. inFlight is max_num_batched_tokens of
// each batch that is under way.
func (p Paged) CapacityTokens(bytes, maxModelLen, inFlight float64) float64 {
	return math.Floor(p.Blocks(bytes) / p.SequenceBlocks(maxModelLen, inFlight) * maxModelLen)
}
