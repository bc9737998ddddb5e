package rules

// FleetWindow is all that a rule may see of everything that is watched.
type FleetWindow struct {
	now instant
	// targets are in order of job and instance.
	targets []*target
}

// fleetWindow is the window at an Eval.
func (e *Engine) fleetWindow(n instant) FleetWindow {
	return FleetWindow{now: n, targets: e.sortedTargets()}
}
