package alerting

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kvwatch/rules"
)

// silencePath is where people silence by a form.
const silencePath = "/silence"

// silenceLink leads to the form, filled in with what the incident's alerts share.
func silenceLink(n Notification) []line {
	page := strings.TrimSuffix(n.ExternalURL, "/")
	lbls := common(n.Alerts)
	if n.Status() != rules.StateFiring || len(lbls) == 0 || !strings.HasPrefix(page, "http") {
		return nil
	}
	query := url.Values{}
	for _, name := range sortedNames(lbls) {
		query.Add("matcher", SilenceMatcher{Name: name, Value: lbls[name]}.String())
	}
	return []line{{"Silence", page + silencePath + "?" + query.Encode()}}
}

// silenceForm is what the form shows.
type silenceForm struct {
	Matchers, By, Comment string
	// Done says what is in effect, Wrong why nothing is.
	Done, Wrong string
}

// silencePage is light, and needs no script.
const silencePage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Silence · kvwatch</title>
<style>
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 1rem auto; padding: 0 1rem; color: #1c2028; background: #fff }
label { display: block; margin-top: 1rem; font-weight: 600 } small { font-weight: 400; color: #4a525e }
input, select, textarea, button { font: inherit; width: 100%; box-sizing: border-box; padding: .5rem; border: 1px solid #767e8a; border-radius: .3rem; background: #fff; color: inherit }
button { margin-top: 1.5rem; background: #1052ba; color: #fff; border-color: #1052ba; font-weight: 600 }
.done, .wrong { border-left: .3rem solid; padding: .5rem 1rem } .done { border-color: #1a7a3a } .wrong { border-color: #b01030 }
</style></head><body>
<h1>Silence</h1>
{{with .Done}}<p class="done" role="status"><strong>Silenced.</strong> {{.}}</p><p><a href="./">To the page</a></p>{{else}}
{{with .Wrong}}<p class="wrong" role="alert"><strong>Nothing is silenced.</strong> {{.}}</p>{{end}}
<form method="post" action="silence">
<label>What <small>one condition a line; all must hold</small><textarea name="matchers" rows="5" required>{{.Matchers}}</textarea></label>
<label>For how long<select name="for"><option value="1h">1 hour</option><option value="4h">4 hours</option><option value="24h">1 day</option><option value="168h">1 week</option></select></label>
<label>Who<input name="by" required maxlength="60" autocomplete="name" value="{{.By}}"></label>
<label>Why<input name="comment" required maxlength="300" value="{{.Comment}}"></label>
<button>Silence</button>
</form>{{end}}
</body></html>
`

// form serves the form, filled in with the matchers of the address.
func (api silenceAPI) form(w http.ResponseWriter, r *http.Request) {
	showForm(w, http.StatusOK, silenceForm{Matchers: strings.Join(r.URL.Query()["matcher"], "\n")})
}

// submit silences what the form says.
func (api silenceAPI) submit(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostSilenceBody)
	f := silenceForm{Matchers: r.PostFormValue("matchers"), By: r.PostFormValue("by"), Comment: r.PostFormValue("comment")}
	s, err := f.silence(r.PostFormValue("for"), api.now())
	if err == nil {
		_, err = api.d.Silence(s, api.now())
	}
	if err != nil {
		f.Wrong = err.Error()
		showForm(w, http.StatusBadRequest, f)
		return
	}
	f.Done = fmt.Sprintf("Until %s nothing is told of what fits. kvwatch silence list shows it, kvwatch silence expire ends it.", moment(s.EndsAt))
	showForm(w, http.StatusOK, f)
}

// silence reads the form.
func (f silenceForm) silence(length string, now time.Time) (Silence, error) {
	duration, err := time.ParseDuration(length)
	if err != nil || duration <= 0 || duration > 7*24*time.Hour {
		return Silence{}, fmt.Errorf("%q is no time between a second and a week: pick one of the list", length)
	}
	s := Silence{StartsAt: now, EndsAt: now.Add(duration), CreatedBy: strings.TrimSpace(f.By), Comment: strings.TrimSpace(f.Comment)}
	for text := range strings.Lines(f.Matchers) {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		m, err := ParseSilenceMatcher(text)
		if err != nil {
			return Silence{}, err
		}
		s.Matchers = append(s.Matchers, m)
	}
	return s, nil
}

func showForm(w http.ResponseWriter, code int, f silenceForm) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(code)
	_ = template.Must(template.New("silence").Parse(silencePage)).Execute(w, f) // the client is gone
}
