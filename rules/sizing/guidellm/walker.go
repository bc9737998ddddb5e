package guidellm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

const (
	// longestText is how much of a text is kept: prompts and answers are read past,
	// and nothing that is kept is longer.
	longestText = 1 << 12
	// longestWord bounds what stands between two separators outside of texts.
	longestWord = 64
	// deepest bounds how deep values may lie in each other.
	deepest = 200
)

// walker goes through a JSON document value by value, without holding more than
// one word or text of it. A value of another kind than was expected counts as
// absent: only a document that is no JSON is an error. What Python writes and JSON
// has no words for (NaN, Infinity) counts as null.
//
// The standard library's decoder reads a report, of which nearly all is passed
// over, at a twentieth of the speed: it makes a value of every number.
type walker struct {
	from io.Reader
	// buffer is what was read, and at how far it was taken; before counts the bytes
	// before it, and depth the values that are open.
	buffer []byte
	at     int
	before int64
	depth  int
	// word and kept are the last word, and the last text with its quotes.
	word, kept []byte
}

func newWalker(r io.Reader) *walker { return &walker{from: r, buffer: make([]byte, 0, 1<<16)} }

// syntaxError says that the document is no JSON.
type syntaxError struct{ text string }

// Error implements error.
func (e *syntaxError) Error() string { return e.text }

func broken(format string, args ...any) error { return &syntaxError{fmt.Sprintf(format, args...)} }

// next takes a byte.
func (w *walker) next() (byte, error) {
	if w.at == len(w.buffer) {
		if err := w.fill(); err != nil {
			return 0, err
		}
	}
	w.at++
	return w.buffer[w.at-1], nil
}

// back takes the last byte back, once.
func (w *walker) back() { w.at-- }

