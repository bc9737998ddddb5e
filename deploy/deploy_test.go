// Package deploy holds what runs kvwatch elsewhere: its configuration, the image,
// the systemd unit, the manifests and the rules that watch kvwatch itself. It has
// no code, only tests that hold these files to each other.
package deploy

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// The structs below are what the manifest uses of Kubernetes' API, no more: a key
// that is misspelt, or stands in the wrong place, does not decode.
type (
	meta struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	}
	configMap struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   meta              `yaml:"metadata"`
		Data       map[string]string `yaml:"data"`
	}
	serviceAccount struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   meta   `yaml:"metadata"`
	}
	role struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   meta   `yaml:"metadata"`
		Rules      []struct {
			APIGroups []string `yaml:"apiGroups"`
			Resources []string `yaml:"resources"`
			Verbs     []string `yaml:"verbs"`
		} `yaml:"rules"`
	}
	roleBinding struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   meta              `yaml:"metadata"`
		RoleRef    map[string]string `yaml:"roleRef"`
		Subjects   []struct {
			Kind      string `yaml:"kind"`
			Name      string `yaml:"name"`
			Namespace string `yaml:"namespace"`
		} `yaml:"subjects"`
	}
	service struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   meta   `yaml:"metadata"`
		Spec       struct {
			Selector map[string]string `yaml:"selector"`
			Ports    []struct {
				Name       string `yaml:"name"`
				Port       int    `yaml:"port"`
				TargetPort string `yaml:"targetPort"`
			} `yaml:"ports"`
		} `yaml:"spec"`
	}
	statefulSet struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   meta   `yaml:"metadata"`
		Spec       struct {
			Replicas    int    `yaml:"replicas"`
			ServiceName string `yaml:"serviceName"`
			Selector    struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			} `yaml:"selector"`
			Template struct {
				Metadata meta `yaml:"metadata"`
				Spec     pod  `yaml:"spec"`
			} `yaml:"template"`
			VolumeClaimTemplates []volumeClaim `yaml:"volumeClaimTemplates"`
		} `yaml:"spec"`
	}
	pod struct {
		ServiceAccountName            string `yaml:"serviceAccountName"`
		TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
		SecurityContext               struct {
			RunAsNonRoot        bool              `yaml:"runAsNonRoot"`
			RunAsUser           int               `yaml:"runAsUser"`
			RunAsGroup          int               `yaml:"runAsGroup"`
			FSGroup             int               `yaml:"fsGroup"`
			FSGroupChangePolicy string            `yaml:"fsGroupChangePolicy"`
			SeccompProfile      map[string]string `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Containers []container `yaml:"containers"`
		Volumes    []struct {
			Name      string `yaml:"name"`
			Projected struct {
				DefaultMode int `yaml:"defaultMode"`
				Sources     []struct {
					ConfigMap *struct {
						Name string `yaml:"name"`
					} `yaml:"configMap"`
					Secret *struct {
						Name  string `yaml:"name"`
						Items []struct {
							Key  string `yaml:"key"`
							Path string `yaml:"path"`
						} `yaml:"items"`
					} `yaml:"secret"`
				} `yaml:"sources"`
			} `yaml:"projected"`
		} `yaml:"volumes"`
	}
	container struct {
		Name  string   `yaml:"name"`
		Image string   `yaml:"image"`
		Args  []string `yaml:"args"`
		Ports []struct {
			Name          string `yaml:"name"`
			ContainerPort int    `yaml:"containerPort"`
		} `yaml:"ports"`
		StartupProbe   probe `yaml:"startupProbe"`
		LivenessProbe  probe `yaml:"livenessProbe"`
		ReadinessProbe probe `yaml:"readinessProbe"`
		Resources      struct {
			Requests map[string]string `yaml:"requests"`
			Limits   map[string]string `yaml:"limits"`
		} `yaml:"resources"`
		SecurityContext struct {
			AllowPrivilegeEscalation *bool               `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool                `yaml:"readOnlyRootFilesystem"`
			Capabilities             map[string][]string `yaml:"capabilities"`
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string `yaml:"name"`
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	probe struct {
		HTTPGet struct {
			Path string `yaml:"path"`
			Port string `yaml:"port"`
		} `yaml:"httpGet"`
		PeriodSeconds    int `yaml:"periodSeconds"`
		FailureThreshold int `yaml:"failureThreshold"`
	}
	volumeClaim struct {
		Metadata meta `yaml:"metadata"`
		Spec     struct {
			AccessModes []string `yaml:"accessModes"`
			Resources   struct {
				Requests map[string]string `yaml:"requests"`
			} `yaml:"resources"`
		} `yaml:"spec"`
	}
)

// manifest is the objects of kubernetes/kvwatch.yaml.
type manifest struct {
	config  configMap
	account serviceAccount
	role    role
	binding roleBinding
	svc     service
	set     statefulSet
}

func readManifest(t *testing.T) manifest {
	t.Helper()
	var m manifest
	d := yaml.NewDecoder(bytes.NewReader(read(t, "kubernetes/kvwatch.yaml")))
	d.KnownFields(true)
	for _, object := range []any{&m.config, &m.account, &m.role, &m.binding, &m.svc, &m.set} {
		if err := d.Decode(object); err != nil {
			t.Fatal(err)
		}
	}
	var more any
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		t.Fatalf("an object that this test does not know: %v, %v", more, err)
	}
	return m
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// find returns what the pattern's group holds in the text.
func find(t *testing.T, text []byte, pattern string) string {
	t.Helper()
	m := regexp.MustCompile("(?m)" + pattern).FindSubmatch(text)
	if m == nil {
		t.Fatalf("nothing matches %s", pattern)
	}
	return string(m[1])
}

func TestKubernetesObjectsFitTogether(t *testing.T) {
	t.Parallel()
	m := readManifest(t)
	for _, got := range []string{
		m.config.APIVersion + " " + m.config.Kind, m.svc.APIVersion + " " + m.svc.Kind, m.set.APIVersion + " " + m.set.Kind,
		m.account.APIVersion + " " + m.account.Kind, m.role.APIVersion + " " + m.role.Kind, m.binding.APIVersion + " " + m.binding.Kind,
	} {
		if !slices.Contains([]string{
			"v1 ConfigMap", "v1 Service", "apps/v1 StatefulSet",
			"v1 ServiceAccount", "rbac.authorization.k8s.io/v1 Role", "rbac.authorization.k8s.io/v1 RoleBinding",
		}, got) {
			t.Errorf("%s is no kind of object that belongs here", got)
		}
	}
	spec := m.set.Spec
	if spec.Replicas != 1 {
		t.Errorf("replicas is %d: a second one would tell everything twice", spec.Replicas)
	}
	if spec.ServiceName != m.svc.Metadata.Name {
		t.Errorf("serviceName is %q, the service is %q", spec.ServiceName, m.svc.Metadata.Name)
	}
	const name = "app.kubernetes.io/name"
	label := spec.Template.Metadata.Labels[name]
	if label == "" || m.svc.Spec.Selector[name] != label || spec.Selector.MatchLabels[name] != label {
		t.Errorf("the pods' label %q is not what the service and the set select", label)
	}
	var volumes []string
	for _, v := range spec.Template.Spec.Volumes {
		volumes = append(volumes, v.Name)
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil && s.ConfigMap.Name != m.config.Metadata.Name {
				t.Errorf("the volume takes configMap %q, it is called %q", s.ConfigMap.Name, m.config.Metadata.Name)
			}
			if s.Secret == nil {
				continue
			}
			for _, item := range s.Secret.Items {
				if !strings.Contains(m.config.Data["kvwatch.yml"], item.Path) {
					t.Errorf("the configuration does not use %s", item.Path)
				}
			}
		}
	}
	for _, v := range spec.VolumeClaimTemplates {
		volumes = append(volumes, v.Metadata.Name)
	}
	for _, mount := range spec.Template.Spec.Containers[0].VolumeMounts {
		if !slices.Contains(volumes, mount.Name) {
			t.Errorf("there is no volume %q to mount", mount.Name)
		}
	}
}

