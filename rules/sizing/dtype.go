package sizing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// weightTypes are the bytes of one parameter by the name of its type. Block
// formats hold a scale for each block beside their 4 bits: mxfp4 8 bits for 32
// values, nvfp4 8 bits for 16. For int4, awq and gptq C counts 4 bits.
var weightTypes = map[string]float64{ //nolint:gochecknoglobals // a table of names, never written.
	"fp32": 4, "float32": 4,
	"bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2, "half": 2,
	"fp8": 1, "int8": 1,
	"int4": 0.5, "awq": 0.5, "gptq": 0.5,
	"mxfp4": 0.5 + 1.0/32, "nvfp4": 0.5 + 1.0/16,
}

// kvTypes are the bytes of one element of the KV cache by vLLM's name of its
// type; auto is the model's own.
var kvTypes = map[string]float64{ //nolint:gochecknoglobals // a table of names, never written.
	"fp32": 4, "float32": 4,
	"bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2, "half": 2,
	"fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "int8": 1,
}

// BytesPerParameter is what one weight of that type takes, in bytes.
func BytesPerParameter(dtype string) (float64, error) { return typeBytes(weightTypes, dtype) }

// BytesPerKVElement is what one element of the KV cache takes, in bytes.
func BytesPerKVElement(dtype string) (float64, error) { return typeBytes(kvTypes, dtype) }

func typeBytes(table map[string]float64, dtype string) (float64, error) {
	if bytes, ok := table[strings.ToLower(dtype)]; ok {
		return bytes, nil
	}
	return 0, fmt.Errorf("%q is not a known type: %s", dtype, strings.Join(slices.Sorted(maps.Keys(table)), ", "))
}
