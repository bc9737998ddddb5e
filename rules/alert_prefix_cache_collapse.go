package rules

func init() {
	alert(Alerting{
		Name:     cacheCollapse,
		Help:     "A pool computes prompt tokens again that its cache used to hold, by 40 full prompts more than twice its usual.",
		Severity: SeverityCritical,
		Settings: excessRuleSettings(2),
		Pool:     func(*settings) detector[PoolWindow] { return excessDetector{level: levelPage} },
	})
}
