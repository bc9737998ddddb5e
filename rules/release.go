package rules

import (
	"strconv"
	"strings"
)

// release is the major and minor version of a server, as far as it is known.
type release struct {
	major, minor int
	known        bool
}

// parseRelease reads what a server says of itself: 0.27.1rc2, v0.11.0,
// 1.102.0-stable. Builds out of a shallow clone call themselves 0.1.dev or
// 0.0.0 whatever they are: they are not known.
func parseRelease(version string) release {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return release{}
	}
	digits := parts[1]
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(digits)
	shallow := major == 0 && (minor == 0 || minor == 1 && strings.Contains(version, "dev"))
	return release{major, minor, errMajor == nil && errMinor == nil && !shallow}
}

// before says that the release is known to be older than major.minor.
func (r release) before(major, minor int) bool {
	return r.known && (r.major < major || r.major == major && r.minor < minor)
}

// since says that the release is known to be major.minor or newer.
func (r release) since(major, minor int) bool { return r.known && !r.before(major, minor) }
