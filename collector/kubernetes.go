//go:build kubernetes

package collector

import (
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	client "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// HasKubernetes says whether this build can find targets by asking Kubernetes.
// It is the build tag kubernetes: the client makes the binary 26 MB larger, and
// who finds engines by other means has no use for it.
const HasKubernetes = true

// KubernetesSDConfigs are Prometheus's own blocks: each asks an API server for
// pods, services, endpoints or nodes and is told when they change.
type KubernetesSDConfigs []*kubernetes.SDConfig

// LogKubernetes has the Kubernetes client, whose logger is global, log as the
// rest does. It is called before the first collector is made.
func LogKubernetes(logger *slog.Logger) {
	klog.SetSlogLogger(slog.New(redactingHandler{logger.Handler()}))
}

// problems refuses empty entries, which would be nil pointers.
func (ks KubernetesSDConfigs) problems() []problem {
	var ps []problem
	for _, sd := range ks {
		if sd == nil {
			ps = append(ps, emptyEntry("kubernetes_sd_configs"))
		}
	}
	return ps
}

// discoverers are what the discovery manager runs.
func (ks KubernetesSDConfigs) discoverers() discovery.Configs {
	var ds discovery.Configs
	for _, sd := range ks {
		ds = append(ds, sd)
	}
	return ds
}

// setDirectory joins relative file names with dir.
func (ks KubernetesSDConfigs) setDirectory(dir string) {
	for _, sd := range ks {
		sd.SetDirectory(dir)
	}
}

// check finds files that cannot be read; nothing is contacted. A configuration
// for use in a cluster is in order elsewhere too: there discovery itself says that
// it finds no cluster.
func (ks KubernetesSDConfigs) check() error {
	for _, sd := range ks {
		metrics := sd.NewDiscovererMetrics(prometheus.NewRegistry(), nil)
		_, err := sd.NewDiscoverer(discovery.DiscovererOptions{Metrics: metrics, Logger: slog.New(slog.DiscardHandler)})
		if err != nil && !errors.Is(err, client.ErrNotInCluster) {
			return err
		}
	}
	return nil
}
