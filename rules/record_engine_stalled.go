package rules

func init() {
	record(Recording{
		Name: "kvwatch_engine_stalled", Kind: KindGauge,
		Help: "1 when requests run or wait on the engine and within 30 seconds no token moved and none was let in, else 0.",
		Engine: func(w EngineWindow, _ string) Result {
			if text := w.unjudged(); text != "" {
				return w.absent(text)
			}
			v := 0.0
			if w.stalled(stallWindow) || w.livelocked(stallWindow) {
				v = 1
			}
			return w.known(v, 0, "running, waiting, generated and prompted tokens, first tokens")
		},
	})
}
