package alerting

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestSendTest(t *testing.T) {
	t.Parallel()
	h, quiet, broken := newHook(t), newHook(t), newHook(t)
	broken.behave(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return false
	})
	c := mustConfig(t, fmt.Sprintf(`
route: {receiver: nobody}
receivers:
  - {name: nobody}
  - name: oncall
    webhook_configs: [{url: %q}, {url: %q, send_resolved: false}, {url: %q}]
    terminal_configs: [{send_resolved: false}]
`, h.URL, quiet.URL, broken.URL))
	var out bytes.Buffer
	got, err := c.SendTest(t.Context(), "oncall", "http://kvwatch:14600", &out, t0)
	if err != nil || len(got) != 4 {
		t.Fatalf("%+v (%v), want 4 attempts", got, err)
	}
	want := []string{"oncall/terminal/0 1 <nil>", "oncall/webhook/0 2 <nil>", "oncall/webhook/1 1 <nil>", "oncall/webhook/2 0 the server answered 401 Unauthorized"}
	for i, a := range got {
		if text := fmt.Sprint(a.Integration, " ", a.Sent, " ", a.Err); text != want[i] {
			t.Errorf("attempt %d is %s, want %s", i, text, want[i])
		}
	}
	h.want(t, "with ends", "firing: +KvwatchTest", "resolved: -KvwatchTest")
	quiet.want(t, "without", "firing: +KvwatchTest")
	if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, "This is a test of kvwatch's receiver oncall: nothing is wrong") {
		t.Errorf("the message does not say that it is a test:\n%s", out.String())
	}
	_, err = c.SendTest(t.Context(), "nobody", "", &out, t0)
	wantError(t, "without integrations", err, `receiver "nobody" has no integration`)
	_, err = c.SendTest(t.Context(), "oncal", "", &out, t0)
	wantError(t, "a name that is wrong", err, `there is no receiver "oncal": there are nobody, oncall`)
}
