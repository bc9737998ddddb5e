package collector

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
)

// twoGateways scrapes two gateways of one collector in turn; pages gives the
// page of each at a step.
type twoGateways struct {
	scrapers [2]*targetScraper
	pages    [2]string
}

func newTwoGateways(t *testing.T) *twoGateways {
	t.Helper()
	g := &twoGateways{}
	shared := &twins{}
	for i := range g.scrapers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			write(http.StatusOK, g.pages[i])(w, r)
		}))
		t.Cleanup(server.Close)
		one := newRig(t, server.URL, func(c *ScrapeConfig) {
			c.Source = SourceLiteLLM
			c.StaticConfigs[0].Labels = model.LabelSet{"pod": model.LabelValue(fmt.Sprint("p", i))}
		})
		one.twins = shared
		g.scrapers[i] = one.targetScraper
	}
	return g
}

func (g *twoGateways) warnings(t *testing.T, seconds int, pages [2]string) [2]string {
	t.Helper()
	g.pages = pages
	var all [2]string
	for i, s := range g.scrapers {
		s.scrape(t.Context(), at(seconds+i))
		all[i] = s.status().Warning
	}
	return all
}

// BerriAI/litellm#42566: two proxies on one host share a multiprocess directory
// and both show what is in it.
func TestLiteLLMFactTwins(t *testing.T) {
	t.Parallel()
	page := func(a, b, c float64) string {
		return served + fmt.Sprintf("litellm_llm_api_latency_metric_sum{model_id=\"a\"} %v\nlitellm_llm_api_latency_metric_sum{model_id=\"b\"} %v\nlitellm_request_total_latency_metric_sum{model_id=\"b\"} %v\n", a, b, c)
	}
	told := func(w string) bool { return strings.Contains(w, "shows the same counters as that of 127.0.0.1:") }
	t.Run("the same counters", func(t *testing.T) {
		t.Parallel()
		g := newTwoGateways(t)
		w := g.warnings(t, 0, [2]string{page(1.25, 2.125, 2.5625), page(1.75, 2.125, 2.5625)}) // a moved in between
		if told(w[0]) || !told(w[1]) {
			t.Errorf("warnings %q", w)
		}
		if w := g.warnings(t, 15, [2]string{page(3.5, 4.5, 5.5), page(6.5, 7.5, 8.5)}); !told(w[0]) || !told(w[1]) {
			t.Errorf("warnings %q, though both were twins a moment ago", w)
		}
		if w := g.warnings(t, 2*3600, [2]string{page(13.5, 14.5, 15.5), page(16.5, 17.5, 18.5)}); told(w[0]) || told(w[1]) {
			t.Errorf("warnings %q, hours later", w)
		}
	})
	t.Run("their own", func(t *testing.T) {
		t.Parallel()
		g := newTwoGateways(t)
		// One sum can be the same by chance, and whole numbers are.
		for i := range 4 {
			f := float64(i)
			if w := g.warnings(t, 15*i, [2]string{page(1.25+f, 2.125, 7), page(9.5+f, 2.125, 7)}); told(w[0]) || told(w[1]) {
				t.Errorf("warnings %q", w)
			}
		}
	})
	t.Run("one that is gone is no twin", func(t *testing.T) {
		t.Parallel()
		g := newTwoGateways(t)
		g.pages = [2]string{page(1.25, 2.125, 2.5625), page(1.25, 2.125, 2.5625)}
		g.scrapers[0].scrape(t.Context(), at(0))
		g.scrapers[0].twins.forget(g.scrapers[0])
		g.scrapers[1].scrape(t.Context(), at(1))
		if w := g.scrapers[1].status().Warning; told(w) {
			t.Errorf("warning %q", w)
		}
	})
}
