package web

import (
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// KeptReview is a capacity review or a digest that was made by the clock.
type KeptReview struct {
	// Name is what it is called in its addresses: reviews/<name>.html, .md and .json.
	Name string `json:"name"`
	// Kind is review or digest.
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
}

// reviewsShown is how many the page lists.
const reviewsShown = 8

// reviewForms are the content types of a review's forms.
var reviewForms = map[string]string{ //nolint:gochecknoglobals // a table, never written.
	"html": "text/html; charset=utf-8",
	"md":   "text/markdown; charset=utf-8",
	"json": "application/json",
}

// reviews answers /api/v1/kvwatch/reviews.
func (p *page) reviews(w http.ResponseWriter, _ *http.Request) {
	p.success(w, p.keptReviews())
}

// keptReviews lists them, the newest first.
func (p *page) keptReviews() []KeptReview {
	if p.o.Reviews == nil {
		return []KeptReview{}
	}
	return p.o.Reviews()
}

// newestReviews are those that the page lists.
func (p *page) newestReviews() []KeptReview {
	all := p.keptReviews()
	return all[:min(len(all), reviewsShown)]
}

// review serves one of them.
func (p *page) review(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	form := strings.TrimPrefix(path.Ext(name), ".")
	kind, known := reviewForms[form]
	if !known || p.o.ReadReview == nil {
		http.NotFound(w, r)
		return
	}
	text, err := p.o.ReadReview(strings.TrimSuffix(name, "."+form), form)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.NotFound(w, r)
		return
	case err != nil:
		p.o.Logger.Error("reading a review", "name", name, "err", err)
		http.Error(w, "the review cannot be read", http.StatusInternalServerError)
		return
	}
	// The page brings its own style, and nothing that runs.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", kind)
	p.write(w, text)
}
