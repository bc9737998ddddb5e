package collector

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// problem is one thing that is wrong with a block of the configuration.
type problem struct {
	// key is the key in the block that is wrong; empty where it is the block as a whole.
	key string
	// text says what is wrong and what to do.
	text string
}

// err makes an error of the problem; line 0 is not known and left out.
func (p problem) err(line int, where string) error {
	text := where + ": " + p.text
	if p.key != "" {
		text = where + ": " + p.key + " " + p.text
	}
	if line > 0 {
		text = fmt.Sprintf("line %d: %s", line, text)
	}
	return errors.New(text)
}

// position is where a block stands in its file.
type position struct {
	node *yaml.Node
	// fresh makes an empty block to decode single keys into.
	fresh func() any
}

// UnmarshalYAML takes hold of the node itself.
func (p *position) UnmarshalYAML(node *yaml.Node) error {
	p.node = node
	return nil
}

// decode decodes a block strictly into to, and remembers its position.
func decode(unmarshal func(any) error, to any, fresh func() any) (position, error) {
	at := position{fresh: fresh}
	if err := unmarshal(&at); err != nil {
		return at, err
	}
	return at, unmarshal(to)
}

// line is the block's first line; 0 is unknown.
func (p position) line() int {
	if p.node == nil {
		return 0
	}
	return p.node.Line
}

// lineOf is the line of a key of the block, else the block's own.
func (p position) lineOf(key string) int {
	if p.node != nil && p.node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(p.node.Content); i += 2 {
			if p.node.Content[i].Value == key {
				return p.node.Content[i].Line
			}
		}
	}
	return p.line()
}

// list turns problems into one error that the YAML decoder collects with
// those of the other blocks; nil when there are none.
func (p position) list(ps []problem, where string) error {
	var texts []string
	for _, one := range ps {
		texts = append(texts, one.err(p.lineOf(one.key), where).Error())
	}
	if len(texts) == 0 {
		return nil
	}
	return &yaml.TypeError{Errors: texts}
}

// explain puts a decoder's error into the words of the configuration's user
// and adds the line where the decoder gave none.
func (p position) explain(err error, where string) error {
	if typeErr, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts := make([]string, len(typeErr.Errors))
		for i, text := range typeErr.Errors {
			texts[i] = plainWords(text, where)
		}
		return &yaml.TypeError{Errors: texts}
	}
	key := p.culprit(err)
	if key == "" {
		return p.list([]problem{{"", err.Error()}}, where)
	}
	text := "is not valid: " + err.Error()
	if strings.Contains(text, "duration") {
		text += "; write 15s, 1m or 1h30m"
	}
	return p.list([]problem{{key, text}}, where)
}

// culprit finds the key whose value gives err when it is decoded alone.
func (p position) culprit(err error) string {
	if p.node == nil || p.node.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(p.node.Content); i += 2 {
		one := yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: p.node.Content[i : i+2]}
		if e := one.Decode(p.fresh()); e != nil && e.Error() == err.Error() {
			return p.node.Content[i].Value
		}
	}
	return ""
}

// plainWords rewrites one line of the YAML decoder, which names Go types and
// quotes values: a value may be a secret in the wrong place.
func plainWords(text, where string) string {
	line, rest, ok := strings.Cut(text, ": ")
	if !ok || !strings.HasPrefix(line, "line ") {
		line, rest = "", text
	} else {
		line += ": "
	}
	if strings.HasPrefix(rest, "scrape_configs") || strings.HasPrefix(rest, "global") {
		return text
	}
	if key, _, ok := strings.Cut(rest, " not found in type "); ok {
		return fmt.Sprintf("%s%s: unknown key %q", line, where, strings.TrimPrefix(key, "field "))
	}
	if i := strings.LastIndex(rest, " into "); i >= 0 && strings.HasPrefix(rest, "cannot unmarshal ") {
		return fmt.Sprintf("%s%s: wrong kind of value, %s is expected", line, where, kindName(rest[i+len(" into "):]))
	}
	return line + where + ": " + rest
}

// kindName says in YAML's words what a Go type is written as.
func kindName(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		return "a whole number"
	case strings.HasPrefix(goType, "float"):
		return "a number"
	case goType == "bool":
		return "true or false"
	case goType == "string", strings.HasSuffix(goType, "Secret"):
		return "a text"
	default:
		return "a block of keys"
	}
}
