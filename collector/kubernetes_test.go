//go:build kubernetes

package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
)

// apiServer speaks the part of Kubernetes's API that discovery uses, lists and
// watches, over HTTP. The objects are in the tracker of client-go's fake.
type apiServer struct {
	t       *testing.T
	tracker clienttesting.ObjectTracker
	server  *httptest.Server
}

var (
	podResource     = corev1.SchemeGroupVersion.WithResource("pods")
	serviceResource = corev1.SchemeGroupVersion.WithResource("services")
	sliceResource   = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	resourceKinds   = map[schema.GroupVersionResource]string{podResource: "Pod", serviceResource: "Service", sliceResource: "EndpointSlice"}
)

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{t: t, tracker: clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/{version}/namespaces/{namespace}/{resource}", a.answer)
	mux.HandleFunc("GET /apis/{group}/{version}/namespaces/{namespace}/{resource}", a.answer)
	a.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		a.server.CloseClientConnections()
		a.server.Close()
	})
	return a
}

// answer lists the objects of a namespace, or streams what happens to them.
func (a *apiServer) answer(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+secretKey {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	gvr := schema.GroupVersionResource{Group: r.PathValue("group"), Version: r.PathValue("version"), Resource: r.PathValue("resource")}
	options, namespace := metav1.ListOptions{}, r.PathValue("namespace")
	if err := scheme.ParameterCodec.DecodeParameters(r.URL.Query(), corev1.SchemeGroupVersion, &options); err != nil {
		a.t.Error(err)
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		a.t.Error(err)
	}
	list, err := a.tracker.List(gvr, gvr.GroupVersion().WithKind(resourceKinds[gvr]), namespace)
	if err != nil {
		a.t.Errorf("%s: %v", r.URL, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if !options.Watch {
		a.list(w, list, selector)
		return
	}
	s := stream{t: a.t, w: w, selector: selector}
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		options.ResourceVersion = s.begin(list, gvr)
	}
	watcher, err := a.tracker.Watch(gvr, namespace, options)
	if err != nil {
		a.t.Error(err)
		return
	}
	defer watcher.Stop()
	s.flush()
	for {
		select {
		case e := <-watcher.ResultChan():
			s.send(e.Type, e.Object)
		case <-r.Context().Done():
			return
		}
	}
}

func (a *apiServer) list(w http.ResponseWriter, list runtime.Object, selector labels.Selector) {
	var selected []runtime.Object
	if err := meta.EachListItem(list, func(o runtime.Object) error {
		if matches(a.t, o, selector) {
			selected = append(selected, o)
		}
		return nil
	}); err != nil {
		a.t.Error(err)
	}
	if err := meta.SetList(list, selected); err != nil {
		a.t.Error(err)
	}
	_, _ = w.Write(encode(a.t, list))
}

// put creates the object, or replaces it.
func (a *apiServer) put(gvr schema.GroupVersionResource, o runtime.Object) {
	a.t.Helper()
	m, err := meta.Accessor(o)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := a.tracker.Get(gvr, m.GetNamespace(), m.GetName()); err == nil {
		err = a.tracker.Update(gvr, o, m.GetNamespace())
		if err != nil {
			a.t.Fatal(err)
		}
		return
	}
	if err := a.tracker.Create(gvr, o, m.GetNamespace()); err != nil {
		a.t.Fatal(err)
	}
}

// stream is a watch that somebody reads.
type stream struct {
	t        *testing.T
	w        http.ResponseWriter
	selector labels.Selector
}

// begin sends what is there already and a bookmark behind it, as a server does
// that lists by watching. It returns the version up to which all was sent.
func (s stream) begin(list runtime.Object, gvr schema.GroupVersionResource) string {
	if err := meta.EachListItem(list, func(o runtime.Object) error {
		s.send(watch.Added, o)
		return nil
	}); err != nil {
		s.t.Error(err)
	}
	all, err := meta.ListAccessor(list)
	if err != nil {
		s.t.Error(err)
	}
	bookmark, err := scheme.Scheme.New(gvr.GroupVersion().WithKind(resourceKinds[gvr]))
	if err != nil {
		s.t.Error(err)
	}
	m, err := meta.Accessor(bookmark)
	if err != nil {
		s.t.Error(err)
	}
	m.SetResourceVersion(all.GetResourceVersion())
	m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	s.write(watch.Bookmark, bookmark)
	return all.GetResourceVersion()
}

func (s stream) send(kind watch.EventType, o runtime.Object) {
	if matches(s.t, o, s.selector) {
		s.write(kind, o)
	}
}

func (s stream) write(kind watch.EventType, o runtime.Object) {
	_ = json.NewEncoder(s.w).Encode(metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: encode(s.t, o)}})
	s.flush()
}

func (s stream) flush() { _ = http.NewResponseController(s.w).Flush() }

