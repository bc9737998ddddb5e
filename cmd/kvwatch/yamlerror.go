package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// errorLine finds the line that the YAML library names, errorField an unknown
// key, errorAddress what is no address, and may hold credentials, and
// errorQuoted the offending value that most errors quote. A value may have
// several lines.
var (
	errorLine    = regexp.MustCompile(`(?s)line (\d+): (.*)`)
	errorField   = regexp.MustCompile(`field (\S+) not found in type .+`)
	errorAddress = regexp.MustCompile(`parse "(?:[^"\\]|\\.)*": .*`)
	errorType    = regexp.MustCompile(`(?s)cannot unmarshal !(\S*) (?:` + "`" + `(.*?)` + "`" + ` )?into .+`)
	errorQuoted  = regexp.MustCompile(`"([^"]+)"`)
)

// decodeYAML decodes src strictly into out and returns the document, by which
// later errors can be located. Every error names file, line and, where it can
// be told, column; none names a Go type.
func decodeYAML(file string, src []byte, out any) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, locate(file, nil, err)
	}
	if len(doc.Content) == 0 {
		return &doc, nil // an empty file is an empty configuration
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	dec.KnownFields(true)
	return &doc, locate(file, &doc, dec.Decode(out))
}

// locate rewrites each line of err into file:line:column: message.
func locate(file string, doc *yaml.Node, err error) error {
	if err == nil {
		return nil
	}
	texts := strings.Split(err.Error(), "\n")
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = te.Errors
	}
	var all []error
	for _, text := range texts {
		all = append(all, locateOne(file, doc, text))
	}
	return errors.Join(all...)
}

func locateOne(file string, doc *yaml.Node, msg string) error {
	msg = errorAddress.ReplaceAllLiteralString(strings.TrimPrefix(msg, "yaml: "), "is no address: write http://host:port/path, and credentials under keys of their own")
	line, rest, token := reword(msg)
	n := doc
	if line == 0 {
		n = walk(doc, rest)
	}
	if exact := find(n, line, token); exact != nil {
		n = exact
	} else if key := keyOn(n, line, rest); key != nil {
		n = key
	}
	switch {
	case n != nil && n.Line > 0 && (line == 0 || n.Line == line) && n.Kind != yaml.DocumentNode:
		return fmt.Errorf("%s:%d:%d: %s", file, n.Line, n.Column, rest)
	case line > 0:
		return fmt.Errorf("%s:%d: %s", file, line, rest)
	default:
		return fmt.Errorf("%s: %s", file, rest)
	}
}

// reword says in plain words what the YAML library says, and finds the line that
// it names and the word that it is about.
func reword(msg string) (line int, rest, token string) {
	rest = msg
	if m := errorLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		rest = strings.TrimSuffix(msg, m[0]) + m[2]
	}
	switch {
	case errorField.MatchString(rest):
		token = errorField.FindStringSubmatch(rest)[1]
		rest = errorField.ReplaceAllLiteralString(rest, fmt.Sprintf("unknown key %q", token))
	case errorType.MatchString(rest):
		m := errorType.FindStringSubmatch(rest)
		token = m[2]
		rest = errorType.ReplaceAllLiteralString(rest, fmt.Sprintf("a %s does not belong here", kindInWords(m[1])))
	default:
		if m := errorQuoted.FindAllStringSubmatch(rest, -1); m != nil {
			token = m[len(m)-1][1]
		}
	}
	return line, rest, token
}

// walk follows the keys that an error begins with ("rules: KVSaturated: ratio
// is ...", "workload: profiles: 1: people is ...") down the document, as far as
// they are there.
func walk(n *yaml.Node, msg string) *yaml.Node {
	if n != nil && n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for segment := range strings.SplitSeq(msg, ": ") {
		word, _, _ := strings.Cut(segment, " ")
		child := value(n, word)
		if child == nil {
			break
		}
		n = child
	}
	return n
}

// value returns what stands under key in a mapping, or at that index in a list.
func value(n *yaml.Node, key string) *yaml.Node {
	if n != nil && n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// find returns the scalar below n that says token, on the given line if one is
// known. Without a line it must be the only one, lest the error points elsewhere.
func find(n *yaml.Node, line int, token string) *yaml.Node {
	if n == nil || token == "" {
		return nil
	}
	var found []*yaml.Node
	var visit func(*yaml.Node)
	visit = func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.Value == token && (line == 0 || n.Line == line) {
			found = append(found, n)
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	visit(n)
	if len(found) == 0 || (line == 0 && len(found) > 1) {
		return nil
	}
	return found[0]
}

// keyOn returns the key on the given line with which a part of msg begins
// ("scrape_configs job ...: gateway is only for ...").
func keyOn(n *yaml.Node, line int, msg string) *yaml.Node {
	if line == 0 {
		return nil
	}
	for segment := range strings.SplitSeq(msg, ": ") {
		word, _, _ := strings.Cut(segment, " ")
		if key := find(n, line, word); key != nil {
			return key
		}
	}
	return nil
}

func kindInWords(tag string) string {
	switch tag {
	case "!seq":
		return "list"
	case "!map":
		return "mapping"
	case "!str":
		return "text"
	case "!int", "!float":
		return "number"
	case "!bool":
		return "true or false"
	default:
		return "value with the tag !" + tag
	}
}
