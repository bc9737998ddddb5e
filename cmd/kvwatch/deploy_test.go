package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"go.yaml.in/yaml/v3"

	"kvwatch/collector"
)

// TestShippedConfigs loads every configuration that stands in a file of ours as
// a user would: the commented one, the README's and the Kubernetes manifest's.
func TestShippedConfigs(t *testing.T) {
	t.Parallel()
	var manifest struct {
		Data map[string]string `yaml:"data"`
	}
	if err := yaml.NewDecoder(bytes.NewReader(readFile(t, "deploy/kubernetes/kvwatch.yaml"))).Decode(&manifest); err != nil {
		t.Fatal(err)
	}
	inCluster := manifest.Data["kvwatch.yml"]
	if !collector.HasKubernetes {
		_, err := parseConfig("kvwatch.yml", []byte(inCluster))
		refused := regexp.MustCompile(`^kvwatch\.yml:\d+:\d+: scrape_configs job "vllm": kubernetes_sd_configs needs .* container image.* -tags kubernetes.*$`)
		if err == nil || !refused.MatchString(err.Error()) {
			t.Errorf("without Kubernetes the manifest's configuration gives %v", err)
		}
		inCluster = regexp.MustCompile(`(?m)^ *kubernetes_sd_configs: .*\n`).ReplaceAllString(inCluster, "")
	}
	for name, config := range map[string]string{
		"deploy/kvwatch.yml":             string(readFile(t, "deploy/kvwatch.yml")),
		"README.md":                      findIn(t, "README.md", "(?s)```yaml\n(.*?)```"),
		"deploy/kubernetes/kvwatch.yaml": inCluster,
	} {
		if _, err := parseConfig(name, []byte(config)); err != nil {
			t.Error(err)
		}
	}
}

// TestShippedArguments has `kvwatch run` take the arguments of the image, the
// manifest and the systemd unit.
func TestShippedArguments(t *testing.T) {
	t.Parallel()
	var cmd []string
	if err := json.Unmarshal([]byte(findIn(t, "deploy/docker/Dockerfile", `(?m)^CMD (.*)$`)), &cmd); err != nil {
		t.Fatal(err)
	}
	var pod []string
	for line := range strings.Lines(findIn(t, "deploy/kubernetes/kvwatch.yaml", `(?s)\n +args:\n(.*?)\n +ports:`)) {
		argument, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- "), " #")
		pod = append(pod, argument)
	}
	unit := strings.Fields(findIn(t, "deploy/systemd/kvwatch.service", `(?m)^ExecStart=\S+ (.*)$`))
	for name, args := range map[string][]string{"image": cmd, "manifest": pod, "unit": unit} {
		app := kingpin.New("kvwatch", "")
		command, _ := runCommand(app)
		got, err := app.Parse(args)
		if err != nil || got != command {
			t.Errorf("%s: %v is not what run takes: %q, %v", name, args, got, err)
		}
	}
}

// TestFlagsAreDocumented holds configuration.md to the flags of `kvwatch run`.
func TestFlagsAreDocumented(t *testing.T) {
	t.Parallel()
	doc := string(readFile(t, "deploy/docs/configuration.md"))
	app := kingpin.New("kvwatch", "")
	command, _ := runCommand(app)
	for _, f := range app.GetCommand(command).Model().Flags {
		if !strings.Contains(doc, "| `--"+f.Name+"` |") {
			t.Errorf("deploy/docs/configuration.md says nothing of --%s", f.Name)
		}
	}
}

// readFile reads a file that is named from the module's folder.
func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// findIn returns what the pattern's group holds in the file.
func findIn(t *testing.T, name, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindSubmatch(readFile(t, name))
	if m == nil {
		t.Fatalf("nothing in %s matches %s", name, pattern)
	}
	return string(m[1])
}