func TestKubernetesPodIsConfined(t *testing.T) {
	t.Parallel()
	p := readManifest(t).set.Spec.Template.Spec
	c := p.Containers[0]
	if !p.SecurityContext.RunAsNonRoot || p.SecurityContext.RunAsUser == 0 {
		t.Error("it runs as root")
	}
	if !c.SecurityContext.ReadOnlyRootFilesystem || c.SecurityContext.AllowPrivilegeEscalation == nil || *c.SecurityContext.AllowPrivilegeEscalation {
		t.Error("its root file system can be written, or it can gain privileges")
	}
	if !slices.Equal(c.SecurityContext.Capabilities["drop"], []string{"ALL"}) {
		t.Error("it keeps capabilities")
	}
}

// TestKubernetesRights holds what the pod may do in the cluster to what its
// discovery asks of the API: to read pods.
func TestKubernetesRights(t *testing.T) {
	t.Parallel()
	m := readManifest(t)
	for _, found := range regexp.MustCompile(`role: (\w+)`).FindAllStringSubmatch(m.config.Data["kvwatch.yml"], -1) {
		if found[1] != "pod" {
			t.Errorf("the configuration asks for %s, and the Role is for pods", found[1])
		}
	}
	if len(m.role.Rules) != 1 {
		t.Fatalf("%d rules, want one", len(m.role.Rules))
	}
	rule := m.role.Rules[0]
	if !slices.Equal(rule.APIGroups, []string{""}) || !slices.Equal(rule.Resources, []string{"pods"}) || !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
		t.Errorf("it may %v", rule)
	}
	ref := m.binding.RoleRef
	if ref["apiGroup"] != "rbac.authorization.k8s.io" || ref["kind"] != m.role.Kind || ref["name"] != m.role.Metadata.Name {
		t.Errorf("the binding is to %v, not to the role", ref)
	}
	if len(m.binding.Subjects) != 1 {
		t.Fatalf("the binding is for %d subjects, want one", len(m.binding.Subjects))
	}
	// A binding cannot leave its subject's namespace to the command, which the file begins with.
	namespace := find(t, read(t, "kubernetes/kvwatch.yaml"), `kubectl apply -n (\S+) `)
	who := m.binding.Subjects[0]
	if who.Kind != m.account.Kind || who.Name != m.account.Metadata.Name || who.Namespace != namespace {
		t.Errorf("the binding is for %v, not for the account in namespace %s", who, namespace)
	}
	if name := m.set.Spec.Template.Spec.ServiceAccountName; name != m.account.Metadata.Name {
		t.Errorf("the pod runs as %q, the account is %q", name, m.account.Metadata.Name)
	}
}

