package sizing

// KVBytesPerToken is what one token of context takes in the KV cache, in bytes,
// for plain attention: a key and a value of every KV head in every layer (A part
// 3, C). Models with a latent or with windows: Geometry.
func KVBytesPerToken(layers, kvHeads, headDim, bytesPerElement float64) float64 {
	return 2 * layers * kvHeads * headDim * bytesPerElement
}

// KVBytesPerSequence is what a sequence of that many tokens takes, in bytes (A
// part 3).
func KVBytesPerSequence(kvBytesPerToken, contextTokens float64) float64 {
	return kvBytesPerToken * contextTokens
}

// WeightBytes is what the weights take on each GPU, in bytes: tensor parallelism
// divides them (C). With tensorParallel 1 it is the whole model. A mixture of
// experts holds all of its parameters.
func WeightBytes(parameters, bytesPerParameter, tensorParallel float64) float64 {
	return parameters * bytesPerParameter / tensorParallel
}

// MoEActiveBytesPerToken is what decoding one token reads of the weights, in
// bytes over all GPUs: the active parameters only (C).
func MoEActiveBytesPerToken(activeParameters, bytesPerParameter float64) float64 {
	return activeParameters * bytesPerParameter
}

// KVBudgetBytes is what a replica has for KV cache, in bytes over its GPUs: what
// the engine may use of each GPU's memory less weights, activations and overhead
// (C, A part 3). usable is the whole memory, or the share that the engine was
// told to take. It is negative where the model does not fit.
func KVBudgetBytes(usable, weights, activations, overhead, tensorParallel float64) float64 {
	return (usable - weights - activations - overhead) * tensorParallel
}

// MaxSequences is how many sequences of that size a replica holds at once (A
// part 3, C); none where the model leaves no room. copies is how often the
// replica keeps each byte of KV: once, unless tensor parallelism exceeds the KV
// heads (Geometry.Copies).
func MaxSequences(kvBudget, kvBytesPerSequence, copies float64) float64 {
	return max(0, Floor(kvBudget/(kvBytesPerSequence*copies)))
}

// MaxLiveTokens is how many tokens a replica's KV cache holds (C); copies as for
// MaxSequences.
func MaxLiveTokens(kvBudget, kvBytesPerToken, copies float64) float64 {
	return max(0, Floor(kvBudget/(kvBytesPerToken*copies)))
}
