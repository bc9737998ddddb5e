package rules

import "slices"

// theilSen is the median slope between all pairs of points, in units of y per
// unit of x; false with fewer than three points.
func theilSen(x, y []float64) (float64, bool) {
	if len(x) < 3 {
		return 0, false
	}
	slopes := make([]float64, 0, len(x)*(len(x)-1)/2)
	for i := range x {
		for j := range i {
			if x[i] != x[j] {
				slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	if len(slopes) == 0 {
		return 0, false
	}
	slices.Sort(slopes)
	m := len(slopes) / 2
	if len(slopes)%2 == 1 {
		return slopes[m], true
	}
	return (slopes[m-1] + slopes[m]) / 2, true
}
