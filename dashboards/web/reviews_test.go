package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestReviews: what was made by the clock is listed and served in each form, with
// no more rights than a page needs that runs nothing.
func TestReviews(t *testing.T) {
	t.Parallel()
	o := newFixture(t, 0).options()
	server := serve(t, o)
	resp, body := request(t, http.MethodGet, server.URL+"/api/v1/kvwatch/reviews", nil)
	var answer struct{ Data []KeptReview }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || resp.StatusCode != http.StatusOK || len(answer.Data) != 1 || answer.Data[0] != fixtureReviews()[0] {
		t.Errorf("%s: %v: %s", resp.Status, err, body)
	}
	name := fixtureReviews()[0].Name
	for path, want := range map[string]string{name + ".html": "text/html; charset=utf-8", name + ".md": "text/markdown; charset=utf-8", name + ".json": "application/json"} {
		resp, body := request(t, http.MethodGet, server.URL+"/reviews/"+path, nil)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != want || !strings.HasPrefix(body, "the review as ") {
			t.Errorf("%s: %s, %s: %s", path, resp.Status, resp.Header.Get("Content-Type"), body)
		}
		if policy := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'unsafe-inline'") || strings.Contains(policy, "script") {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
	for _, path := range []string{"none.html", name + ".exe", name} {
		if resp, _ := request(t, http.MethodGet, server.URL+"/reviews/"+path, nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}

	o.ReadReview = func(string, string) ([]byte, error) { return nil, errors.New("the disk is broken") }
	broken := serve(t, o)
	if resp, body := request(t, http.MethodGet, broken.URL+"/reviews/"+name+".html", nil); resp.StatusCode != http.StatusInternalServerError || strings.Contains(body, "disk") {
		t.Errorf("%s: %s", resp.Status, body)
	}
	o.Reviews, o.ReadReview = nil, nil
	without := serve(t, o)
	if _, body := request(t, http.MethodGet, without.URL+"/api/v1/kvwatch/reviews", nil); !strings.Contains(body, `"data":[]`) {
		t.Errorf("without any: %s", body)
	}
	if resp, _ := request(t, http.MethodGet, without.URL+"/reviews/"+name+".html", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("without any: %s", resp.Status)
	}
}
