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

// decodeSeries reads one line, with its end, by Prometheus's own parsers: the one of
// the page's format first, then the other, because servers are not strict.
func decodeSeries(line []byte, openMetrics bool) (labels.Labels, error) {
	text := textparse.NewPromParser(line, nil, false)
	om := textparse.NewOpenMetricsParser(line, nil)
	first, second := text, om
	if openMetrics {
		first, second = om, text
	}
	lset, err := seriesOf(first)
	if err != nil {
		lset, err = seriesOf(second)
	}
	return lset, err
}

func seriesOf(p textparse.Parser) (labels.Labels, error) {
	entry, err := p.Next()
	if err != nil {
		return labels.EmptyLabels(), err
	}
	if entry != textparse.EntrySeries {
		return labels.EmptyLabels(), errors.New("not a sample")
	}
	var lset labels.Labels
	p.Labels(&lset)
	return lset, nil
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
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	if i == len(line) {
		return -1
	}
	if line[i] != '{' {
		return nameLen
	}
	if !exemplars {
		if end := bytes.LastIndexByte(line[i:], '}'); end >= 0 {
			return i + end + 1
		}
		return -1
	}
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
	rest = bytes.TrimLeft(rest, " \t")
	end := bytes.IndexAny(rest, " \t")
	if end < 0 {
		return parseValue(rest)
	}
	value, ok := parseValue(rest[:end])
	rest = bytes.TrimLeft(rest[end:], " \t")
	if exemplars {
		rest, _, _ = bytes.Cut(rest, []byte("#"))
		rest = bytes.TrimRight(rest, " \t")
	}
	if len(rest) > 0 && ok {
		_, ok = parseValue(rest)
	}
	return value, ok
}

// parseValue parses a number as Prometheus does. It does not allocate.
func parseValue(b []byte) (float64, bool) {
	if len(b) == 0 || len(b) > 40 || bytes.ContainsAny(b, "pP_") || b[len(b)-1] == '.' {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(b), 64)
	// What is too large or too small for a float is infinite or 0, as in Prometheus.
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return v, true
}

// isNotNumber says whether v cannot be reckoned with.
func isNotNumber(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