func matches(t *testing.T, o runtime.Object, selector labels.Selector) bool {
	m, err := meta.Accessor(o)
	if err != nil {
		t.Error(err)
		return false
	}
	return selector.Matches(labels.Set(m.GetLabels()))
}

func encode(t *testing.T, o runtime.Object) []byte {
	text, err := runtime.Encode(scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion), o)
	if err != nil {
		t.Error(err)
	}
	return text
}

// engine is a page on a port of the loopback.
func engine(t *testing.T, running int) (port int32) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(smallPage(running)))
	}))
	t.Cleanup(server.Close)
	n, err := strconv.ParseInt(server.URL[strings.LastIndex(server.URL, ":")+1:], 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

func pod(namespace, name, app string, port int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app, "model": "llama-70b"}},
		Spec: corev1.PodSpec{NodeName: "gpu-7", Containers: []corev1.Container{
			{Name: "vllm", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port}, {Name: "nccl", ContainerPort: 1}}},
		}},
		Status: corev1.PodStatus{PodIP: "127.0.0.1", Phase: corev1.PodRunning},
	}
}

// discovering is a collector that asks the API server while the test runs.
type discovering struct {
	*Collector
	t    *testing.T
	seen *listener
}

// discover runs a collector with one block of kubernetes_sd_configs, which has
// the keys given beside the server's address and token.
func discover(t *testing.T, a *apiServer, block, relabelling string) discovering {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(secretKey), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := decodeFile(fmt.Sprintf(`
global: {scrape_interval: 100ms, scrape_timeout: 100ms}
scrape_configs:
  - job_name: vllm
    kubernetes_sd_configs: [{api_server: %q, authorization: {credentials_file: token}, namespaces: {names: [llm]}, %s}]
    relabel_configs: [%s]
`, a.server.URL, block, relabelling))
	if err != nil {
		t.Fatal(err)
	}
	f.Scrapes[0].SetDirectory(filepath.Dir(token))
	d := discovering{t: t, seen: newListener()}
	if d.Collector, err = New(Options{Global: f.Global, Scrapes: f.Scrapes, Sink: d.seen.sink}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return d
}

// up waits until the target is scraped and its page says so many requests.
func (d discovering) up(labels string, running float64) {
	d.t.Helper()
	name := fmt.Sprintf(`{__name__="vllm:num_requests_running", engine="0", %s}`, labels)
	d.seen.until(d.t, labels+" is scraped", d.Collector, func(r kept) bool {
		return r.State == StateUp && r.values[name] == running
	})
}

// gone waits until the target is none any more.
func (d discovering) gone(instance string) {
	d.t.Helper()
	d.seen.until(d.t, instance+" goes", d.Collector, func(r kept) bool {
		return r.State == StateUnknown && r.Target.Labels.Get(model.InstanceLabel) == instance
	})
}

// only checks that these are all targets.
func (d discovering) only(instances ...string) {
	d.t.Helper()
	var got []string
	for _, target := range d.Targets() {
		got = append(got, target.Instance)
	}
	if strings.Join(got, " ") != strings.Join(instances, " ") {
		d.t.Errorf("targets are %q, want %q", got, instances)
	}
}

// TestKubernetesPods finds pods by a label, keeps one of their ports, names the
// targets after them, and follows as pods come and go.
func TestKubernetesPods(t *testing.T) {
	t.Parallel()
	a := newAPIServer(t)
	a.put(podResource, pod("llm", "vllm-0", "vllm", engine(t, 3)))
	a.put(podResource, pod("llm", "redis-0", "redis", engine(t, 1)))
	a.put(podResource, pod("other", "vllm-9", "vllm", engine(t, 1)))
	waiting := pod("llm", "vllm-1", "vllm", engine(t, 5))
	waiting.Status = corev1.PodStatus{Phase: corev1.PodPending}
	a.put(podResource, waiting)

	d := discover(t, a, `role: pod, selectors: [{role: pod, label: "app=vllm"}]`, `
      {source_labels: [__meta_kubernetes_pod_container_port_name], regex: http, action: keep},
      {source_labels: [__meta_kubernetes_pod_name], target_label: instance},
      {source_labels: [__meta_kubernetes_pod_label_model], target_label: pool},
      {source_labels: [__meta_kubernetes_pod_node_name], target_label: node}`)
	const labels = `instance="vllm-%d", job="vllm", model_name="m", node="gpu-7", pool="llama-70b"`
	d.up(fmt.Sprintf(labels, 0), 3)
	d.only("vllm-0")

	started := waiting.DeepCopy()
	started.Status = corev1.PodStatus{PodIP: "127.0.0.1", Phase: corev1.PodRunning}
	a.put(podResource, started)
	d.up(fmt.Sprintf(labels, 1), 5)
	d.only("vllm-0", "vllm-1")

	if err := a.tracker.Delete(podResource, "llm", "vllm-0"); err != nil {
		t.Fatal(err)
	}
	d.gone("vllm-0")
	d.only("vllm-1")
}

// TestKubernetesEndpointSlices finds what stands behind a service, and lets go
// of an endpoint that is not ready.
func TestKubernetesEndpointSlices(t *testing.T) {
	t.Parallel()
	a := newAPIServer(t)
	a.put(serviceResource, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "vllm", Labels: map[string]string{"tier": "chat"}}})
	name, first, second := "http", engine(t, 3), engine(t, 5)
	slice := func(which string, port int32, ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "llm", Name: which, Labels: map[string]string{discoveryv1.LabelServiceName: "vllm"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
			Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		}
	}
	a.put(sliceResource, slice("vllm-a", first, true))
	a.put(sliceResource, slice("vllm-b", second, true))

	d := discover(t, a, `role: endpointslice`, `
      {source_labels: [__meta_kubernetes_endpointslice_endpoint_conditions_ready], regex: "true", action: keep},
      {source_labels: [__meta_kubernetes_endpointslice_name], target_label: instance},
      {source_labels: [__meta_kubernetes_service_label_tier], target_label: tier}`)
	d.up(`instance="vllm-a", job="vllm", model_name="m", tier="chat"`, 3)
	d.up(`instance="vllm-b", job="vllm", model_name="m", tier="chat"`, 5)
	a.put(sliceResource, slice("vllm-a", first, false))
	d.gone("vllm-a")
	d.only("vllm-b")
}

