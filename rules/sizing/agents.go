package sizing

// DutyCycle is the share of a session in which it decodes (A part 4). It is
// decode alone: A provisions 0.10 to 0.12 where this gives 0.08.
func DutyCycle(calls, outputTokens, tokensPerSecondPerUser, sessionSeconds float64) float64 {
	return calls * outputTokens / tokensPerSecondPerUser / sessionSeconds
}

// Amplification is by how much failing tools and subagents multiply the calls (A
// part 4): each share weighs what it repeats.
func Amplification(failShare, failFactor, subagentShare, subagents float64) float64 {
	return (1 + failShare*(failFactor-1)) * (1 + subagentShare*(subagents-1))
}

// ConcurrentSequences is how many sequences of a population are in the batch at
// once, margin included (A part 4).
func ConcurrentSequences(people, dutyCycle, amplification, margin float64) float64 {
	return Ceil(people * dutyCycle * amplification * (1 + margin))
}

// KVRequired is what those sequences take at their greatest context, in bytes (A
// part 4). Populations are added, never averaged.
func KVRequired(sequences, kvBytesPerSequence float64) float64 {
	return sequences * kvBytesPerSequence
}

// MissAmplification is by how much a call's prefill grows when the prefix cache
// misses (A part 2): the whole prompt against the tokens that a hit leaves.
func MissAmplification(promptTokens, newTokens float64) float64 {
	return promptTokens / newTokens
}
