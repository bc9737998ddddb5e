package rules

// FleetWindow is all that a rule may see of everything that is watched.
type FleetWindow struct {
	// Targets are the windows of all targets, in order of job and instance.
	Targets []TargetWindow
}

// fleetWindow is the window at an Eval.
func (e *Engine) fleetWindow(n instant) FleetWindow {
	var w FleetWindow
	for _, t := range e.sortedTargets() {
		w.Targets = append(w.Targets, n.target(t))
	}
	return w
}
