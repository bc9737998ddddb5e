package alerting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// Receiver tells one place about incidents. Its Notify is never called twice at
// the same time.
type Receiver interface {
	// Notify sends one notification. When it fails, retry says whether the same
	// request may go through later; an error that wraps *RetryAfterError also
	// says when.
	Notify(ctx context.Context, n Notification) (retry bool, err error)
}

// ReceiverKind is one way to tell people, as `kvwatch list` prints it.
type ReceiverKind struct {
	// Name is the kind: its configuration key is Name + "_configs".
	Name string `json:"name"`
	// Help says in one sentence what it does.
	Help string `json:"help"`
	// Example is a list entry that loads, as YAML.
	Example string `json:"example"`
}

// kind is an entry of the table of receivers. It holds constructors, no state.
type kind struct {
	help    string
	example string
	new     func() settings
}

// settings is one entry under a receiver's <kind>_configs. Its UnmarshalYAML
// sets defaults, decodes strictly and checks.
type settings interface {
	// receiver builds what can fail.
	receiver(e environment) (Receiver, error)
	// traits says how the pipeline is to treat the receiver.
	traits() traits
	// setDirectory makes relative file names relative to dir.
	setDirectory(dir string)
}

// traits say how the pipeline is to treat a receiver.
type traits struct {
	// sendResolved says that the end of an incident is told as well.
	sendResolved bool
	// edits says that what was sent can be edited, so that a change of the
	// numbers alone is worth a request.
	edits bool
	// deaf says that people learn nothing of what it is told: it takes signs of life.
	deaf bool
	// reports says that the receiver takes messages that are no alerts.
	reports bool
}

// environment is what the daemon gives to its receivers.
type environment struct {
	stdout io.Writer
	logger *slog.Logger
	past   Past
	// sockets hear the buttons below Slack's messages; nil hears none.
	sockets *slackSockets
}

// kinds is the table of receivers by kind. It is only written by init.
var kinds = map[string]kind{} //nolint:gochecknoglobals // one of the three registration tables

// register adds a kind of receiver. It is called by the init of the kind's file.
func register(name string, k kind) {
	if _, taken := kinds[name]; taken {
		panic("alerting: receiver kind " + name + " is registered twice")
	}
	kinds[name] = k
}

// Registered returns the kinds of receivers, by name.
func Registered() []ReceiverKind {
	out := make([]ReceiverKind, 0, len(kinds))
	for name, k := range kinds {
		out = append(out, ReceiverKind{Name: name, Help: k.help, Example: k.example})
	}
	slices.SortFunc(out, func(a, b ReceiverKind) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// configKey is the YAML key that holds the settings of a kind.
func configKey(kindName string) string { return kindName + "_configs" }

// ReceiverConfig names the places that are told together.
type ReceiverConfig struct {
	// Name is what routes refer to.
	Name string

	integrations []integrationConfig
}

// integrationConfig is one entry of one <kind>_configs list.
type integrationConfig struct {
	kind     string
	index    int
	settings settings
}

// id names the integration among all.
func (ic integrationConfig) id(receiver string) string {
	return fmt.Sprintf("%s/%s/%d", receiver, ic.kind, ic.index)
}

// later keeps an undecoded part of the configuration. Calling decode afterwards
// keeps the strictness of the decoder that made it.
type later struct{ decode func(any) error }

// UnmarshalYAML keeps the part for later.
func (l *later) UnmarshalYAML(unmarshal func(any) error) error {
	l.decode = unmarshal
	return nil
}

// UnmarshalYAML decodes a receiver: its name, and one list per kind.
func (c *ReceiverConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type plain struct {
		Name  string             `yaml:"name"`
		Lists map[string][]later `yaml:",inline"`
	}
	var p plain
	if err := unmarshal(&p); err != nil {
		return plainError(err)
	}
	if p.Name == "" {
		return errors.New("a receiver has no name: give it one, routes refer to it")
	}
	*c = ReceiverConfig{Name: p.Name}
	for _, name := range sortedNames(kinds) {
		list, given := p.Lists[configKey(name)]
		if !given {
			continue
		}
		delete(p.Lists, configKey(name))
		if len(list) == 0 {
			return fmt.Errorf("receiver %q: %s is empty: remove it or give it an entry", c.Name, configKey(name))
		}
		if err := c.add(name, list); err != nil {
			return err
		}
	}
	for _, key := range sortedNames(p.Lists) {
		return fmt.Errorf("receiver %q: unknown key %q, want name or one of %s", c.Name, key, strings.Join(configKeys(), ", "))
	}
	return nil
}

// add decodes the entries of one kind.
func (c *ReceiverConfig) add(kindName string, list []later) error {
	for i, l := range list {
		s := kinds[kindName].new()
		if l.decode == nil {
			return fmt.Errorf("receiver %q: %s entry %d is empty", c.Name, configKey(kindName), i+1)
		}
		if err := l.decode(s); err != nil {
			return fmt.Errorf("receiver %q: %s entry %d: %w", c.Name, configKey(kindName), i+1, plainError(err))
		}
		c.integrations = append(c.integrations, integrationConfig{kind: kindName, index: i, settings: s})
	}
	return nil
}

// MarshalYAML writes the receiver as it is in effect, without its secrets.
func (c ReceiverConfig) MarshalYAML() (any, error) {
	out := map[string]any{"name": c.Name}
	for _, ic := range c.integrations {
		list, _ := out[configKey(ic.kind)].([]any)
		out[configKey(ic.kind)] = append(list, ic.settings)
	}
	return out, nil
}

// goType is how the YAML decoder names a Go type in its errors.
var goType = regexp.MustCompile(`field (\S+) not found in type \S+`)

// plainError says what is wrong in one line and in the words of the file, not
// of its Go types.
func plainError(err error) error {
	text := err.Error()
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		text = strings.Join(te.Errors, "; ")
	}
	if text = goType.ReplaceAllString(text, `unknown key "$1"`); text == err.Error() {
		return err
	}
	return errors.New(text)
}

func configKeys() []string {
	out := sortedNames(kinds)
	for i, name := range out {
		out[i] = configKey(name)
	}
	return out
}

// sortedNames returns the keys of m in order.
func sortedNames[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