// fill reads on.
func (w *walker) fill() error {
	w.before += int64(len(w.buffer))
	w.buffer, w.at = w.buffer[:0], 0
	for range 100 {
		n, err := w.from.Read(w.buffer[:cap(w.buffer)])
		if w.buffer = w.buffer[:n]; n > 0 {
			return nil // an error comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// read is how many bytes were taken.
func (w *walker) read() int64 { return w.before + int64(w.at) }

// peek looks at the first byte that is no space.
func (w *walker) peek() (byte, error) {
	for {
		b, err := w.next()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\n' && b != '\t' && b != '\r' {
			w.back()
			return b, nil
		}
	}
}

// take takes the first byte that is no space.
func (w *walker) take() (byte, error) {
	if _, err := w.peek(); err != nil {
		return 0, err
	}
	return w.next()
}

// object reads an object and hands each key to field, which has to read the value.
// Another value is passed over.
func (w *walker) object(field func(key string) error) error {
	if open, err := w.open('{'); err != nil || !open {
		return err
	}
	return w.members('}', func() error {
		if err := w.key(); err != nil {
			return err
		}
		key, err := w.unquoted()
		if err != nil {
			return err
		}
		return field(key)
	})
}

// key reads a key and the colon after it.
func (w *walker) key() error {
	switch b, err := w.peek(); {
	case err != nil:
		return err
	case b != '"':
		return broken("%q is no key", b)
	}
	if err := w.quoted(); err != nil {
		return err
	}
	switch b, err := w.take(); {
	case err != nil:
		return err
	case b != ':':
		return broken("%q stands where a colon should", b)
	}
	return nil
}

// array reads an array; element has to read each of its values. Another value is
// passed over.
func (w *walker) array(element func() error) error {
	if open, err := w.open('['); err != nil || !open {
		return err
	}
	return w.members(']', element)
}

// open reads the beginning of a value: false where it is of another kind, and
// then the value is passed over.
func (w *walker) open(kind byte) (bool, error) {
	b, err := w.peek()
	if err != nil {
		return false, err
	}
	if b != kind {
		return false, w.skip()
	}
	_, err = w.next()
	return true, err
}

// members reads what is left of an object or an array, whose beginning was read.
func (w *walker) members(end byte, member func() error) error {
	if w.depth++; w.depth > deepest {
		return fmt.Errorf("values lie over %d deep in each other: this is no GuideLLM report", deepest)
	}
	b, err := w.peek()
	if err == nil && b == end {
		w.depth--
		_, err = w.next()
		return err
	}
	for err == nil {
		if err = member(); err != nil {
			return err
		}
		if b, err = w.take(); err != nil {
			return err
		}
		switch b {
		case ',':
		case end:
			w.depth--
			return nil
		default:
			return broken("%q stands where a comma should", b)
		}
	}
	return err
}

// skip passes over a value, however deep.
func (w *walker) skip() error {
	b, err := w.peek()
	if err != nil {
		return err
	}
	switch b {
	case '{':
		_, _ = w.next() // it was seen
		return w.members('}', func() error {
			if err := w.key(); err != nil {
				return err
			}
			return w.skip()
		})
	case '[':
		_, _ = w.next()
		return w.members(']', w.skip)
	case '"':
		return w.quoted()
	default:
		return w.literal()
	}
}

// quoted reads a text and keeps its beginning. Cutting never splits an escape.
func (w *walker) quoted() error {
	if _, err := w.next(); err != nil {
		return err
	}
	w.kept = append(w.kept[:0], '"')
	for {
		b, err := w.next()
		if err != nil {
			return err
		}
		keep := len(w.kept) <= longestText
		switch {
		case b == '"':
			w.kept = append(w.kept, '"')
			return nil
		case b < ' ':
			return broken("a text holds the byte %#02x", b)
		case keep:
			w.kept = append(w.kept, b)
		}
		if b == '\\' {
			if err := w.escape(keep); err != nil {
				return err
			}
		}
	}
}

// escape reads what follows a backslash.
func (w *walker) escape(keep bool) error {
	hex := 0
	for first := true; first || hex > 0; first = false {
		b, err := w.next()
		switch {
		case err != nil:
			return err
		case first && b == 'u':
			hex = 4
		case first && bytes.IndexByte([]byte(`"\/bfnrt`), b) < 0, !first && !isHex(b):
			return broken("%q is no escape", b)
		case !first:
			hex--
		}
		if keep {
			w.kept = append(w.kept, b)
		}
	}
	return nil
}

func isHex(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F'
}

// unquoted is the text that was read last.
func (w *walker) unquoted() (string, error) {
	if bytes.IndexByte(w.kept, '\\') < 0 {
		return string(bytes.ToValidUTF8(w.kept[1:len(w.kept)-1], []byte("\uFFFD"))), nil
	}
	text := ""
	err := json.Unmarshal(w.kept, &text)
	return text, err
}

// literal reads a number or a word into w.word, which is null for what JSON has no
// word for.
func (w *walker) literal() error {
	w.word = w.word[:0]
	for {
		b, err := w.next()
		if errors.Is(err, io.EOF) && len(w.word) > 0 {
			break
		}
		if err != nil {
			return err
		}
		if separates(b) {
			w.back()
			break
		}
		if len(w.word) == longestWord {
			return errors.New("a number or word is longer than any that JSON has: this is no GuideLLM report")
		}
		w.word = append(w.word, b)
	}
	switch string(w.word) {
	case "NaN", "Infinity", "-Infinity", "inf", "-inf", "nan":
		w.word = append(w.word[:0], "null"...)
	case "true", "false", "null":
	case "":
		b, err := w.next()
		if err != nil {
			return err
		}
		return broken("%q begins no value", b)
	default:
		if !isNumber(w.word) {
			return broken("%q is no value", w.word)
		}
	}
	return nil
}

// separates says whether a byte ends a word.
func separates(b byte) bool {
	switch b {
	case ' ', '\n', '\t', '\r', ',', ':', ']', '}', '[', '{', '"':
		return true
	default:
		return false
	}
}

// isNumber says whether a word is a number of JSON.
func isNumber(word []byte) bool {
	digits := func(b []byte) []byte {
		for len(b) > 0 && '0' <= b[0] && b[0] <= '9' {
			b = b[1:]
		}
		return b
	}
	rest := bytes.TrimPrefix(word, []byte("-"))
	whole := digits(rest)
	if len(whole) == len(rest) || rest[0] == '0' && len(rest)-len(whole) > 1 {
		return false
	}
	rest = whole
	if len(rest) > 0 && rest[0] == '.' {
		fraction := digits(rest[1:])
		if len(fraction) == len(rest)-1 {
			return false
		}
		rest = fraction
	}
	if len(rest) > 0 && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		exponent := digits(rest)
		return len(exponent) == 0 && len(rest) > 0
	}
	return len(rest) == 0
}

// scalar reads a value that is no object and no array, and says what it begins
// with; another is passed over and begins with 0.
func (w *walker) scalar() (byte, error) {
	b, err := w.peek()
	if err != nil {
		return 0, err
	}
	if b == '{' || b == '[' {
		return 0, w.skip()
	}
	return b, w.skip()
}

// number reads a number; nil where there is none, or none that is finite.
func (w *walker) number() (*float64, error) {
	b, err := w.scalar()
	if err != nil || b != '-' && (b < '0' || b > '9') || string(w.word) == "null" {
		return nil, err
	}
	v, err := strconv.ParseFloat(string(w.word), 64)
	if err != nil || math.IsInf(v, 0) {
		return nil, nil //nolint:nilerr,nilnil // a number that no float holds is as good as absent.
	}
	return &v, nil
}

// numberTo reads a number into a place, which stays as it is where there is none.
func (w *walker) numberTo(to *float64) error {
	v, err := w.number()
	if v != nil {
		*to = *v
	}
	return err
}

// text reads a text; "" where there is none.
func (w *walker) text() (string, error) {
	if b, err := w.scalar(); err != nil || b != '"' {
		return "", err
	}
	return w.unquoted()
}

// flag reads whether something is true.
func (w *walker) flag() (bool, error) {
	b, err := w.scalar()
	return b == 't', err
}

// trailing is an error where something follows the document.
func (w *walker) trailing() error {
	_, err := w.peek()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.New("something follows the report")
}

// explain says where a document is broken.
func (w *walker) explain(err error) error {
	_, syntax := errors.AsType[*syntaxError](err)
	switch {
	case errors.Is(err, io.EOF):
		if w.read() == 0 {
			return errors.New("the file is empty")
		}
		return fmt.Errorf("the file ends in the middle, after about byte %d: was the run or the copy cut off?", w.read())
	case syntax:
		return fmt.Errorf("this is no JSON from about byte %d on (%w): kvwatch reads GuideLLM's JSON, write it with --output-path=benchmarks.json", w.read(), err)
	default:
		return err
	}
}
