package rules

import (
	"math"
	"strings"
	"testing"
	"time"
)

// pagesOf makes n pages that tell the same.
func pagesOf(n int, m moment) []moment {
	all := make([]moment, n)
	for i := range all {
		all[i] = m
	}
	return all
}

func load(running, waiting, usage float64) moment {
	return moment{running: running, waiting: waiting, capacity: waiting, usage: usage}
}

// watchedOf is an engine that served that many requests without a fault.
func watchedOf(requests float64, moments []moment) engineWatched {
	return engineWatched{
		moments: moments, pages: len(moments), span: 8 * time.Second, tokens: 1000*requests + 1, tokensKnown: true,
		requests: requests, requestsKnown: true, prefill: math.NaN(), decode: math.NaN(), capacity: 100_000,
		cache: cacheWatched{known: true, missed: 100 * requests, prompted: 1000 * requests, lifeMissed: 1e5, lifePrompted: 1e6},
	}
}

func (w engineWatched) with(change func(*engineWatched)) engineWatched {
	change(&w)
	return w
}

// inTurn makes the pages those of several servers, whose counters say nothing.
func inTurn(w *engineWatched) { w.sampled, w.tokens, w.tokensKnown = true, 0, false }

func missing(share float64) func(*engineWatched) {
	return func(w *engineWatched) { w.cache.missed = share * w.cache.prompted }
}

func work(prefill, decode float64) func(*engineWatched) {
	return func(w *engineWatched) { w.prefill, w.decode = prefill, decode }
}

