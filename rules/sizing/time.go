package sizing

// TPOTFloor is the least time that one output token can take, in seconds: the
// weights of a GPU (of the active parameters, for a mixture of experts) go once
// through its memory bus, and so does the KV cache of all sequences in the batch
// (C). With kvBytes 0 it is the floor of a batch of one short sequence.
func TPOTFloor(weightBytesPerGPU, kvBytesPerGPU, hbmBytesPerSecond float64) float64 {
	return (weightBytesPerGPU + kvBytesPerGPU) / hbmBytesPerSecond
}

// PrefillTokensPerSecond is how fast a replica of that many GPUs prefills: two
// operations for each active parameter and token, at the share of the peak that
// is reached (C has 0.4 to 0.6).
func PrefillTokensPerSecond(gpus, flops, efficiency, activeParameters float64) float64 {
	return gpus * flops * efficiency / (2 * activeParameters)
}

// PrefillSeconds is how long the new tokens of a prompt, those that the prefix
// cache does not hold, take (C).
func PrefillSeconds(newTokens, prefillTokensPerSecond float64) float64 {
	return newTokens / prefillTokensPerSecond
}

// RequestSeconds is how long a request occupies its place in the batch (C).
func RequestSeconds(prefillSeconds, outputTokens, tpot float64) float64 {
	return prefillSeconds + outputTokens*tpot
}

// ReplicaRPS is how many requests per second a replica completes at its
// operational concurrency (C; Little's law).
func ReplicaRPS(concurrency, requestSeconds float64) float64 {
	return concurrency / requestSeconds
}

// Replicas is how many replicas a rate takes, the head-room included (C).
func Replicas(rps, headroom, replicaRPS float64) float64 {
	return Ceil(rps * (1 + headroom) / replicaRPS)
}

// SpeculativeTPOT is the time per output token with speculative decoding that
// gains that share of it: decode goes 1/(1-gain) times as fast (C).
func SpeculativeTPOT(tpot, gain float64) float64 { return tpot * (1 - gain) }
