package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_reprefill_excess_prompts", Kind: KindGauge,
		Help: "The pool's excess of prompt tokens prefilled again, in full prompts; it warns at 40.",
		Pool: func(w PoolWindow, _ string) Result { return excessResult(w, w.pool.heavyPrompt()) },
	})
}
