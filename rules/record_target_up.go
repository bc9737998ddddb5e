package rules

func init() {
	record(Recording{
		Name: "kvwatch_target_up", Kind: KindGauge,
		Help: "1 when the target's last scrape gave a page that can be read, else 0.",
		Target: func(w TargetWindow, _ string) Result {
			if !w.Scraped() {
				return Result{Quality: QualityStale, Reason: "the target was not scraped lately"}
			}
			v := 0.0
			if w.target.lastGood == w.target.lastScrape {
				v = 1
			}
			return Result{Value: v, Known: true, Quality: QualityOK, From: "up"}
		},
	})
}