func TestKubernetesConfig(t *testing.T) {
	t.Parallel()
	job := func(block string) string {
		return "scrape_configs:\n  - job_name: a\n    kubernetes_sd_configs: [" + block + "]\n"
	}
	tests := []struct{ name, config, want string }{
		{"no role", job("{}"), `line 3: scrape_configs job "a": kubernetes_sd_configs is not valid: role missing (one of: pod, service`},
		{"unknown role", job("{role: engine}"), `line 3: scrape_configs job "a": kubernetes_sd_configs is not valid: unknown Kubernetes SD role "engine"`},
		{"unknown key", job("{role: pod, namespace: x}"), `line 3: scrape_configs job "a": unknown key "namespace"`},
		{"empty entry", job("null"), `line 3: scrape_configs job "a": kubernetes_sd_configs has an empty entry`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := decodeFile(tt.config); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant …%s…", err, tt.want)
			}
		})
	}
}

// TestKubernetesFilesAreReadAtStart tells of a file that cannot be read before
// anything runs. That this is no cluster is not the file's fault.
func TestKubernetesFilesAreReadAtStart(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for block, want := range map[string]string{
		"{role: pod}":                           "",
		"{role: pod, kubeconfig_file: nowhere}": `scrape_configs job "a": kubernetes_sd_configs: stat /etc/kvwatch/nowhere: no such file`,
		`{role: pod, api_server: "https://api", tls_config: {ca_file: /nowhere/ca.pem}}`: `scrape_configs job "a": kubernetes_sd_configs: unable to read CA cert`,
	} {
		f, err := decodeFile("scrape_configs: [{job_name: a, kubernetes_sd_configs: [" + block + "]}]")
		if err != nil {
			t.Fatal(err)
		}
		f.Scrapes[0].SetDirectory("/etc/kvwatch")
		_, err = New(Options{Global: f.Global, Scrapes: f.Scrapes, Sink: ignore})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got  %v\nwant …%s…", block, err, want)
		}
	}
}

// TestKubernetesClientLogs has the client's global logger log as ours does.
func TestKubernetesClientLogs(t *testing.T) {
	defer klog.CaptureState().Restore()
	var log bytes.Buffer
	LogKubernetes(slog.New(slog.NewTextHandler(&log, nil)))
	klog.ErrorS(fmt.Errorf("Get %q: refused", "https://me:hush@api:6443/api/v1/pods?token=hush"), "Failed to list")
	got := log.String()
	if !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "https://api:6443/api/v1/pods") || strings.Contains(got, "hush") {
		t.Errorf("logged: %s", got)
	}
}

// TestKubernetesManifest reads what the manifest is configured with; a build
// without Kubernetes refuses it.
func TestKubernetesManifest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/kubernetes/kvwatch.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Data map[string]string `yaml:"data"`
	}
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&manifest); err != nil {
		t.Fatal(err)
	}
	var f testFile
	if err := yaml.Unmarshal([]byte(manifest.Data["kvwatch.yml"]), &f); err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, c := range f.Scrapes {
		blocks += len(c.KubernetesSDConfigs)
	}
	if err := CheckConfig(DefaultGlobalConfig(), f.Scrapes); err != nil || blocks == 0 {
		t.Errorf("%d blocks of kubernetes_sd_configs: %v", blocks, err)
	}
}
