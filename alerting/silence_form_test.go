package alerting

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"kvwatch/rules"
)

// TestSilenceForm goes from the link of a message to a silence.
func TestSilenceForm(t *testing.T) {
	t.Parallel()
	d := open(t, "", `receivers: [{name: a, terminal_configs: [{}]}]`)
	api := d.AlertmanagerAPI(t0, func() time.Time { return t0 })
	do := func(method, target, body string) (int, string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	a := fires("Rising", "warning", t0, "pool", `ag"ents<b>`)
	link := silenceLink(Notification{Alerts: []rules.Alert{a}, ExternalURL: "http://kvwatch:14600/"})
	if len(link) != 1 || !strings.HasPrefix(link[0].text, "http://kvwatch:14600/silence?") {
		t.Fatalf("the link: %v", link)
	}
	code, body := do(http.MethodGet, link[0].text, "")
	if code != http.StatusOK || !strings.Contains(body, `pool=&#34;ag\&#34;ents&lt;b&gt;&#34;`) || strings.Contains(body, "<b>") {
		t.Errorf("the form: %d %s", code, body)
	}
	form := func(change ...string) string {
		v := url.Values{"matchers": {"alertname=\"Rising\"\r\n\r\npool=~\"ag.*\""}, "for": {"4h"}, "by": {"maria"}, "comment": {"a deploy"}}
		for i := 0; i < len(change); i += 2 {
			v.Set(change[i], change[i+1])
		}
		return v.Encode()
	}
	for name, bad := range map[string]string{
		"no matcher":       form("matchers", ""),
		"all of them":      form("matchers", `pool=~".*"`),
		"nonsense":         form("matchers", "pool"),
		"nobody":           form("by", " "),
		"no reason":        form("comment", ""),
		"no time":          form("for", "soon"),
		"a time too long":  form("for", "1000h"),
		"a time before":    form("for", "-1h"),
		"nothing":          "",
		"a body too large": form("comment", strings.Repeat("a", mostSilenceBody)),
	} {
		if code, body := do(http.MethodPost, "/silence", bad); code != http.StatusBadRequest || !strings.Contains(body, "Nothing is silenced.") {
			t.Errorf("%s: %d", name, code)
		}
	}
	if n := len(d.Silences(t0)); n != 0 {
		t.Fatalf("%d silences", n)
	}
	code, body = do(http.MethodPost, "/silence", form())
	if code != http.StatusOK || !strings.Contains(body, "Until Mon 2 Mar 18:00 UTC nothing is told") {
		t.Errorf("the answer: %d %s", code, body)
	}
	list := d.Silences(t0)
	if len(list) != 1 || list[0].CreatedBy != "maria" || len(list[0].Matchers) != 2 || !list[0].covers(map[string]string{"alertname": "Rising", "pool": "agents"}) {
		t.Errorf("silences %+v", list)
	}
}

func TestNoSilenceLink(t *testing.T) {
	t.Parallel()
	a := fires("Rising", "warning", t0, "pool", "agents")
	for name, n := range map[string]Notification{
		"no page":           {Alerts: []rules.Alert{a}},
		"over":              {Alerts: []rules.Alert{ends(a, t0)}, ExternalURL: "http://kvwatch"},
		"nothing in common": {Alerts: []rules.Alert{fires("A", "warning", t0), fires("B", "critical", t0)}, ExternalURL: "http://kvwatch"},
	} {
		if got := silenceLink(n); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
