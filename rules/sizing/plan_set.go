package sizing

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Set returns the plan with the value under key replaced: a what-if. The key is
// the path with dots (model.kv_dtype); an entry of a list goes by its name or
// index (workload.profiles.developers.people). A key of the only profile may
// leave the profile out. The value is YAML; the plan is checked again.
func (p *Plan) Set(key, value string) (*Plan, error) {
	var doc, entry yaml.Node
	text, err := yaml.Marshal(p)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(yaml.Unmarshal(text, &doc), yaml.Unmarshal([]byte(value), &entry)); err != nil {
		return nil, err
	}
	path, err := p.path(key)
	if err != nil {
		return nil, err
	}
	if len(entry.Content) == 0 {
		entry.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!null"}}
	}
	if err := put(doc.Content[0], path, entry.Content[0]); err != nil {
		return nil, err
	}
	if text, err = yaml.Marshal(&doc); err != nil {
		return nil, err
	}
	changed := &Plan{}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(changed); err != nil {
		return nil, err
	}
	return changed, nil
}

// path splits a key; profiles[0] is profiles.0.
func (p *Plan) path(key string) ([]string, error) {
	path := strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune(".[]", r) })
	if len(path) == 0 {
		return nil, errors.New("there is no key")
	}
	if len(path) != 2 || path[0] != "workload" || len(p.Workload.Profiles) == 0 || !isLoad(path[1]) {
		return path, nil
	}
	if len(p.Workload.Profiles) > 1 {
		return nil, fmt.Errorf("the plan has %d profiles: write workload.profiles.%s.%s", len(p.Workload.Profiles), p.Workload.Profiles[0].Name, path[1])
	}
	return []string{"workload", "profiles", "0", path[1]}, nil
}

// isLoad says whether a key is one of a profile's.
func isLoad(key string) bool {
	var load Load
	return slices.ContainsFunc(numbersOf(reflect.ValueOf(&load).Elem(), nil, nil), func(n number) bool { return n.key == key })
}

// put replaces what stands under path below n, and makes the mappings on the way.
func put(n *yaml.Node, path []string, value *yaml.Node) error {
	if len(path) == 0 {
		*n = *value
		return nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		entry := listEntry(n, path[0])
		if entry == nil {
			return fmt.Errorf("there is no entry %q", path[0])
		}
		return put(entry, path[1:], value)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == path[0] {
				return put(n.Content[i+1], path[1:], value)
			}
		}
		child := &yaml.Node{Kind: yaml.MappingNode}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[0]}, child)
		return put(child, path[1:], value)
	default:
		return fmt.Errorf("there is nothing below it to call %q", path[0])
	}
}

// listEntry is the entry of a list with that name or index.
func listEntry(list *yaml.Node, name string) *yaml.Node {
	for _, entry := range list.Content {
		for i := 0; i+1 < len(entry.Content); i += 2 {
			if entry.Content[i].Value == "name" && entry.Content[i+1].Value == name {
				return entry
			}
		}
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(list.Content) {
		return list.Content[i]
	}
	return nil
}
