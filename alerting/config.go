package alerting

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"
)

// DefaultResolveTimeout is how long an alert may be missing from what the rules
// hand over before it counts as resolved.
const DefaultResolveTimeout = 5 * time.Minute

// Config is the part of the configuration file that says who is told what. It
// has no UnmarshalYAML, so that the file's struct can hold it inline; New and
// Reload check what its parts cannot check by themselves.
type Config struct {
	// Route is the root of the routing tree; left out, every alert goes to the
	// first receiver, one incident per alert name and pool.
	Route *Route `yaml:"route,omitempty"`
	// Receivers are the places that routes name.
	Receivers []ReceiverConfig `yaml:"receivers,omitempty"`
	// Alertmanagers are told of every alert, whatever the routes; they route,
	// silence and tell by their own configuration.
	Alertmanagers []*AlertmanagerConfig `yaml:"alertmanagers,omitempty"`
	// InhibitRules say which alerts are not told while others fire; left out,
	// the default ones hold.
	InhibitRules []InhibitRule `yaml:"inhibit_rules,omitempty"`
	// TimeIntervals are the times that routes name to speak or to be quiet.
	TimeIntervals []TimeInterval `yaml:"time_intervals,omitempty"`
	// ResolveTimeout is how long an alert may be missing from what the rules
	// hand over before it counts as resolved.
	ResolveTimeout *model.Duration `yaml:"resolve_timeout,omitempty"`
}

// SetDirectory makes relative file names relative to dir, the folder of the
// configuration file.
func (c *Config) SetDirectory(dir string) {
	for _, r := range c.Receivers {
		for _, ic := range r.integrations {
			ic.settings.setDirectory(dir)
		}
	}
	for _, am := range c.Alertmanagers {
		if am != nil {
			am.SetDirectory(dir)
		}
	}
}

// Check says what is wrong between the parts of the configuration: a receiver
// named twice, a route to a receiver that does not exist.
func (c Config) Check() error {
	if slices.Contains(c.Alertmanagers, nil) {
		return errors.New("alertmanagers: an entry is empty")
	}
	names := map[string]bool{}
	for _, r := range c.Receivers {
		if names[r.Name] {
			return fmt.Errorf("receivers: %q is there twice: give each its own name", r.Name)
		}
		names[r.Name] = true
	}
	times := map[string]bool{}
	for _, t := range c.TimeIntervals {
		if times[t.Name] {
			return fmt.Errorf("time_intervals: %q is there twice: give each its own name", t.Name)
		}
		times[t.Name] = true
	}
	if c.Route == nil {
		return nil
	}
	if c.Route.Receiver == "" {
		return errors.New("route: the root route needs a receiver, which takes what no other route does")
	}
	if len(c.Route.Matchers) > 0 {
		return errors.New("route: the root route takes every alert, so it can have no matchers: put them into routes")
	}
	if c.Route.Continue {
		return errors.New("route: the root route has nothing to continue to: remove continue")
	}
	if len(c.Route.MuteTimeIntervals)+len(c.Route.ActiveTimeIntervals) > 0 {
		return errors.New("route: the root route takes what no other does, at any time: put mute_time_intervals and active_time_intervals into routes")
	}
	return checkNames(c.Route, names, times)
}

// checkNames says which receiver or time interval a route names that is not there.
func checkNames(r *Route, receivers, times map[string]bool) error {
	if r == nil {
		return errors.New("route: an entry of routes is empty")
	}
	if r.Receiver != "" && !receivers[r.Receiver] {
		return fmt.Errorf("route: receiver %q is not among the receivers", r.Receiver)
	}
	for _, name := range slices.Concat(r.MuteTimeIntervals, r.ActiveTimeIntervals) {
		if !times[name] {
			return fmt.Errorf("route: %q is not among the time_intervals", name)
		}
	}
	for _, child := range r.Routes {
		if err := checkNames(child, receivers, times); err != nil {
			return err
		}
	}
	return nil
}

// tree returns the routing tree; nil when there is nobody to tell.
func (c Config) tree() *node {
	switch {
	case c.Route != nil:
		return newTree(c.Route)
	case len(c.Receivers) > 0:
		return newTree(&Route{Receiver: c.Receivers[0].Name, GroupBy: []string{"alertname", "pool"}})
	default:
		return nil
	}
}

// inhibitRules returns the rules in effect.
func (c Config) inhibitRules() []InhibitRule {
	if c.InhibitRules == nil {
		return defaultInhibitRules()
	}
	return c.InhibitRules
}

// resolveTimeout returns the timeout in effect.
func (c Config) resolveTimeout() time.Duration {
	if c.ResolveTimeout == nil {
		return DefaultResolveTimeout
	}
	return time.Duration(*c.ResolveTimeout)
}
