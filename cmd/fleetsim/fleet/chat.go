package fleet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// bytesPerToken is the rule by which text is counted in tokens, in the answers
// to requests from outside and in the sizes of bodies: four bytes are one, and
// what is left at the end is one more.
const bytesPerToken = 4

func tokensOf(text string) int { return (len(text) + bytesPerToken - 1) / bytesPerToken }

// chatRequest is what is read of the body of a chat completion. The rest, as
// temperature, changes nothing.
type chatRequest struct {
	Model    string            `json:"model"`
	Messages []chatMessage     `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
	// MaxCompletionTokens goes before MaxTokens, which is its older name.
	MaxCompletionTokens *int      `json:"max_completion_tokens"`
	MaxTokens           *int      `json:"max_tokens"`
	MinTokens           int       `json:"min_tokens"`
	IgnoreEOS           bool      `json:"ignore_eos"`
	N                   *int      `json:"n"`
	Stop                stopWords `json:"stop"`
	Stream              bool      `json:"stream"`
	StreamOptions       struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

// chatMessage is one message of the conversation.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   chatContent     `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// chatContent is the text of a message: a string, nothing, or parts of text.
type chatContent string

// UnmarshalJSON reads all three forms.
func (c *chatContent) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) || string(data) == "null" {
		return json.Unmarshal(data, (*string)(c))
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	var text strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return fmt.Errorf("content of type %q is not simulated: only text is", p.Type)
		}
		text.WriteString(p.Text)
	}
	*c = chatContent(text.String())
	return nil
}

// stopWords end an answer: one, or a list of them.
type stopWords []string

// UnmarshalJSON reads both forms.
func (s *stopWords) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte(`"`)) {
		return json.Unmarshal(data, (*[]string)(s))
	}
	var one string
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*s = stopWords{one}
	return nil
}

// render writes the prompt as a chat template does: tools in front, then each
// message in marks of its own, then the mark of the answer. The answer of one
// call, sent back as a message, continues its prompt to the letter.
func (r *chatRequest) render() string {
	var b strings.Builder
	for _, tool := range r.Tools {
		fmt.Fprintf(&b, "<|tool|>\n%s\n", tool)
	}
	for _, m := range r.Messages {
		fmt.Fprintf(&b, "<|%s|>\n%s", m.Role, m.Content)
		if len(m.ToolCalls) > 0 && string(m.ToolCalls) != "null" {
			b.Write(m.ToolCalls)
		}
		b.WriteString("<|end|>\n")
	}
	b.WriteString("<|assistant|>\n")
	return b.String()
}

// maxTokens is what the client bounds the answer to, and the name that it calls
// the bound by; nil where it does not.
func (r *chatRequest) maxTokens() (bound *int, name string) {
	if r.MaxCompletionTokens != nil {
		return r.MaxCompletionTokens, "max_completion_tokens"
	}
	return r.MaxTokens, "max_tokens"
}

// conversation is a request that can be served: its prompt and the whole answer.
type conversation struct {
	promptTokens int
	// answer is the text that the client gets, in tokens of four bytes.
	answer       string
	outputTokens int
	maxTokens    int
	// finishReason is stop or length, stopWord what it was stopped by, if any.
	finishReason string
	stopWord     *string
	blocks       blockHashes
}

// chatError is why a request is refused.
type chatError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// Error is what is wrong.
func (e *chatError) Error() string { return e.Message }

func badRequest(param, format string, args ...any) error {
	return &chatError{Message: fmt.Sprintf(format, args...), Type: "BadRequestError", Param: &param, Code: 400}
}

// converse works out prompt and answer. Equal prompts get equal answers, as at
// temperature 0. The answer is as long as those of the fleet's own workload,
// unless the client says otherwise.
func (f *Fleet) converse(r *chatRequest) (*conversation, error) {
	if r.Model != "" && r.Model != f.config.Model {
		param := "model"
		return nil, &chatError{Message: fmt.Sprintf("The model `%s` does not exist.", r.Model), Type: "NotFoundError", Param: &param, Code: 404}
	}
	if r.N != nil && *r.N != 1 {
		return nil, badRequest("n", "n=%d is not simulated: only 1 is.", *r.N)
	}
	bound, name := r.maxTokens()
	if bound != nil && *bound > f.longest {
		return nil, badRequest(name, "%s=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.", name, *bound, f.longest)
	}
	text := r.render()
	c := &conversation{promptTokens: tokensOf(text)}
	if c.promptTokens > f.longest {
		return nil, badRequest("input_tokens", "This model's maximum context length is %d tokens. However, your prompt contains %d input tokens, "+
			"which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.", f.longest, c.promptTokens)
	}
	c.maxTokens = f.longest - c.promptTokens
	if bound != nil {
		c.maxTokens = min(c.maxTokens, *bound)
	}
	if c.maxTokens < 1 {
		return nil, badRequest("max_tokens", "max_tokens must be at least 1, got %d.", c.maxTokens)
	}
	c.reply(r, rand.New(rand.NewPCG(f.config.Seed, xxhash.Sum64String(text))), f.config.Workload.OutputTokens)
	c.blocks = hashBlocks(text+c.answer, f.config.Hardware.BlockSize*bytesPerToken)
	return c, nil
}

// replyWords are what answers are made of: a token each.
const replyWords = "the and for you has not can may was all any new now one our out see two way who "

// reply makes up the answer.
func (c *conversation) reply(r *chatRequest, random *rand.Rand, usual Spread) {
	c.outputTokens = min(max(usual.count(random), r.MinTokens), c.maxTokens)
	if r.IgnoreEOS {
		c.outputTokens = c.maxTokens
	}
	var b strings.Builder
	for range c.outputTokens {
		at := random.IntN(tokensOf(replyWords)) * bytesPerToken
		b.WriteString(replyWords[at : at+bytesPerToken])
	}
	c.answer = b.String()
	c.stopAt(r.Stop)
	c.finishReason = "stop"
	if c.stopWord == nil && c.outputTokens == c.maxTokens {
		c.finishReason = "length"
	}
}

// stopAt ends the answer before the first of the words, whose tokens were
// generated all the same.
func (c *conversation) stopAt(words stopWords) {
	at := len(c.answer)
	for i, word := range words {
		if found := strings.Index(c.answer, word); word != "" && found >= 0 && found < at {
			at, c.stopWord = found, &words[i]
		}
	}
	if c.stopWord != nil {
		c.outputTokens = tokensOf(c.answer[:at] + *c.stopWord)
		c.answer = c.answer[:at]
	}
}

// part is the text of the answer's tokens from one to before another.
func (c *conversation) part(from, to int) string {
	return c.answer[min(from*bytesPerToken, len(c.answer)):min(to*bytesPerToken, len(c.answer))]
}

// hashBlocks names the full blocks of a text, so many bytes each.
func hashBlocks(text string, size int) blockHashes {
	hashes := make(blockHashes, 0, len(text)/size)
	digest := xxhash.New()
	var before [8]byte
	for ; len(text) >= size; text = text[size:] {
		digest.Reset()
		_, _ = digest.Write(before[:])         // never fails
		_, _ = digest.WriteString(text[:size]) // never fails
		hashes = append(hashes, digest.Sum64())
		binary.LittleEndian.PutUint64(before[:], digest.Sum64())
	}
	return hashes
}
