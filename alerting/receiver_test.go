package alerting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"kvwatch/rules"
)

// TestContract holds every registered kind to what the pipeline expects of it.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, k := range Registered() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			receiver := func(entry string) string {
				return fmt.Sprintf("receivers:\n  - name: oncall\n    %s_configs:\n      - %s\n", k.Name, entry)
			}
			t.Run("the example loads", func(t *testing.T) {
				t.Parallel()
				c := mustConfig(t, receiver(k.Example))
				d, err := New(Options{Config: c, Stdout: &bytes.Buffer{}})
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Reload(c); err != nil {
					t.Error(err)
				}
			})
			t.Run("a typo is named", func(t *testing.T) {
				t.Parallel()
				typo := strings.Replace(k.Example, "{", "{chanel: x, ", 1)
				_, err := parseConfig(receiver(typo))
				for _, want := range []string{`receiver "oncall"`, k.Name + "_configs entry 1", `unknown key "chanel"`, "line 4"} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("the error is %v, want %q in it", err, want)
					}
				}
			})
			t.Run("an empty entry is refused", func(t *testing.T) {
				t.Parallel()
				for _, text := range []string{receiver(""), fmt.Sprintf("receivers: [{name: oncall, %s_configs: }]", k.Name)} {
					if _, err := parseConfig(text); err == nil || !strings.Contains(err.Error(), `"oncall"`) {
						t.Errorf("%q gives %v", text, err)
					}
				}
			})
			t.Run("its context is obeyed", func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				retry, err := built(t, receiver(k.Example)).Notify(ctx, contractNotification())
				if err == nil || !retry || !errors.Is(err, context.Canceled) {
					t.Errorf("retry %v, error %v", retry, err)
				}
			})
			t.Run("no secret in errors, logs or what is shown", func(t *testing.T) {
				t.Parallel()
				checkSecrets(t, receiver, k.Example)
			})
		})
	}
}

// secretValue is what a test takes for a secret: every token and every path of
// an address in an example.
var secretValue = regexp.MustCompile(`(xoxb-[a-z]+|pd-[a-z]+|http://127\.0\.0\.1:9/\w*)`)

// checkSecrets sends to servers that fail in several ways and looks for the
// example's secrets in everything that a person could see.
func checkSecrets(t *testing.T, receiver func(string) string, example string) {
	t.Helper()
	for name, handler := range map[string]http.HandlerFunc{
		"echo": func(w http.ResponseWriter, r *http.Request) {
			body := new(strings.Builder)
			_ = r.Write(body)
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, r.URL.String(), body.String())
		},
		"500":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"moved": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1"+r.URL.Path, http.StatusTemporaryRedirect)
		},
	} {
		srv := httptest.NewServer(handler)
		entry := strings.ReplaceAll(example, "http://127.0.0.1:9/", srv.URL+"/s3cret-path/")
		entry = strings.NewReplacer("xoxb-example", "xoxb-s3cret-token", "pd-example", "s3cret-key").Replace(entry)
		var logged, printed lockedBuffer
		c := mustConfig(t, receiver(entry))
		d, err := New(Options{Config: c, Logger: logTo(&logged), Stdout: &printed})
		if err != nil {
			t.Fatal(err)
		}
		d.Dispatch(t.Context(), t0, []rules.Alert{sample})
		d.Tick(t.Context(), t0.Add(time.Minute))
		shown, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var errText string
		for _, in := range d.Incidents() {
			errText += in.Deliveries[0].Error
		}
		for where, text := range map[string]string{"log": logged.String(), "stdout": printed.String(), "config": string(shown), "error": errText} {
			if strings.Contains(text, "s3cret") {
				t.Errorf("%s: the %s shows a secret: %s", name, where, text)
			}
		}
		srv.Close()
	}
	// A mistake beside a secret must not print it.
	if secretValue.MatchString(example) {
		bad := strings.Replace(secretValue.ReplaceAllString(example, "s3cret:// %zz"), "{", `{send_resolved: "s3cret", `, 1)
		if _, err := parseConfig(receiver(bad)); err == nil || strings.Contains(err.Error(), "zz") {
			t.Errorf("a bad setting gives %v", err)
		}
	}
}

func built(t *testing.T, text string) Receiver {
	t.Helper()
	c := mustConfig(t, text)
	r, err := c.Receivers[0].integrations[0].settings.receiver(environment{stdout: &bytes.Buffer{}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func contractNotification() Notification {
	return Notification{Receiver: "oncall", GroupKey: "{}:{}", Reason: ReasonFirst, Alerts: []rules.Alert{sample}, Now: t0, Memory: notes{}}
}

func TestRegisterTwice(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a second kind of the same name was taken")
		}
	}()
	register("webhook", kind{})
}
