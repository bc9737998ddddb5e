package alerting

import (
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"kvwatch/rules"
)

// redacted stands where something was that may point at a person.
const redacted = "<redacted>"

// personal tells the label names of LiteLLM that identify a caller. No rule puts
// them into an alert; one that did would be stopped here.
func personal(name string) bool {
	switch name {
	case "api_key", "api_key_alias", "api_key_hash", "client_ip", "end_user", "hashed_api_key", "key_alias",
		"user", "user_agent", "user_alias", "user_email", "user_id":
		return true
	}
	return false
}

var (
	eMail     = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+`)
	secretKey = regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{6,}|xox[a-z]-[A-Za-z0-9-]{6,}|xapp-[A-Za-z0-9-]{6,})`)
	keyHash   = regexp.MustCompile(`\b[0-9a-fA-F]{64}\b`)
)

// keyHashLength is the length of LiteLLM's hashed keys, SHA-256 in hexadecimal.
const keyHashLength = 64

// clean returns a copy of the alert that can be shown, logged and written down:
// nothing in it looks like a person's e-mail, a client's address or a key, and
// all its numbers are finite. changed names the fields that were redacted.
func clean(a rules.Alert) (out rules.Alert, changed []string) {
	text := func(field, s string) string {
		r := redact(s)
		if r != s {
			changed = append(changed, field)
		}
		return r
	}
	out = a
	out.Labels = maps.Clone(a.Labels)
	for name, value := range a.Labels {
		switch {
		case personal(name) && value != "":
			out.Labels[name] = redacted
			changed = append(changed, name)
		case name != "instance":
			out.Labels[name] = text(name, value)
		}
	}
	out.Annotations = maps.Clone(a.Annotations)
	for name, value := range a.Annotations {
		out.Annotations[name] = text(name, value)
	}
	e := &out.Evidence
	e.Seen, e.Against = text("seen", e.Seen), text("against", e.Against)
	e.CauseText, e.Cost = text("cause_text", e.CauseText), text("cost", e.Cost)
	e.Next, e.Confidence = text("next", e.Next), text("confidence", e.Confidence)
	e.RunnersUp = slices.Clone(e.RunnersUp)
	for i, s := range e.RunnersUp {
		e.RunnersUp[i] = text("runners_up", s)
	}
	e.Events = slices.Clone(e.Events)
	for i, s := range e.Events {
		e.Events[i] = text("events", s)
	}
	// JSON has no way to write these, and a figure that is not known is left out.
	e.Numbers = slices.DeleteFunc(slices.Clone(e.Numbers), func(n rules.Number) bool { return !finite(n.Value) })
	if !finite(out.Value) {
		out.Value = 0
	}
	slices.Sort(changed)
	return out, slices.Compact(changed)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// redact replaces what looks like an e-mail address, a client's IP address or a
// key. An address with a port, or in a URL, is a target's and stays: it says
// which replica an alert is about. The addresses of clients that a gateway's
// labels hold come without a port.
func redact(s string) string {
	if strings.Contains(s, "@") {
		s = eMail.ReplaceAllString(s, redacted)
	}
	if strings.Contains(s, "sk-") || strings.Contains(s, "xox") || strings.Contains(s, "xapp-") {
		s = secretKey.ReplaceAllString(s, redacted)
	}
	if len(s) >= keyHashLength && longestHex(s) >= keyHashLength {
		s = keyHash.ReplaceAllString(s, redacted)
	}
	if strings.Count(s, ".") >= 3 || strings.Count(s, ":") >= 2 {
		s = redactAddresses(s)
	}
	return s
}

// longestHex returns the length of the longest run of hexadecimal digits.
func longestHex(s string) int {
	longest, run := 0, 0
	for i := range len(s) {
		if c := s[i]; inAddress(c) && c != '.' && c != ':' && c != '[' && c != ']' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	return longest
}

// redactAddresses replaces the addresses of clients.
func redactAddresses(s string) string {
	var b strings.Builder
	copied := 0
	for i := 0; i < len(s); i++ {
		if !inAddress(s[i]) {
			continue
		}
		from := i
		for i < len(s) && inAddress(s[i]) {
			i++
		}
		to := from + len(strings.TrimRight(s[from:i], ".:"))
		alone := (from == 0 || !isWord(s[from-1])) && (i == len(s) || !isWord(s[i]))
		if !alone || strings.HasSuffix(s[:from], "://") {
			continue
		}
		b.WriteString(s[copied:from])
		b.WriteString(redactAddress(s[from:to]))
		copied = to
	}
	return b.String() + s[copied:]
}

// redactAddress replaces one address, when it is one and not a server's.
func redactAddress(s string) string {
	if len(s) < len("1.2.3.4") {
		return s
	}
	if _, err := netip.ParseAddrPort(s); err == nil {
		return s
	}
	if _, err := netip.ParseAddr(strings.Trim(s, "[]")); err != nil {
		return s
	}
	return redacted
}

// inAddress says whether IP addresses are written with this character.
func inAddress(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' || c == '.' || c == ':' || c == '[' || c == ']'
}

// isWord says whether an address cannot stand right beside this character.
func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}
