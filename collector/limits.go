package collector

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
