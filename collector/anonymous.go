package collector

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// maxHashed bounds how many label values are remembered with their hashes.
const maxHashed = 1 << 20

// technicalLabels say nothing about people, and are kept in a recording beside
// those that the sources read. All others are hashed: a gateway takes labels
// of its owner's choice, so a list of what is personal would never be whole.
var technicalLabels = []string{ //nolint:gochecknoglobals // a constant
	"le", "quantile", "pid", "version", "implementation", "major", "minor", "patchlevel", "generation", "method", "status", "handler",
	"api_provider", "litellm_model_name", "fallback_model", "exception_class", "callback_name", "token_type", "position",
	"cache_dtype", "calculate_kv_scales", "cpu_kvcache_space_bytes", "cpu_offload_gb", "gpu_memory_utilization", "is_attention_free",
	"mamba_block_size", "mamba_cache_dtype", "mamba_ssm_cache_dtype", "num_cpu_blocks", "num_gpu_blocks_override", "num_cpu_blocks_override",
	"prefix_caching_hash_algo", "sliding_window", "swap_space", "swap_space_bytes", "kv_sharing_fast_prefill", "kv_cache_memory_bytes",
}

// personal finds what identifies people or keys in a value whatever its label
// is called: a mail address, a home directory, an IP address, a key or its hash.
var personal = regexp.MustCompile(`@|/home/|/Users/|\bsk-|[0-9a-fA-F]{32}|\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b|[0-9a-fA-F]{0,4}:[0-9a-fA-F]{0,4}:[0-9a-fA-F]{0,4}:`)

// anonymiser rewrites metrics pages so that nothing in them names a person or a
// key. Equal values get equal hashes, so that series go on from page to page;
// the salt is random and never written down, so that nobody can try out names.
// It is not safe for concurrent use.
type anonymiser struct {
	salt []byte
	// kept are the labels whose values stay.
	kept map[string]bool
	// hashed are the hashes by value, judged what isPersonal said of a value.
	hashed map[string]string
	judged map[string]bool
}

func newAnonymiser() *anonymiser {
	a := &anonymiser{salt: make([]byte, sha256.Size), kept: map[string]bool{}, hashed: map[string]string{}, judged: map[string]bool{}}
	_, _ = rand.Read(a.salt) // never fails
	keep := func(names []string) {
		for _, n := range names {
			a.kept[n] = true
		}
	}
	keep(technicalLabels)
	for _, s := range registered.sources {
		keep(s.labels)
		for _, other := range s.renames {
			a.kept[other] = true
		}
	}
	for _, f := range registered.families {
		keep(f.labels)
	}
	return a
}

// page appends the rewritten page to out. Lines that cannot be read, comments
// other than the format's own or with something personal, and exemplars are left out.
func (a *anonymiser) page(out, page []byte) []byte {
	for line := range bytes.Lines(page) {
		line = trimLine(bytes.TrimSuffix(line, []byte("\n")))
		if len(line) == 0 {
			continue
		}
		begin := len(out)
		var ok bool
		if line[0] == '#' {
			if ok = ofTheFormat(line) && !a.isPersonal(line); ok {
				out = append(out, line...)
			}
		} else {
			out, ok = a.sample(out, line)
		}
		if !ok {
			out = out[:begin]
			continue
		}
		out = append(out, '\n')
	}
	return out
}

// ofTheFormat says whether a comment means something.
func ofTheFormat(line []byte) bool {
	return bytes.Equal(line, []byte("# EOF")) ||
		bytes.HasPrefix(line, []byte("# HELP ")) || bytes.HasPrefix(line, []byte("# TYPE ")) || bytes.HasPrefix(line, []byte("# UNIT "))
}

// sample rewrites one sample line; false when it cannot be read.
func (a *anonymiser) sample(out, line []byte) ([]byte, bool) {
	n := nameEnd(line)
	if n == 0 {
		return out, false
	}
	out = append(out, line[:n]...)
	rest := line[n:]
	if len(rest) > 0 && rest[0] == '{' {
		var ok bool
		if out, rest, ok = a.labels(append(out, '{'), rest[1:]); !ok {
			return out, false
		}
	}
	if i := bytes.IndexByte(rest, '#'); i >= 0 {
		rest = rest[:i] // an exemplar, which names a trace
	}
	if _, ok := valueAfter(rest, true); !ok {
		return out, false
	}
	return append(out, trimRight(rest)...), true
}

func trimRight(b []byte) []byte { return bytes.TrimRight(b, " \t") }

// labels rewrites what stands between the braces and returns what follows them.
func (a *anonymiser) labels(out, text []byte) (rewritten, rest []byte, ok bool) {
	for first := true; ; first = false {
		text = bytes.TrimLeft(text, " \t,")
		if len(text) > 0 && text[0] == '}' {
			return append(out, '}'), text[1:], true
		}
		n := nameEnd(text)
		name := text[:n]
		text = bytes.TrimLeft(text[n:], " \t")
		if n == 0 || len(text) == 0 || text[0] != '=' {
			return out, nil, false
		}
		text = bytes.TrimLeft(text[1:], " \t")
		end := quoteEnd(text)
		if end < 0 {
			return out, nil, false
		}
		if !first {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), '=', '"'), a.value(name, text[1:end])...)
		out = append(out, '"')
		text = text[end+1:]
	}
}

// quoteEnd is where the quoted text that b begins with ends; -1 when it does not.
func quoteEnd(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// value is what is written for a label's value, escapes and all.
func (a *anonymiser) value(name, value []byte) string {
	if a.kept[string(name)] && (!a.isPersonal(value) || string(name) == labelModelID && isDigest(value)) {
		return string(value)
	}
	if len(value) == 0 || string(value) == "None" {
		return string(value)
	}
	if hash, ok := a.hashed[string(value)]; ok {
		return hash
	}
	if len(a.hashed) >= maxHashed {
		clear(a.hashed)
	}
	h := hmac.New(sha256.New, a.salt)
	h.Write(value)
	hash := "h" + hex.EncodeToString(h.Sum(nil)[:8])
	a.hashed[string(value)] = hash
	return hash
}

// isPersonal says whether a value looks like a person's or a key's, and
// remembers it: the values of labels that are kept are few.
func (a *anonymiser) isPersonal(value []byte) bool {
	is, known := a.judged[string(value)]
	if !known {
		if len(a.judged) >= maxHashed {
			clear(a.judged)
		}
		is = personal.Match(value)
		a.judged[string(value)] = is
	}
	return is
}

// isDigest says whether a value is a SHA-256 in hexadecimal, which is what
// LiteLLM calls a deployment that was given no name.
func isDigest(value []byte) bool {
	if len(value) != 2*sha256.Size {
		return false
	}
	_, err := hex.DecodeString(string(value))
	return err == nil
}
