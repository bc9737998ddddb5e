package rules

import (
	"fmt"

	"kvwatch/collector"
)

func init() {
	record(Recording{
		Name: "kvwatch_kv_usage_ratio", Kind: KindGauge,
		Help: "Share of the KV cache that running requests hold; blocks that are cached but free are not in it.",
		Engine: func(w EngineWindow, _ string) Result {
			v, ok := w.Gauge(gaugeUsage)
			switch {
			case !ok:
				return w.absent("the page has no KV usage: an engine that has not run yet does not set it")
			case v < 0 || v > 1:
				r := w.known(min(max(v, 0), 1), 0, collector.VLLMKVUsage)
				r.Quality, r.Reason = QualityPartial, fmt.Sprintf("the engine tells a KV usage of %g, outside of 0 to 1: clamped, and no alert rests on it", v)
				return r
			}
			return w.gaugeResult(v, collector.VLLMKVUsage)
		},
		Pool: poolUsage,
	})
}

// usage is the engine's KV usage as of its last page. One that cannot be,
// outside of 0 to 1, is unknown.
func (w unitWindow) usage() (float64, bool) {
	v, ok := w.Gauge(gaugeUsage)
	return v, ok && v >= 0 && v <= 1
}

// poolUsage is weighted by capacity; where no capacity is known all engines
// weigh the same.
func poolUsage(w PoolWindow, _ string) Result {
	held, room, plain, told, sized := 0.0, 0.0, 0.0, 0, 0
	for _, u := range w.pool.members {
		e := w.engine(u)
		v, ok := e.usage()
		if !ok {
			continue
		}
		told++
		plain += v
		if c, ok := e.capacity(); ok {
			held += v * c
			room += c
			sized++
		}
	}
	switch {
	case told == 0:
		return w.absent("no engine of the pool tells its KV usage")
	case sized == told:
		return w.known(held/room, 0, told, collector.VLLMKVUsage+", weighted by capacity")
	default:
		return w.known(plain/float64(told), 0, told, collector.VLLMKVUsage+", mean over engines")
	}
}
