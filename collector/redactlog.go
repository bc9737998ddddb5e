package collector

import (
	"context"
	"log/slog"
	"regexp"
)

// addressSecrets are the parts of an address in which secrets hide: user info
// and the query.
var addressSecrets = regexp.MustCompile(`(https?://)(?:[^/\s"@]*@)?([^\s"?]*)(?:\?[^\s"]*)?`)

// redactingHandler logs for code that is not ours, such as the discovery
// manager's, which logs whole addresses with what they hold.
type redactingHandler struct{ slog.Handler }

// Handle logs the record with its addresses bared of user info and query.
func (h redactingHandler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, redactAddresses(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(redactAttr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs keeps the handler redacting.
func (h redactingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = redactAttr(a)
	}
	return redactingHandler{h.Handler.WithAttrs(clean)}
}

// WithGroup keeps the handler redacting.
func (h redactingHandler) WithGroup(name string) slog.Handler {
	return redactingHandler{h.Handler.WithGroup(name)}
}

func redactAttr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString, slog.KindAny:
		return slog.String(a.Key, redactAddresses(v.String()))
	default:
		return a
	}
}

func redactAddresses(s string) string { return addressSecrets.ReplaceAllString(s, "${1}${2}") }
