package fleet

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// largestBody is the most that is read of a request, in bytes: the longest
// prompt that any engine takes is a few megabytes.
const largestBody = 32 << 20

// usage is what a call came to, in tokens.
type usage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	PromptDetails    *usageDetails `json:"prompt_tokens_details,omitempty"`
}

// usageDetails is what --enable-prompt-tokens-details adds.
type usageDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// reply is the head of an answer, whole or one chunk of a streamed one.
type reply struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []replyChoice `json:"choices"`
	Usage   *usage        `json:"usage,omitempty"`
}

// replyChoice is the answer, of which there is never more than one.
type replyChoice struct {
	Index        int           `json:"index"`
	Message      *replyMessage `json:"message,omitempty"`
	Delta        *replyMessage `json:"delta,omitempty"`
	Logprobs     any           `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
	StopReason   *string       `json:"stop_reason"`
}

// replyMessage is what is said in it.
type replyMessage struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

// serveModels lists the one model.
func (f *Fleet) serveModels(w http.ResponseWriter, _ *http.Request) {
	model := f.config.Model
	writeJSON(w, http.StatusOK, map[string]any{
		"object": "list",
		"data": []map[string]any{{
			"id": model, "object": "model", "created": f.config.Start.Unix(), "owned_by": "vllm",
			"root": model, "parent": nil, "max_model_len": f.longest, "permission": []any{},
		}},
	})
}

// serveChat answers a chat completion from engine i, as vLLM does: the call
// waits in the engine's queue, is looked up in its cache and takes its time in
// its batch, and the engine's page counts it.
func (f *Fleet) serveChat(i int, w http.ResponseWriter, r *http.Request) {
	request, err := readChat(http.MaxBytesReader(w, r.Body, largestBody))
	var c *conversation
	if err == nil {
		c, err = f.converse(request)
	}
	if refused := new(chatError); errors.As(err, &refused) {
		writeJSON(w, refused.Code, map[string]any{"error": refused})
		return
	}
	g := f.newGuest(i, c.blocks, c.promptTokens, c.outputTokens, c.maxTokens)
	a := &answering{chat: c, request: request, guest: g, head: reply{ID: replyID(r), Created: time.Now().Unix(), Model: f.config.Model}}
	if err := g.send(r.Context()); err != nil {
		return
	}
	if request.Stream {
		a.stream(w, r)
		return
	}
	a.whole(w, r)
}

// readChat reads the body of a request.
func readChat(body io.Reader) (*chatRequest, error) {
	invalid := func(param, problem string) error {
		return &chatError{Message: "1 validation error:\n  " + problem, Type: http.StatusText(http.StatusBadRequest), Param: &param, Code: http.StatusBadRequest}
	}
	request := &chatRequest{}
	if err := json.NewDecoder(body).Decode(request); err != nil {
		return nil, invalid("body", err.Error())
	}
	if len(request.Messages) == 0 {
		return nil, invalid("body.messages", "{'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required'}")
	}
	return request, nil
}

// replyID names an answer: the client may choose.
func replyID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" {
		var random [16]byte
		for i := range random {
			random[i] = byte(rand.Uint32())
		}
		id = hex.EncodeToString(random[:])
	}
	return "chatcmpl-" + id
}

// answering is one answer on its way to a client.
type answering struct {
	chat    *conversation
	request *chatRequest
	guest   *guest
	head    reply
}

// whole answers in one piece, when the last token is there.
func (a *answering) whole(w http.ResponseWriter, r *http.Request) {
	var p progress
	for !p.Finished {
		var err error
		if p, err = a.guest.next(r.Context(), p.Tokens); err != nil {
			return
		}
		cutIfLost(p)
	}
	a.head.Object = "chat.completion"
	a.head.Choices = []replyChoice{{
		Message:      &replyMessage{Role: "assistant", Content: a.chat.answer},
		FinishReason: &a.chat.finishReason, StopReason: a.chat.stopWord,
	}}
	a.head.Usage = a.usage(p.Tokens, &usageDetails{CachedTokens: p.Cached})
	writeJSON(w, http.StatusOK, a.head)
}

// stream answers token by token, each an event, as soon as it is there.
func (a *answering) stream(w http.ResponseWriter, r *http.Request) {
	a.head.Object = "chat.completion.chunk"
	out := http.NewResponseController(w)
	var p progress
	for sent := 0; !p.Finished || sent < p.Tokens; {
		var err error
		if p, err = a.guest.next(r.Context(), sent); err != nil {
			return
		}
		cutIfLost(p)
		if sent == 0 {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			a.event(w, &replyMessage{Role: "assistant"}, false, 0)
		}
		for ; sent < p.Tokens; sent++ {
			a.event(w, &replyMessage{Content: a.chat.part(sent, sent+1)}, sent+1 == a.chat.outputTokens, sent+1)
		}
		if err := out.Flush(); err != nil {
			a.guest.abort()
			return
		}
	}
	if a.request.StreamOptions.IncludeUsage {
		a.head.Choices, a.head.Usage = []replyChoice{}, a.usage(p.Tokens, &usageDetails{CachedTokens: p.Cached})
		writeEvent(w, a.head)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n") // a client that is gone needs no end
}

// event writes a chunk; the last one says why the answer ends.
func (a *answering) event(w io.Writer, delta *replyMessage, last bool, tokens int) {
	choice := replyChoice{Delta: delta}
	if last {
		choice.FinishReason, choice.StopReason = &a.chat.finishReason, a.chat.stopWord
	}
	a.head.Choices = append(a.head.Choices[:0], choice)
	if a.request.StreamOptions.IncludeUsage && a.request.StreamOptions.ContinuousUsageStats {
		a.head.Usage = a.usage(tokens, nil)
	}
	writeEvent(w, a.head)
}

// usage counts the call.
func (a *answering) usage(tokens int, details *usageDetails) *usage {
	return &usage{
		PromptTokens: a.chat.promptTokens, CompletionTokens: tokens, TotalTokens: a.chat.promptTokens + tokens,
		PromptDetails: details,
	}
}

// cutIfLost ends the connection when the engine went down with the request.
func cutIfLost(p progress) {
	if p.Lost {
		panic(http.ErrAbortHandler)
	}
}

// writeEvent writes one event of a stream. An error is noticed by the flush.
func writeEvent(w io.Writer, what any) {
	data, err := json.Marshal(what)
	if err != nil {
		panic(err) // these types can be written
	}
	_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
}

func writeJSON(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what) // the client has gone: nobody to tell
}
