package alerting

import (
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kvwatch/rules"
)

// redacted stands where something was that may point at a person.
const redacted = "<redacted>"

// personal are label names of LiteLLM that identify a caller. No rule puts them
// into an alert; one that did would be stopped here.
var personal = []string{
	"api_key", "api_key_alias", "api_key_hash", "client_ip", "end_user", "hashed_api_key", "key_alias",
	"user", "user_agent", "user_alias", "user_email", "user_id",
}

var (
	eMail     = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+`)
	secretKey = regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{6,}|xox[a-z]-[A-Za-z0-9-]{6,}|xapp-[A-Za-z0-9-]{6,}|[0-9a-fA-F]{64})\b`)
	ipv4      = regexp.MustCompile(`(://)?\b(\d{1,3}\.){3}\d{1,3}\b(:\d{1,5})?`)
	ipv6      = regexp.MustCompile(`\[?[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){2,7}\]?(:\d{1,5})?`)
)

// firstEphemeralPort is where Linux begins to number the ports of clients.
const firstEphemeralPort = 32768

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
		case slices.Contains(personal, name) && value != "":
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
// key. An address with a server's port, or in a URL, is a target's and stays:
// it says which replica an alert is about.
func redact(s string) string {
	if strings.Contains(s, "@") {
		s = eMail.ReplaceAllString(s, redacted)
	}
	if len(s) >= len("sk-123456") {
		s = secretKey.ReplaceAllString(s, redacted)
	}
	if strings.Count(s, ".") >= 3 {
		s = ipv4.ReplaceAllStringFunc(s, redactAddress)
	}
	if strings.Count(s, ":") >= 2 {
		s = ipv6.ReplaceAllStringFunc(s, redactAddress)
	}
	return s
}

func redactAddress(s string) string {
	if strings.HasPrefix(s, "://") {
		return s
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		if ap.Port() < firstEphemeralPort {
			return s
		}
		return redacted + ":" + strconv.Itoa(int(ap.Port()))
	}
	if _, err := netip.ParseAddr(strings.Trim(s, "[]")); err != nil || len(s) < len("fd00::1") {
		return s
	}
	return redacted
}
