package collector

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

const openMetricsType = "application/openmetrics-text"

func isOpenMetrics(contentType string) bool {
	return strings.HasPrefix(strings.ToLower(contentType), openMetricsType)
}

// decodeSeries reads one line, with its end, by Prometheus's own parsers: the
// one of the page's format first, then the other, because servers are not
// strict. It gives the labels and the length of the text before the value.
func decodeSeries(line []byte, openMetrics bool) (labels.Labels, int, error) {
	first := textparse.NewPromParser(line, nil, false)
	second := textparse.NewOpenMetricsParser(line, nil)
	if openMetrics {
		first, second = second, first
	}
	lset, n, err := seriesOf(first)
	if err != nil {
		lset, n, err = seriesOf(second)
	}
	return lset, n, err
}

func seriesOf(p textparse.Parser) (lset labels.Labels, length int, err error) {
	entry, err := p.Next()
	if err != nil {
		return lset, 0, err
	}
	if entry != textparse.EntrySeries {
		return lset, 0, errors.New("not a sample")
	}
	series, _, _ := p.Series()
	p.Labels(&lset)
	return lset, len(series), nil
}

// nameEnd is the length of the metric name at the start of the line, 0 when there is none.
func nameEnd(line []byte) int {
	for i, c := range line {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == ':':
		case c >= '0' && c <= '9' && i > 0:
		default:
			return i
		}
	}
	return len(line)
}

// seriesEnd is where the name and labels of a sample line end, -1 when they do
// not. The last brace ends them, unless exemplars may follow: then the quotes
// have to be counted.
func seriesEnd(line []byte, nameLen int, exemplars bool) int {
	i := nameLen
	for i < len(line) && isBlank(line[i]) {
		i++
	}
	switch {
	case i == len(line):
		return -1
	case line[i] != '{':
		return nameLen
	case exemplars:
		return braceEnd(line, i)
	default:
		return bytes.LastIndexByte(line, '}') + 1 // at least one brace opens, so none is -1
	}
}

// braceEnd finds the end of the labels that begin at i, by their quotes.
func braceEnd(line []byte, i int) int {
	quoted := false
	for ; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return -1
}

// valueAfter parses the value that follows a series. A timestamp behind it is
// ignored, as is an exemplar where there may be one; anything else spoils the line.
func valueAfter(rest []byte, exemplars bool) (float64, bool) {
	token, rest := cutBlank(rest)
	value, ok := parseValue(token)
	if len(rest) == 0 || !ok {
		return value, ok
	}
	if exemplars {
		rest, _, _ = bytes.Cut(rest, []byte("#"))
	}
	timestamp, rest := cutBlank(rest)
	if len(timestamp) > 0 {
		_, ok = parseValue(timestamp)
	}
	return value, ok && len(rest) == 0
}

// cutBlank gives the first word of b and what follows it.
func cutBlank(b []byte) (word, rest []byte) {
	start := 0
	for start < len(b) && isBlank(b[start]) {
		start++
	}
	end := start
	for end < len(b) && !isBlank(b[end]) {
		end++
	}
	next := end
	for next < len(b) && isBlank(b[next]) {
		next++
	}
	return b[start:end], b[next:]
}

// trimLine cuts blanks off both ends, and a carriage return.
func trimLine(line []byte) []byte {
	for len(line) > 0 && (isBlank(line[len(line)-1]) || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	for len(line) > 0 && isBlank(line[0]) {
		line = line[1:]
	}
	return line
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// parseValue parses a number as Prometheus does. It does not allocate.
func parseValue(b []byte) (float64, bool) {
	if v, ok := parseShort(b); ok {
		return v, true
	}
	if len(b) == 0 || len(b) > maxNumber || bytes.ContainsAny(b, "pP_") || b[len(b)-1] == '.' {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil
}

const (
	// maxNumber is longer than any number that a client library writes.
	maxNumber = 40
	// maxExact is how many decimal digits a float holds exactly.
	maxExact = 15
)

// parseShort parses plain decimals of so few digits that they are exact as an
// integer: most values of a page are whole numbers with ".0" behind them.
func parseShort(b []byte) (float64, bool) {
	if len(b) == 0 || len(b) > maxExact+1 {
		return 0, false
	}
	var whole uint64
	scale := 0.0 // the power of ten to divide by, 0 before the point
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			whole = whole*10 + uint64(c-'0')
			scale *= 10
		case c == '.' && scale == 0 && i > 0 && i < len(b)-1:
			scale = 1
		default:
			return 0, false
		}
	}
	if scale == 0 {
		scale = 1
	}
	// Both are exact, so the quotient is rounded once, as it must be.
	return float64(whole) / scale, whole < 1e15
}

// isNotNumber says whether v cannot be reckoned with.
func isNotNumber(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
