package rules

func init() {
	record(Recording{
		Name: "kvwatch_pool_session_task_seconds", Kind: KindSummary,
		Help: "Time that a session's task took from its first call to its last answer, a pause of 300 s ends it; quantiles over the tasks that ended in the last hour.",
		Pool: func(w PoolWindow, _ string) Result {
			p, r := w.calls()
			if p == nil {
				return r
			}
			return p.distribution(p.tasks.since(p.now-hour.Milliseconds(), anything), "tasks that ended", p.taskSum, p.taskCount)
		},
	})
}
