package sizing

import (
	"encoding/json"
	"fmt"
	"strings"
)

// quantisation is what quantization_config says of the KV cache: a scheme
// (compressed-tensors), or the name of an algorithm (ModelOpt).
type quantisation struct {
	Scheme    json.RawMessage `json:"kv_cache_scheme"`
	Algorithm string          `json:"kv_cache_quant_algo"`
	// Nested is where ModelOpt may write both.
	Nested json.RawMessage `json:"quantization"`
}

// quantisedKV is the type of KV cache that a checkpoint asks for, which vLLM
// follows unless it is told another; "" where it asks for none. A type that is not
// read stands by its own name, so that the plan has to give kv_dtype.
func quantisedKV(config json.RawMessage) string {
	var q quantisation
	if json.Unmarshal(config, &q) != nil {
		return "" // other methods write other things there
	}
	if name := schemeType(q.Scheme); name != "" {
		return name
	}
	if q.Algorithm != "" {
		return strings.ToLower(q.Algorithm)
	}
	if len(q.Nested) > 0 {
		return quantisedKV(q.Nested)
	}
	return ""
}

// schemeType is the type of a scheme: its name, or bits of a type.
func schemeType(scheme json.RawMessage) string {
	var name string
	if json.Unmarshal(scheme, &name) == nil {
		return strings.ToLower(name)
	}
	var s struct {
		Bits int    `json:"num_bits"`
		Type string `json:"type"`
	}
	switch {
	case json.Unmarshal(scheme, &s) != nil || s.Bits == 0:
		return ""
	case s.Bits == 8 && s.Type == "float":
		return "fp8"
	default:
		return fmt.Sprintf("%s%d", s.Type, s.Bits)
	}
}
