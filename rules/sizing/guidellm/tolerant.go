package guidellm

import (
	"errors"
	"fmt"
	"io"
)

const (
	// longestText is how much of a text is handed on: prompts and answers are read
	// past, and nothing that is kept is longer.
	longestText = 1 << 12
	// longestWord bounds what stands between two separators outside of texts.
	longestWord = 64
	// deepest bounds how deep values may lie in each other.
	deepest = 200
	// afterBackslash is an escape of which only the backslash was read; hexDigits
	// follow a \u.
	afterBackslash = -1
	hexDigits      = 4
)

// tolerant turns what Python writes into JSON: NaN, Infinity and -Infinity, which
// JSON has no words for, become null. It cuts long texts short and refuses what
// would make the decoder hold much, so that memory is bounded whatever comes.
type tolerant struct {
	from io.Reader
	raw  []byte
	// turned is what raw became, out what of it is still to be read.
	turned, out []byte
	// word is the number or literal that has begun.
	word []byte
	// inText: escape is how many bytes of one are still to come, length that of the
	// text, and keep whether the present character is handed on.
	inText, keep   bool
	escape, length int
	depth          int
	err            error
}

func newTolerant(r io.Reader) *tolerant { return &tolerant{from: r, raw: make([]byte, 1<<16)} }

// Read implements io.Reader.
func (t *tolerant) Read(p []byte) (int, error) {
	for len(t.out) == 0 {
		if t.err != nil {
			return 0, t.err
		}
		t.fill()
	}
	n := copy(p, t.out)
	t.out = t.out[n:]
	return n, nil
}

// fill turns the next piece of input over.
func (t *tolerant) fill() {
	n, err := t.from.Read(t.raw)
	t.turned = t.turned[:0]
	for _, b := range t.raw[:n] {
		if t.inText {
			t.text(b)
		} else if t.err = t.structure(b); t.err != nil {
			break
		}
	}
	if err != nil && t.err == nil {
		t.endWord()
		t.err = err
	}
	t.out = t.turned
}

// text takes a byte of a text. Cutting never splits an escape.
func (t *tolerant) text(b byte) {
	switch {
	case t.escape == afterBackslash:
		t.escape = 0
		if b == 'u' {
			t.escape = hexDigits
		}
	case t.escape > 0:
		t.escape--
	case b == '"':
		t.inText = false
		t.turned = append(t.turned, b)
		return
	default:
		t.keep = t.length < longestText
		t.length++
		if b == '\\' {
			t.escape = afterBackslash
		}
	}
	if t.keep {
		t.turned = append(t.turned, b)
	}
}

// structure takes a byte outside of texts.
func (t *tolerant) structure(b byte) error {
	switch b {
	case '"':
		t.endWord()
		t.inText, t.length = true, 0
	case '{', '[':
		t.endWord()
		if t.depth++; t.depth > deepest {
			return fmt.Errorf("values lie over %d deep in each other: this is no GuideLLM report", deepest)
		}
	case '}', ']':
		t.endWord()
		t.depth--
	case ',', ':', ' ', '\t', '\n', '\r':
		t.endWord()
	default:
		if len(t.word) == longestWord {
			return errors.New("a number or word is longer than any that JSON has: this is no GuideLLM report")
		}
		t.word = append(t.word, b)
		return nil
	}
	t.turned = append(t.turned, b)
	return nil
}

// endWord hands the word on, or null for one that JSON does not have.
func (t *tolerant) endWord() {
	switch string(t.word) {
	case "NaN", "Infinity", "-Infinity", "inf", "-inf", "nan":
		t.turned = append(t.turned, "null"...)
	default:
		t.turned = append(t.turned, t.word...)
	}
	t.word = t.word[:0]
}