func TestVerdictOnEngine(t *testing.T) {
	t.Parallel()
	unknownGauges := moment{running: math.NaN(), waiting: math.NaN(), capacity: math.NaN(), usage: math.NaN()}
	quiet, queue := pagesOf(9, load(2, 0, 0.3)), []moment{load(4, 3, 0.5), load(5, 2, 0.5), load(6, 4, 0.6), load(5, 1, 0.6)}
	for name, test := range map[string]struct {
		watched engineWatched
		want    string
		// first begins the evidence.
		first string
	}{
		"healthy":   {watched: watchedOf(50, quiet), want: BottleneckNone, first: "prefix cache missed 10%"},
		"idle":      {watched: watchedOf(0, pagesOf(9, load(0, 0, 0))).with(func(w *engineWatched) { w.tokens = 0 }), want: BottleneckNone},
		"one page":  {watched: watchedOf(0, pagesOf(1, load(2, 0, 0.3))), want: BottleneckUnknown},
		"too few":   {watched: watchedOf(4, quiet), want: BottleneckUnknown},
		"only busy": {watched: watchedOf(0, quiet).with(func(w *engineWatched) { w.tokens = 12 }), want: BottleneckUnknown},
		// Multiprocess pages have no gauges before the first request.
		"idle without gauges":  {watched: watchedOf(0, pagesOf(2, unknownGauges)).with(func(w *engineWatched) { w.tokens = 0 }), want: BottleneckNone},
		"nothing can be read":  {watched: engineWatched{moments: pagesOf(9, unknownGauges), pages: 9, span: 8 * time.Second, prefill: math.NaN()}, want: BottleneckUnknown},
		"cache cannot be read": {watched: watchedOf(50, quiet).with(func(w *engineWatched) { w.cache = cacheWatched{} }), want: BottleneckNone, first: "at most 2 running"},

		"stalled": {watched: watchedOf(0, pagesOf(9, load(3, 0, 0.4))).with(func(w *engineWatched) { w.tokens = 0 }), want: BottleneckStalled, first: "0 tokens"},
		// vllm-metal 479: requests wait for an empty batch.
		"stalled with an empty batch":  {watched: watchedOf(0, pagesOf(9, load(0, 6, 0))).with(func(w *engineWatched) { w.tokens = 0 }), want: BottleneckStalled},
		"stalled before all the rest":  {watched: watchedOf(0, pagesOf(9, load(3, 5, 0.99))).with(func(w *engineWatched) { w.tokens, w.preemptions = 0, 3 }), want: BottleneckStalled},
		"a request began just now":     {watched: watchedOf(0, []moment{load(0, 0, 0), load(1, 0, 0.1)}).with(func(w *engineWatched) { w.tokens = 0 }), want: BottleneckUnknown},
		"too short to call it a stall": {watched: watchedOf(0, pagesOf(2, load(1, 0, 0.1))).with(func(w *engineWatched) { w.tokens, w.span = 0, time.Second }), want: BottleneckUnknown},

		"kv by preemptions":         {watched: watchedOf(50, queue).with(func(w *engineWatched) { w.preemptions = 2 }), want: BottleneckKV, first: "requests waited in 4 of 4 scrapes, at most 4"},
		"kv by usage":               {watched: watchedOf(50, pagesOf(9, load(8, 3, 0.95))), want: BottleneckKV},
		"kv, the cache named first": {watched: watchedOf(50, pagesOf(9, load(8, 3, 0.95))).with(missing(0.7)), want: BottleneckKV, first: "prefix cache missed 70%"},
		"kv: a usual prompt won't fit": {
			watched: watchedOf(50, pagesOf(9, load(8, 3, 0.85))).with(func(w *engineWatched) { w.capacity = 6000 }), want: BottleneckKV,
		},
		"kv, one page":               {watched: watchedOf(0, pagesOf(1, load(8, 3, 0.95))), want: BottleneckKV},
		"slots at max_num_seqs":      {watched: watchedOf(50, []moment{load(16, 3, 0.5), load(16, 1, 0.5), load(15, 1, 0.5)}).with(func(w *engineWatched) { w.maxNumSeqs = 16 }), want: BottleneckSlots},
		"not at max_num_seqs":        {watched: watchedOf(50, pagesOf(9, load(8, 3, 0.5))).with(func(w *engineWatched) { w.maxNumSeqs = 16 }).with(work(1, 9)), want: BottleneckDecode},
		"slots at a flat top":        {watched: watchedOf(50, pagesOf(5, load(16, 3, 0.5))), want: BottleneckSlots},
		"two pages are no flat top":  {watched: watchedOf(50, pagesOf(2, load(16, 3, 0.5))).with(work(1, 9)), want: BottleneckDecode},
		"prefill":                    {watched: watchedOf(50, queue).with(work(5, 40)), want: BottleneckPrefill},
		"prefill and a cold cache":   {watched: watchedOf(50, queue).with(work(5, 40)).with(missing(0.6)), want: BottleneckPrefixCache, first: "prefix cache missed 60%"},
		"decode":                     {watched: watchedOf(50, queue).with(work(3, 60)), want: BottleneckDecode},
		"decode and a cold cache":    {watched: watchedOf(50, queue).with(work(3, 60)).with(missing(0.6)), want: BottleneckDecode, first: "prefix cache missed 60%"},
		"prefill, time unknown":      {watched: watchedOf(50, queue).with(work(60, 40)).with(func(w *engineWatched) { w.span = 0 }), want: BottleneckPrefill},
		"decode, time unknown":       {watched: watchedOf(50, queue).with(work(40, 60)).with(func(w *engineWatched) { w.span = 0 }), want: BottleneckDecode},
		"a queue of unknown cause":   {watched: watchedOf(50, queue), want: BottleneckUnknown},
		"a queue in half of scrapes": {watched: watchedOf(50, []moment{load(4, 0, 0.5), load(5, 2, 0.5), load(6, 0, 0.6), load(5, 1, 0.6)}).with(work(5, 40)), want: BottleneckPrefill},
		"a queue in fewer":           {watched: watchedOf(50, []moment{load(4, 0, 0.5), load(5, 2, 0.5), load(6, 0, 0.6)}).with(work(5, 40)), want: BottleneckNone},
		// Deferred requests wait for a grammar or a remote cache, not for room.
		"only deferred wait": {watched: watchedOf(50, pagesOf(9, moment{running: 4, waiting: 3, capacity: 0, usage: 0.95})), want: BottleneckKV, first: "prefix cache missed 10%"},
		"waiting without reasons": {
			watched: watchedOf(50, pagesOf(9, moment{running: 4, waiting: 3, capacity: math.NaN(), usage: 0.95})), want: BottleneckKV, first: "requests waited",
		},

		// Its first page came after the target's, as with lazily made series.
		"an engine that began while it was watched": {watched: watchedOf(6, pagesOf(1, load(1, 0, 0.1))).with(func(w *engineWatched) { w.pages = 2 }), want: BottleneckNone},

		"servers in turn":           {watched: watchedOf(0, pagesOf(9, load(3, 0, 0.4))).with(inTurn), want: BottleneckUnknown, first: "at most 3 running, 0 waiting, KV usage 40%"},
		"idle servers in turn":      {watched: watchedOf(0, pagesOf(9, load(0, 0, 0))).with(inTurn), want: BottleneckUnknown},
		"servers in turn, all full": {watched: watchedOf(0, pagesOf(9, load(3, 2, 0.95))).with(inTurn), want: BottleneckKV},
		"servers in turn, a queue":  {watched: watchedOf(0, queue).with(inTurn), want: BottleneckUnknown},

		"prefix cache by itself":          {watched: watchedOf(50, quiet).with(missing(0.51)), want: BottleneckPrefixCache},
		"prefix cache against lifetime":   {watched: watchedOf(50, quiet).with(missing(0.21)), want: BottleneckPrefixCache, first: "prefix cache missed 21% of 50000 prompt tokens (50 requests), against 10%"},
		"not twice the lifetime's":        {watched: watchedOf(50, quiet).with(missing(0.2)), want: BottleneckNone},
		"twice, but less than 0.10 above": {watched: watchedOf(50, quiet).with(missing(0.12)).with(func(w *engineWatched) { w.cache.lifeMissed = 5e4 }), want: BottleneckNone},
		"a cold cache of 4 requests":      {watched: watchedOf(4, quiet).with(missing(1)), want: BottleneckUnknown},
		"usage without a queue":           {watched: watchedOf(50, pagesOf(9, load(8, 0, 0.95))), want: BottleneckKV},
		"preempted between the scrapes":   {watched: watchedOf(50, quiet).with(func(w *engineWatched) { w.preemptions = 1 }), want: BottleneckKV},
		"prefix cache before usage":       {watched: watchedOf(50, pagesOf(9, load(8, 0, 0.95))).with(missing(0.9)), want: BottleneckPrefixCache},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judgeEngine(test.watched)
			if got.name != test.want {
				t.Errorf("%s (%s), expected %s; evidence %q", got.name, got.summary, test.want, got.evidence)
			}
			if got.summary == "" {
				t.Error("nothing is said about it")
			}
			if test.first != "" && (len(got.evidence) == 0 || !strings.HasPrefix(got.evidence[0], test.first)) {
				t.Errorf("the evidence is %q, expected to begin with %q", got.evidence, test.first)
			}
		})
	}
}

