package rules

import "slices"

// theilSen is the median slope between all pairs of points, in units of y per
// unit of x; false with fewer than three points.
func theilSen(x, y []float64) (float64, bool) {
	if len(x) < 3 {
		return 0, false
	}
	slopes := pairSlopes(x, y, func(int, int) bool { return true })
	return sortedMedian(slopes), len(slopes) > 0
}

// pairSlopes are the slopes between the pairs of points that fit together, in
// rising order.
func pairSlopes(x, y []float64, fit func(i, j int) bool) []float64 {
	slopes := make([]float64, 0, len(x)*(len(x)-1)/2)
	for i := range x {
		for j := range i {
			if x[i] != x[j] && fit(i, j) {
				slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	slices.Sort(slopes)
	return slopes
}

// sortedMedian is the median of values in rising order; 0 of none.
func sortedMedian(s []float64) float64 {
	m := len(s) / 2
	switch {
	case len(s) == 0:
		return 0
	case len(s)%2 == 1:
		return s[m]
	default:
		return (s[m-1] + s[m]) / 2
	}
}
