package collector

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestRedactingHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(redactingHandler{slog.NewTextHandler(&out, nil)}).With("url", "http://jane:topsecret@sd:80/x")
	log.Error("refresh of https://sd/x?token=topsecret failed",
		"err", errors.New(`Get "http://sd:9/targets?token=topsecret": connection refused`), "count", 3)
	if strings.Contains(out.String(), "topsecret") || strings.Contains(out.String(), "jane") {
		t.Errorf("a secret was logged: %s", out.String())
	}
	for _, want := range []string{"http://sd:80/x", "https://sd/x failed", "http://sd:9/targets", "connection refused", "count=3"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing: %s", want, out.String())
		}
	}
}