func TestVerdictOnSeveralEngines(t *testing.T) {
	t.Parallel()
	engine := func(name string, w engineWatched) engineWatched {
		w.name = name
		return w
	}
	quiet := pagesOf(9, load(2, 0, 0.3))
	for name, test := range map[string]struct {
		engines           []engineWatched
		want, sure, first string
	}{
		"none":                  {nil, BottleneckUnknown, "low", ""},
		"one of two is cold":    {[]engineWatched{engine("engine 0", watchedOf(30, quiet)), engine("engine 1", watchedOf(30, quiet).with(missing(0.8)))}, BottleneckPrefixCache, "medium", "engine 1: prefix cache missed 80%"},
		"the worse comes first": {[]engineWatched{engine("engine 0", watchedOf(80, quiet).with(missing(0.8))), engine("engine 1", watchedOf(30, pagesOf(9, load(8, 3, 0.95))))}, BottleneckKV, "high", "engine 1: requests waited"},
		// Three requests on each of two engines are six of the page.
		"few on each":  {[]engineWatched{engine("engine 0", watchedOf(3, quiet)), engine("engine 1", watchedOf(3, quiet))}, BottleneckNone, "low", "engine 0: "},
		"few on one":   {[]engineWatched{engine("engine 0", watchedOf(30, quiet)), engine("engine 1", watchedOf(3, quiet))}, BottleneckNone, "medium", "engine 0: "},
		"few on all":   {[]engineWatched{engine("engine 0", watchedOf(1, quiet)), engine("engine 1", watchedOf(3, quiet))}, BottleneckUnknown, "low", "engine 0: "},
		"19 requests":  {[]engineWatched{watchedOf(19, quiet)}, BottleneckNone, "low", "prefix cache"},
		"20 requests":  {[]engineWatched{watchedOf(20, quiet)}, BottleneckNone, "medium", "prefix cache"},
		"100 requests": {[]engineWatched{watchedOf(100, quiet)}, BottleneckNone, "medium", "prefix cache"},
		"101 requests": {[]engineWatched{watchedOf(101, quiet)}, BottleneckNone, "high", "prefix cache"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := together(test.engines)
			if got.Name != test.want || got.Confidence != test.sure {
				t.Errorf("%s with confidence %s (%s), expected %s, %s", got.Name, got.Confidence, got.Summary, test.want, test.sure)
			}
			if got.Evidence == nil || test.first != "" && (len(got.Evidence) == 0 || !strings.HasPrefix(got.Evidence[0], test.first)) {
				t.Errorf("the evidence is %q, expected to begin with %q", got.Evidence, test.first)
			}
		})
	}
}

