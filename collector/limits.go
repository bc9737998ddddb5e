package collector

import (
	"fmt"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Limits bound what one page may hold. A page over a limit is refused whole.
type Limits struct {
	// BodyBytes is the size of the decoded body in bytes.
	BodyBytes int64
	// Series is the number of wanted series on the page, before they are summed.
	Series int
	// LabelsPerSeries is the number of labels of one wanted series.
	LabelsPerSeries int
	// LabelNameLength and LabelValueLength are in bytes.
	LabelNameLength, LabelValueLength int
}

// DefaultLimits are the limits of a target whose configuration sets none.
func DefaultLimits() Limits {
	return Limits{
		BodyBytes:        64 << 20,
		Series:           500_000,
		LabelsPerSeries:  64,
		LabelNameLength:  256,
		LabelValueLength: 16 << 10,
	}
}

// check refuses a series whose labels are over a limit.
func (l Limits) check(exposed labels.Labels) error {
	if n := exposed.Len() - 1; n > l.LabelsPerSeries { // the name is no label of its own
		return &PageError{StateTooLarge, fmt.Sprintf("a series has %d labels, more than %d; raise label_limit if that is expected", n, l.LabelsPerSeries)}
	}
	return exposed.Validate(func(label labels.Label) error {
		if label.Name == model.MetricNameLabel {
			return nil
		}
		if n := len(label.Name); n > l.LabelNameLength {
			return &PageError{StateTooLarge, fmt.Sprintf("a label name is %d bytes long, more than %d; raise label_name_length_limit if that is expected", n, l.LabelNameLength)}
		}
		if n := len(label.Value); n > l.LabelValueLength {
			return &PageError{StateTooLarge, fmt.Sprintf("a label value is %d bytes long, more than %d; raise label_value_length_limit if that is expected", n, l.LabelValueLength)}
		}
		return nil
	})
}