// TestImageAndManifestAgree holds the manifest to the Dockerfile: user, port,
// arguments and the storage volume.
func TestImageAndManifestAgree(t *testing.T) {
	t.Parallel()
	dockerfile := read(t, "docker/Dockerfile")
	m := readManifest(t)
	p := m.set.Spec.Template.Spec
	c := p.Containers[0]

	if user := find(t, dockerfile, `^USER (\d+:\d+)$`); user != strconv.Itoa(p.SecurityContext.RunAsUser)+":"+strconv.Itoa(p.SecurityContext.RunAsGroup) {
		t.Errorf("the image runs as %s, the pod as %d:%d", user, p.SecurityContext.RunAsUser, p.SecurityContext.RunAsGroup)
	}
	port := find(t, dockerfile, `^EXPOSE (\d+)$`)
	if port != strconv.Itoa(c.Ports[0].ContainerPort) || port != strconv.Itoa(m.svc.Spec.Ports[0].Port) {
		t.Errorf("the image listens on %s, the pod on %d, the service on %d", port, c.Ports[0].ContainerPort, m.svc.Spec.Ports[0].Port)
	}
	for _, from := range []string{m.svc.Spec.Ports[0].TargetPort, c.StartupProbe.HTTPGet.Port, c.LivenessProbe.HTTPGet.Port, c.ReadinessProbe.HTTPGet.Port} {
		if from != c.Ports[0].Name {
			t.Errorf("port %q is not the container's %q", from, c.Ports[0].Name)
		}
	}
	if c.LivenessProbe.HTTPGet.Path != "/-/healthy" || c.ReadinessProbe.HTTPGet.Path != "/-/ready" {
		t.Errorf("the probes ask %s and %s", c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path)
	}
	if name, _, _ := strings.Cut(c.Image, ":"); name != "kvwatch" {
		t.Errorf("the pod runs the image %s", c.Image)
	}
	var cmd []string
	if err := yaml.Unmarshal([]byte(find(t, dockerfile, `^CMD (\[.*\])$`)), &cmd); err != nil {
		t.Fatal(err)
	}
	for _, arg := range cmd {
		if !slices.Contains(c.Args, arg) {
			t.Errorf("the image's default argument %s is not among the pod's %v", arg, c.Args)
		}
	}
	storage := find(t, dockerfile, `^VOLUME (\S+)$`)
	if !slices.Contains(cmd, "--storage.path="+storage) {
		t.Errorf("history is not kept in the volume %s: %v", storage, cmd)
	}
}

