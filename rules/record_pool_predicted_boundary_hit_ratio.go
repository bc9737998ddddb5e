package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_predicted_boundary_hit_ratio", Kind: KindGauge,
		Help: "Share of the pauses between two turns that a cached block is predicted to survive, from residency against pauses; it is a prediction.",
		Pool: func(w PoolWindow, _ string) Result {
			h := &w.pool.headroom
			return h.result(w, h.boundary, h.reason, "Phi((ln residency - ln idle gap) / sigma)")
		},
	})
}
