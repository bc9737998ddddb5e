package rules

import (
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

// unit is one engine or one gateway of a target: the windows of its series.
type unit struct {
	target *target
	// engine is the engine label, "" for a gateway; modelName its model.
	engine    string
	modelName string
	// id is the key, once it was asked for.
	id string

	gauges [gauges]gaugeWindow
	totals [totals]totalWindow
	hists  [hists]*histogram

	// capacity is the KV cache in tokens, 0 when unknown; capacityFrom says
	// what it was read from, or why it is unknown.
	capacity     float64
	capacityFrom string
	// cachingOff says that the engine has no prefix cache; blockSize is in
	// tokens, 0 when unknown; hitStep is the number of tokens in which a hybrid
	// model's hits come, 0 for any other.
	cachingOff bool
	blockSize  float64
	hitStep    float64
	// sleptAt is the time of the last page on which the engine slept, in Unix
	// milliseconds; 0 is never.
	sleptAt int64
	// resetAt is the time of the last page on which a counter began again, in
	// Unix milliseconds; 0 is never.
	resetAt int64

	// pool is the pool that claims the engine; nil for a gateway and until
	// the model's name is known.
	pool *pool
	// pooledAs is the model's name under which it joined the pool.
	pooledAs string
	// tickedPage is the number of the page that its pool learned from last; 0 is none.
	tickedPage int32
	// facts are the windows that were asked for at the last Eval.
	facts     [4]windowFacts
	nextFacts int
	// outputs are its derived series, see output.
	outputs []*output
	// watches are those over it alone.
	watches []*watch
}

type gaugeWindow struct {
	now    float64
	column column
	page   int32
}

type totalWindow struct {
	// sum is what was added since the first page, in ticks where it is a sum of
	// time; skipped is in the source's total too, but was not seen to be added.
	sum, skipped float64
	column       column
	page         int32
}

// key identifies the unit in state files and among the units of a pool.
func (u *unit) key() string {
	if u.id == "" {
		u.id = u.target.job + "/" + u.target.instance + "/" + u.engine
	}
	return u.id
}

// name is the engine as people are told of it: its instance, with its number
// where the page has several engines.
func (u *unit) name() string {
	if u.target.engines() > 1 {
		return u.target.instance + "#" + u.engine
	}
	return u.target.instance
}

// subject holds the labels of an engine's series.
func (u *unit) subject() labels.Labels {
	return labels.FromStrings("job", u.target.job, "instance", u.target.instance, "engine", u.engine, "model_name", u.pooledAs)
}

// windowFor is the ring that reaches so far back; nil is none.
func (t *target) windowFor(r reach) *ring {
	switch r {
	case reachLong:
		return t.long
	case reachMiddle:
		return t.middle
	case reachShort:
		return t.short
	default:
		return nil
	}
}

// gauge, total and hist make what windows need, once seen.
func (u *unit) gauge(g gauge) *gaugeWindow {
	w := &u.gauges[g]
	if w.column.number == 0 {
		w.column = u.target.short.addColumn(math.NaN())
	}
	return w
}

func (u *unit) total(t total) *totalWindow {
	w := &u.totals[t]
	if w.column.number == 0 {
		w.column = u.target.windowFor(t.reach()).addCount()
	}
	return w
}

func (u *unit) hist(h hist) *histogram {
	if u.hists[h] == nil {
		u.hists[h] = u.newHistogram(h)
	}
	return u.hists[h]
}

// newHistogram makes it, with the columns that windows need.
func (u *unit) newHistogram(h hist) *histogram {
	f := &histogram{lifelong: h.lifelong()}
	if r := u.target.windowFor(h.sumReach()); r != nil {
		if h.whole() {
			f.sumColumn = r.addCount()
		} else {
			f.sumColumn = r.addColumn(0)
		}
	}
	if r := u.target.windowFor(h.countReach()); r != nil {
		f.countColumn = r.addCount()
	}
	return f
}

// placesOf are the indexes of a page's bounds in h, with what new ones need.
func (u *unit) placesOf(h hist, bounds []float64) []int {
	f, n := u.hist(h), len(bounds)
	if rising(bounds) && (len(f.bounds) == 0 || slices.Equal(bounds, f.bounds)) {
		f.adopt(bounds, u.target.inOrder(n))
	}
	if n <= len(f.bounds) && slices.Equal(bounds, f.bounds[:n]) {
		return u.target.inOrder(n)
	}
	places := make([]int, n)
	for i, le := range bounds {
		places[i] = f.bound(le)
	}
	return places
}

// inOrder holds the first n indexes. It is one slice for all that need it, and
// is never written to.
func (t *target) inOrder(n int) []int {
	if len(t.order) < n {
		t.order = make([]int, n)
		for i := range t.order {
			t.order[i] = i
		}
	}
	return t.order[:n:n]
}

// has says whether the newest page had the total.
func (u *unit) has(t total) bool { return u.totals[t].page == u.target.page && u.target.page > 0 }

// hasHist says the same of a histogram.
func (u *unit) hasHist(h hist) bool {
	return u.hists[h] != nil && u.hists[h].page == u.target.page && u.target.page > 0
}

// add counts d into a total that the engine keeps itself.
func (u *unit) add(t total, d float64) {
	w := u.total(t)
	w.sum += d
	w.page = u.target.page
}

// addTime counts seconds into a total of time.
func (u *unit) addTime(t total, seconds float64) { u.add(t, math.Round(seconds*timeTicks)) }

// increase is what the total gained on the pages in (from, to], in seconds where
// it is a sum of time.
func (u *unit) increase(t total, from, to int64) float64 {
	gained := u.target.windowFor(t.reach()).increase(u.totals[t].column, from, to)
	if t.timed() {
		return gained / timeTicks
	}
	return gained
}

// store writes the page's values into the windows, whose newest page it is.
func (u *unit) store() {
	t := u.target
	for i := range u.gauges {
		if g := &u.gauges[i]; g.column.number != 0 && g.page == t.page {
			t.short.put(g.column, g.now)
		}
	}
	for i := range u.totals {
		if w := &u.totals[i]; w.column.number != 0 {
			t.windowFor(total(i).reach()).put(w.column, w.sum)
		}
	}
	for i, h := range u.hists {
		if h == nil {
			continue
		}
		if h.sumColumn.number != 0 {
			t.windowFor(hist(i).sumReach()).put(h.sumColumn, h.sum)
		}
		if h.countColumn.number != 0 {
			t.windowFor(hist(i).countReach()).put(h.countColumn, h.count)
		}
		if hist(i).windowed() && len(h.bounds) > 0 {
			h.storeBuckets(t.short)
		}
	}
}

// readConfig takes what cache_config_info says of the engine.
func (u *unit) readConfig(ls labels.Labels) {
	u.readCapacity(ls)
	u.readTrust(ls.Get)
}

// readCapacity takes the KV capacity from cache_config_info: the tokens where
// the engine says them, else blocks times block size, shared among the engines
// on the page, because vLLM sums the blocks over them.
func (u *unit) readCapacity(ls labels.Labels) {
	u.capacity, u.capacityFrom = 0, ""
	if v, ok := positive(ls.Get("kv_cache_size_tokens")); ok {
		u.capacity, u.capacityFrom = v, collector.VLLMCacheConfig+" kv_cache_size_tokens"
		return
	}
	blocks, okBlocks := positive(ls.Get("num_gpu_blocks"))
	size, okSize := positive(ls.Get("block_size"))
	switch {
	case !okBlocks || !okSize:
		u.capacityFrom = "the engine does not say how many KV blocks it has"
	case number(ls.Get("sliding_window")):
		u.capacityFrom = "blocks times block size says nothing with a sliding window, and the engine does not give kv_cache_size_tokens"
	case number(ls.Get("mamba_block_size")):
		u.capacityFrom = "blocks times block size says nothing for a hybrid model, and the engine does not give kv_cache_size_tokens"
	default:
		u.capacity = blocks * size
		u.capacityFrom = collector.VLLMCacheConfig + " num_gpu_blocks × block_size"
	}
}

// sharedBlocks says that capacity is a sum over the engines on the page.
func (u *unit) sharedBlocks() bool {
	return u.capacityFrom == collector.VLLMCacheConfig+" num_gpu_blocks × block_size"
}

func positive(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v > 0 && !math.IsInf(v, 0)
}

func number(s string) bool {
	_, ok := positive(s)
	return ok
}
