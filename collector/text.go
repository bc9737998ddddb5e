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
	// maxExact digits and ten to the power of maxPower are held exactly by a float.
	maxExact, maxPower = 15, 22
)

// parseShort parses decimals that are the quotient or product of two numbers
// which floats hold exactly, and so are rounded once, as they must be. Most
// values of a page are: "4809.0", "4.809295e+06".
func parseShort(b []byte) (float64, bool) {
	var whole uint64
	digits, power, point := 0, 0, -1
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9' && digits < maxExact:
			whole = whole*10 + uint64(c-'0')
			digits++
		case c == '.' && point < 0 && i > 0 && i < len(b)-1:
			point = digits
		case c == 'e' && point > 0 && digits > point:
			exponent, ok := parseExponent(b[i+1:])
			power = exponent - (digits - point)
			return scaled(whole, power), ok && power >= -maxPower
		default:
			return 0, false
		}
	}
	if point >= 0 {
		power = point - digits
	}
	return scaled(whole, power), digits > 0
}

// parseExponent parses what follows the e where that is a sign and two digits.
func parseExponent(b []byte) (int, bool) {
	if len(b) != 3 || b[1] != '0' || b[2] < '0' || b[2] > '9' {
		return 0, false
	}
	n := int(b[2] - '0')
	if b[0] == '-' {
		return -n, true
	}
	return n, b[0] == '+'
}

// scaled is whole times ten to the power.
func scaled(whole uint64, power int) float64 {
	scale := 1.0
	for range max(power, -power) {
		scale *= 10
	}
	if power < 0 {
		return float64(whole) / scale
	}
	return float64(whole) * scale
}

// isNotNumber says whether v cannot be reckoned with.
func isNotNumber(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
