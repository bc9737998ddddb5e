package guidellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// walker goes through a JSON document token by token. A value of another kind
// than was expected counts as absent: only a document that is no JSON is an error.
type walker struct {
	decoder *json.Decoder
}

func newWalker(r io.Reader) *walker {
	decoder := json.NewDecoder(newTolerant(r))
	decoder.UseNumber()
	return &walker{decoder}
}

// object reads an object and hands each key to field, which has to read the value.
func (w *walker) object(field func(key string) error) error {
	open, err := w.open('{')
	if err != nil || !open {
		return err
	}
	for w.decoder.More() {
		token, err := w.decoder.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return fmt.Errorf("%v is no key", token)
		}
		if err := field(key); err != nil {
			return err
		}
	}
	_, err = w.decoder.Token()
	return err
}

// array reads an array; element has to read each of its values.
func (w *walker) array(element func() error) error {
	open, err := w.open('[')
	if err != nil || !open {
		return err
	}
	for w.decoder.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err = w.decoder.Token()
	return err
}

// open reads the beginning of a value: false where it is of another kind, and
// then the value is passed over.
func (w *walker) open(kind json.Delim) (bool, error) {
	token, err := w.decoder.Token()
	if err != nil {
		return false, err
	}
	if token == kind {
		return true, nil
	}
	return false, w.rest(token)
}

// skip passes over a value, however deep.
func (w *walker) skip() error {
	token, err := w.decoder.Token()
	if err != nil {
		return err
	}
	return w.rest(token)
}

// rest passes over what follows the first token of a value.
func (w *walker) rest(token json.Token) error {
	depth := 0
	for {
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		var err error
		if token, err = w.decoder.Token(); err != nil {
			return err
		}
	}
}

// number reads a number; nil where there is none, or none that is finite.
func (w *walker) number() (*float64, error) {
	token, err := w.decoder.Token()
	if err != nil {
		return nil, err
	}
	n, ok := token.(json.Number)
	if !ok {
		return nil, w.rest(token)
	}
	v, err := n.Float64()
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
	token, err := w.decoder.Token()
	if err != nil {
		return "", err
	}
	if text, ok := token.(string); ok {
		return text, nil
	}
	return "", w.rest(token)
}

// flag reads whether something is true.
func (w *walker) flag() (bool, error) {
	token, err := w.decoder.Token()
	if err != nil {
		return false, err
	}
	if flag, ok := token.(bool); ok {
		return flag, nil
	}
	return false, w.rest(token)
}

// trailing is an error where something follows the document.
func (w *walker) trailing() error {
	_, err := w.decoder.Token()
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
	at := w.decoder.InputOffset()
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		if at == 0 {
			return errors.New("the file is empty")
		}
		return fmt.Errorf("the file ends in the middle, after about byte %d: was the run or the copy cut off?", at)
	case isSyntax(err):
		return fmt.Errorf("this is no JSON from about byte %d on (%w): kvwatch reads GuideLLM's JSON, write it with --output-path=benchmarks.json", at, err)
	default:
		return err
	}
}

func isSyntax(err error) bool {
	_, ok := errors.AsType[*json.SyntaxError](err)
	return ok
}
