package web

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
)

// maxNotes is how many warnings, and how many infos, an answer carries.
const maxNotes = 10

// encodeAnswer makes the body of a success.
func encodeAnswer(data any, notes annotations.Annotations, query string) ([]byte, error) {
	encoded, ok := data.([]byte)
	if !ok {
		var err error
		if encoded, err = json.Marshal(data); err != nil {
			return nil, fmt.Errorf("encode the answer: %w", err)
		}
	}
	warnings, infos := notes.AsStrings(query, maxNotes, maxNotes)
	tail, err := json.Marshal(struct {
		Status   string   `json:"status"`
		Warnings []string `json:"warnings,omitempty"`
		Infos    []string `json:"infos,omitempty"`
	}{"success", warnings, infos})
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	body := make([]byte, 0, len(encoded)+len(tail)+len(`,"data":`))
	body = append(body, tail[:len(tail)-1]...)
	body = append(body, `,"data":`...)
	body = append(body, encoded...)
	return append(body, '}'), nil
}

// encodeResult writes a query's result as JSON. encoding/json would call one
// method per point, and a dashboard asks for hundreds of thousands.
func encodeResult(v parser.Value) ([]byte, error) {
	e := encoder{buf: make([]byte, 0, 1024)}
	e.text(`{"resultType":"`, string(v.Type()), `","result":`)
	switch v := v.(type) {
	case promql.Matrix:
		e.text("[")
		for i, s := range v {
			e.series(i, s)
		}
		e.text("]")
	case promql.Vector:
		e.text("[")
		for i, s := range v {
			e.sample(i, s)
		}
		e.text("]")
	case promql.Scalar:
		e.point(v.T, v.V)
	default: // a string
		e.json(v)
	}
	e.text("}")
	return e.buf, e.err
}

// encoder appends JSON to buf; err is the first error.
type encoder struct {
	buf []byte
	err error
}

func (e *encoder) text(parts ...string) {
	for _, p := range parts {
		e.buf = append(e.buf, p...)
	}
}

func (e *encoder) comma(i int) {
	if i > 0 {
		e.buf = append(e.buf, ',')
	}
}

func (e *encoder) json(v any) {
	b, err := json.Marshal(v)
	if e.err == nil && err != nil {
		e.err = fmt.Errorf("encode the result: %w", err)
	}
	e.buf = append(e.buf, b...)
}

func (e *encoder) series(i int, s promql.Series) {
	e.comma(i)
	e.metric(s.Metric)
	if len(s.Floats) > 0 {
		e.text(`,"values":[`)
		for j, p := range s.Floats {
			e.comma(j)
			e.point(p.T, p.F)
		}
		e.text("]")
	}
	if len(s.Histograms) > 0 {
		e.text(`,"histograms":`)
		e.json(s.Histograms)
	}
	e.text("}")
}

func (e *encoder) sample(i int, s promql.Sample) {
	e.comma(i)
	e.metric(s.Metric)
	if s.H != nil {
		e.text(`,"histogram":`)
		e.json(promql.HPoint{T: s.T, H: s.H})
	} else {
		e.text(`,"value":`)
		e.point(s.T, s.F)
	}
	e.text("}")
}

// metric opens an object with the labels in it.
func (e *encoder) metric(ls labels.Labels) {
	e.text(`{"metric":`)
	e.json(ls)
}

// point writes [seconds,"value"]: the value is a string because JSON has no
// NaN and no infinity.
func (e *encoder) point(ms int64, v float64) {
	e.buf = append(e.buf, '[')
	e.seconds(ms)
	e.buf = append(e.buf, ',', '"')
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	e.buf = strconv.AppendFloat(e.buf, v, format, -1, 64)
	e.buf = append(e.buf, '"', ']')
}

// seconds writes milliseconds as seconds with three decimals, or none.
func (e *encoder) seconds(ms int64) {
	if ms < 0 {
		e.buf = append(e.buf, '-')
		ms = -ms
	}
	e.buf = strconv.AppendInt(e.buf, ms/1000, 10)
	if rest := ms % 1000; rest != 0 {
		e.buf = append(e.buf, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
}
