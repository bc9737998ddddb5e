package fleet

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// shapes holds pages of real servers. Names, HELP, TYPE, label names, the order
// of families and histogram bounds are read from them and stand nowhere else;
// another version is another file. The _created families are left out, and the
// gateway's page is cut to one series per family (its overhead family, which
// has no series where all calls are streamed, is that of 1.106.12).
//
//go:embed shape/*.prom
var shapes embed.FS

const (
	vllmShape    = "shape/vllm-0.32.0.prom"
	litellmShape = "shape/litellm-1.102.0.prom"
)

// shape is what a real page says about its families.
type shape struct {
	families []shapeFamily
}

// shapeFamily is one family of a real page.
type shapeFamily struct {
	name, help string
	kind       model.MetricType
	// labels are the label names in the order of the page, without le.
	labels []string
	// bounds are the finite upper bounds of a histogram.
	bounds []float64
	series []shapeSeries
}

// shapeSeries is one series of a real page: its label values in the order of
// the family's labels and, for counters and gauges, its value there.
type shapeSeries struct {
	labelValues []string
	value       float64
}

// readShape parses an embedded page.
func readShape(name string) (*shape, error) {
	body, err := shapes.ReadFile(name)
	if err != nil {
		return nil, err
	}
	s := &shape{}
	parser := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read shape %s: %w", name, err)
		}
		if err := s.take(parser, entry); err != nil {
			return nil, fmt.Errorf("read shape %s: %w", name, err)
		}
	}
}

// take adds one line of the page.
func (s *shape) take(parser textparse.Parser, entry textparse.Entry) error {
	switch entry {
	case textparse.EntryHelp:
		name, help := parser.Help()
		s.families = append(s.families, shapeFamily{name: string(name), help: string(help)})
	case textparse.EntryType:
		_, kind := parser.Type()
		s.families[len(s.families)-1].kind = kind
	case textparse.EntrySeries:
		var lset labels.Labels
		parser.Labels(&lset)
		_, _, value := parser.Series()
		return s.families[len(s.families)-1].take(lset, value)
	default: // comments and units say nothing about the shape
	}
	return nil
}

// take adds one sample line to the family.
func (f *shapeFamily) take(lset labels.Labels, value float64) error {
	name := lset.Get(model.MetricNameLabel)
	if !strings.HasPrefix(name, f.name) {
		return fmt.Errorf("sample %s stands under family %s", name, f.name)
	}
	var names, values []string
	lset.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel && l.Name != "le" {
			names, values = append(names, l.Name), append(values, l.Value)
		}
	})
	if le := lset.Get("le"); le != "" && le != "+Inf" {
		bound, err := strconv.ParseFloat(le, 64)
		if err != nil {
			return fmt.Errorf("bound of %s: %w", name, err)
		}
		if !slices.Contains(f.bounds, bound) {
			f.bounds = append(f.bounds, bound)
		}
	}
	f.labels = names
	if n := len(f.series); n == 0 || !slices.Equal(f.series[n-1].labelValues, values) {
		f.series = append(f.series, shapeSeries{labelValues: values, value: value})
	}
	return nil
}

// tokenBounds are the bounds that vLLM gives histograms of tokens: 1, 2, 5, 10
// and so on up to the longest sequence that the model takes.
func tokenBounds(maxModelLen int) []float64 {
	var bounds []float64
	for decade := 1; ; decade *= 10 {
		for _, step := range []int{1, 2, 5} {
			if step*decade > maxModelLen {
				return bounds
			}
			bounds = append(bounds, float64(step*decade))
		}
	}
}