func TestVerdictOnGateway(t *testing.T) {
	t.Parallel()
	at := func(inFlight ...float64) gatewayWatched {
		return gatewayWatched{pages: 9, span: 8 * time.Second, inFlight: inFlight, requests: 40, requestsKnown: true}
	}
	for name, test := range map[string]struct {
		watched gatewayWatched
		want    string
	}{
		"healthy":                   {func() gatewayWatched { w := at(3, 5); w.limit = 100; return w }(), BottleneckNone},
		"limit unknown":             {at(3, 5), BottleneckNone},
		"near its limit":            {func() gatewayWatched { w := at(90, 85, 20); w.limit = 100; return w }(), BottleneckGateway},
		"at 0.8 of it":              {func() gatewayWatched { w := at(80, 80); w.limit = 100; return w }(), BottleneckNone},
		"refusals":                  {func() gatewayWatched { w := at(3, 5); w.rejected = 1; return w }(), BottleneckGateway},
		"refusals, idle":            {func() gatewayWatched { w := at(0, 0); w.rejected, w.requests = 1, 0; return w }(), BottleneckGateway},
		"idle":                      {func() gatewayWatched { w := at(0, 0); w.requests, w.requestsKnown = 0, false; return w }(), BottleneckNone},
		"few":                       {func() gatewayWatched { w := at(1, 2); w.requests = 4; return w }(), BottleneckUnknown},
		"nothing in flight is told": {at(), BottleneckUnknown},
		"requests not told":         {func() gatewayWatched { w := at(3, 2); w.requests, w.requestsKnown = 0, false; return w }(), BottleneckUnknown},
		"one page":                  {func() gatewayWatched { w := at(3); w.pages = 1; return w }(), BottleneckUnknown},
		"workers take turns":        {func() gatewayWatched { w := at(3, 5); w.sampled = true; return w }(), BottleneckUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judgeGateway(test.watched)
			if got.name != test.want || got.summary == "" {
				t.Errorf("%s (%s), expected %s", got.name, got.summary, test.want)
			}
		})
	}
}
