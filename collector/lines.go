package collector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// chunkBytes is what one read asks for.
	chunkBytes = 16 << 10
	// maxLineBytes is the longest line that is carried over from chunk to chunk.
	maxLineBytes = 1 << 20
	// maxIdleReads is how often a body may answer with neither data nor error.
	maxIdleReads = 100
)

// lineReader cuts a stream into lines without ever holding more of it than one
// chunk and one line.
type lineReader struct {
	// buf is what is read through; of another size than chunkBytes it is made anew.
	buf []byte
	// bytes counts what was read of the present body.
	bytes int64
	// last is a copy of the body's last line that is not empty, once it was read.
	last []byte
}

// each calls line for every line, without its end. The last argument is false
// for a last line that has no end. The slice is valid during the call only.
func (r *lineReader) each(body io.Reader, maxBytes int64, line func(line []byte, ended bool) error) error {
	if len(r.buf) != chunkBytes {
		r.buf = make([]byte, chunkBytes) // a longer one is not kept
	}
	r.bytes, r.last = 0, r.last[:0]
	held := 0
	for idle := 0; ; {
		n, err := body.Read(r.buf[held:])
		r.bytes += int64(n)
		if r.bytes > maxBytes {
			return &PageError{StateTooLarge, fmt.Sprintf("the page is larger than %d bytes; raise body_size_limit if that is expected", maxBytes)}
		}
		rest, lineErr := r.cut(r.buf[:held+n], line)
		if lineErr != nil {
			return lineErr
		}
		held = copy(r.buf, rest)
		switch {
		case errors.Is(err, io.EOF):
			if held == 0 {
				return nil
			}
			r.last = append(r.last[:0], r.buf[:held]...)
			return line(r.last, false)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return &PageError{StateTruncated, fmt.Sprintf("the page broke off after %d bytes", r.bytes)}
		case err != nil:
			return err
		}
		if n > 0 {
			idle = 0
		} else if idle++; idle > maxIdleReads {
			return io.ErrNoProgress
		}
		if held == len(r.buf) {
			if held >= maxLineBytes {
				return &PageError{StateTooLarge, fmt.Sprintf("the page holds a line of more than %d bytes, which no metrics page needs", maxLineBytes)}
			}
			r.buf = append(r.buf, make([]byte, held)...)
		}
	}
}

// cut calls line for every whole line in b and returns what is left.
func (r *lineReader) cut(b []byte, line func(line []byte, ended bool) error) ([]byte, error) {
	var last []byte
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			break
		}
		if err := line(b[:end], true); err != nil {
			return nil, err
		}
		if end > 0 {
			last = b[:end]
		}
		b = b[end+1:]
	}
	if len(last) > 0 {
		r.last = append(r.last[:0], last...)
	}
	return b, nil
}