// TestImageCompilesWithOurGo holds the Dockerfile's compiler to go.mod's.
func TestImageCompilesWithOurGo(t *testing.T) {
	t.Parallel()
	want := find(t, read(t, "../go.mod"), `^go (\d+\.\d+)`)
	if got := find(t, read(t, "docker/Dockerfile"), `/golang:(\S+) AS build$`); got != want {
		t.Errorf("the image is compiled with Go %s, go.mod says %s", got, want)
	}
	if got := find(t, read(t, "tools/go.mod"), `^go (\d+\.\d+)`); got != want {
		t.Errorf("the tools are compiled with Go %s, go.mod says %s", got, want)
	}
}

// TestImageHasKubernetes holds what goes into the image to the build tag that the
// manifest's configuration needs.
func TestImageHasKubernetes(t *testing.T) {
	t.Parallel()
	find(t, read(t, "docker/layout"), `^(TAGS=kubernetes) deploy/ci/build `)
	find(t, read(t, "ci/build"), `-tags "(timetzdata\$\{TAGS:\+,\$TAGS\})"`)
}

// TestSystemdUnitAgrees holds the unit to the same folders.
func TestSystemdUnitAgrees(t *testing.T) {
	t.Parallel()
	unit := read(t, "systemd/kvwatch.service")
	if got, want := find(t, unit, `^ExecStart=(.*)$`), "/usr/local/bin/kvwatch run --config.file=%E/kvwatch/kvwatch.yml --storage.path=%S/kvwatch"; got != want {
		t.Errorf("ExecStart is %q, want %q", got, want)
	}
	if got := find(t, unit, `^StateDirectory=(.*)$`); got != "kvwatch" {
		t.Errorf("StateDirectory is %q, not the folder that history is kept in", got)
	}
	config := string(read(t, "kvwatch.yml"))
	for _, m := range regexp.MustCompile(`(?m)^LoadCredential=([^:]+):`).FindAllSubmatch(unit, -1) {
		if secret := "secrets/" + string(m[1]); !strings.Contains(config, secret) {
			t.Errorf("kvwatch.yml does not use %s", secret)
		}
	}
}

// TestSelfMonitoringRules has Prometheus itself read the rules.
func TestSelfMonitoringRules(t *testing.T) {
	t.Parallel()
	groups, errs := rulefmt.Parse(read(t, "prometheus/rules.yml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s lacks its severity, summary or description", r.Alert)
			}
		}
	}
}

// TestSelfMonitoringRulesFire has promtool play what the rules are for.
func TestSelfMonitoringRulesFire(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", "prometheus/rules.test.yml").CombinedOutput()
	if err != nil {
		t.Errorf("promtool, which deploy/ci/setup installs: %v\n%s", err, out)
	}
}

// TestScrapeJob holds the scrape job's name and port to the rules and the image.
func TestScrapeJob(t *testing.T) {
	t.Parallel()
	var conf struct {
		ScrapeConfigs []struct {
			JobName       string `yaml:"job_name"`
			StaticConfigs []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	d := yaml.NewDecoder(bytes.NewReader(read(t, "prometheus/scrape.yml")))
	d.KnownFields(true)
	if err := d.Decode(&conf); err != nil {
		t.Fatal(err)
	}
	job := conf.ScrapeConfigs[0]
	if !strings.Contains(string(read(t, "prometheus/rules.yml")), `up{job="`+job.JobName+`"}`) {
		t.Errorf("the rules do not watch the job %s", job.JobName)
	}
	port := find(t, read(t, "docker/Dockerfile"), `^EXPOSE (\d+)$`)
	if target := job.StaticConfigs[0].Targets[0]; !strings.HasSuffix(target, ":"+port) {
		t.Errorf("the job reads %s, kvwatch listens on %s", target, port)
	}
}

// TestEveryKeyIsDocumented holds configuration.md to the keys that the packages decode.
func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	doc := string(read(t, "docs/configuration.md"))
	key := regexp.MustCompile("`(?:[^`]* )?yaml:\"([a-z0-9_]+)")
	keys := 0
	for _, folder := range []string{"cmd/kvwatch", "collector", "rules", "alerting"} {
		files, err := filepath.Glob("../" + folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			// recording.go reads a recording's own file, which is no part of the configuration.
			if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "recording.go" {
				continue
			}
			for _, m := range key.FindAllSubmatch(read(t, file), -1) {
				keys++
				if !strings.Contains(doc, "`"+string(m[1])+"`") {
					t.Errorf("docs/configuration.md says nothing of %s (%s)", m[1], file)
				}
			}
		}
	}
	if keys < 40 {
		t.Errorf("only %d keys were found: this test looks in the wrong place", keys)
	}
}
