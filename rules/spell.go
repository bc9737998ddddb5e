package rules

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// spell writes a duration for people: 45 s, 7 min, 2 h 5 min, 3 days.
func spell(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	case d < 48*time.Hour:
		m := int(d.Round(time.Minute).Minutes())
		if m%60 == 0 {
			return fmt.Sprintf("%d h", m/60)
		}
		return fmt.Sprintf("%d h %d min", m/60, m%60)
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}

// spellSeconds writes a short time given in seconds: 52 ms, 1.3 s, 7 min.
func spellSeconds(s float64) string {
	if s < 1 {
		return strconv.FormatFloat(math.Round(s*1000), 'f', -1, 64) + " ms"
	}
	return spell(time.Duration(s * float64(time.Second)))
}

// amount writes a count for people: 950, 12k, 4.1M.
func amount(v float64) string {
	switch a := math.Abs(v); {
	case a < 1000:
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	case a < 9950:
		return strconv.FormatFloat(math.Round(v/100)/10, 'f', -1, 64) + "k"
	case a < 999_500:
		return strconv.FormatFloat(math.Round(v/1000), 'f', -1, 64) + "k"
	case a < 9.95e8:
		return strconv.FormatFloat(math.Round(v/1e5)/10, 'f', -1, 64) + "M"
	default:
		return strconv.FormatFloat(math.Round(v/1e8)/10, 'f', -1, 64) + "G"
	}
}

// percent writes a ratio as per cent, with one digit after the point below 10 %.
func percent(ratio float64) string {
	p := ratio * 100
	if p < 10 {
		return strconv.FormatFloat(math.Round(p*10)/10, 'f', -1, 64) + "%"
	}
	return strconv.FormatFloat(math.Round(p), 'f', -1, 64) + "%"
}

// clock writes a time of day for people who may sit anywhere.
func clock(t time.Time) string { return t.UTC().Format("15:04 UTC") }

// plural is "1 engine" or "3 engines".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// list joins names: "a", "a and b", "a, b and 3 more".
func list(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	case 2:
		return names[0] + " and " + names[1]
	case 3:
		return names[0] + ", " + names[1] + " and " + names[2]
	default:
		return fmt.Sprintf("%s, %s and %d more", names[0], names[1], len(names)-2)
	}
}
