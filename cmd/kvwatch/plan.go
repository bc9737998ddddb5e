package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"kvwatch/rules/sizing"
)

// planFile is a sizing plan and where it was read from.
type planFile struct {
	*sizing.Plan
	file string
	doc  *yaml.Node
}

// loadPlan reads and checks a plan. Errors name file, line and column.
func loadPlan(file string) (*planFile, error) {
	src, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file", file)
	}
	if err != nil {
		return nil, err
	}
	p := &planFile{Plan: &sizing.Plan{}, file: file}
	if p.doc, err = decodeYAML(file, src, p.Plan); err != nil {
		return nil, err
	}
	if len(p.doc.Content) == 0 {
		return nil, fmt.Errorf("%s: the plan is empty", file)
	}
	if p.Plan.Plan == "" {
		p.Plan.Plan = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	return p, nil
}

// locate says where in the file an error stands.
func (p *planFile) locate(err error) error { return locate(p.file, p.doc, err) }

// config reads the config.json that the plan names, from the plan's folder or
// else from the folder we are in. One that cannot be used leaves the plan
// usable: what needs it is unknown, and Problem says why.
func (p *planFile) config() sizing.Config {
	name := p.Model.ConfigJSON
	if name == "" {
		return sizing.Config{}
	}
	text, err := readBeside(p.file, name)
	if errors.Is(err, os.ErrNotExist) {
		return sizing.Config{Problem: name + ": no such file, neither from the plan's folder nor from this one"}
	}
	if err != nil {
		return sizing.Config{Problem: err.Error()}
	}
	geometry, err := sizing.ReadGeometry(text)
	if err != nil {
		return sizing.Config{Problem: name + ": " + err.Error()}
	}
	return sizing.Config{Geometry: &geometry}
}

func readBeside(file, name string) ([]byte, error) {
	if filepath.IsAbs(name) {
		return os.ReadFile(name)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(file), name))
	if errors.Is(err, os.ErrNotExist) {
		return os.ReadFile(name)
	}
	return text, err
}
