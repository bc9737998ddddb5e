//go:build !kubernetes

package collector

import (
	"log/slog"

	"github.com/prometheus/prometheus/discovery"
)

// HasKubernetes says whether this build can find targets by asking Kubernetes.
const HasKubernetes = false

// KubernetesSDConfigs takes blocks of any kind, so that what is told about them
// is not an unknown key but that this build cannot use them.
type KubernetesSDConfigs []any

// LogKubernetes does nothing: there is no client that would log.
func LogKubernetes(*slog.Logger) {}

// problems says what is missing and which build has it.
func (ks KubernetesSDConfigs) problems() []problem {
	if len(ks) == 0 {
		return nil
	}
	return []problem{{"kubernetes_sd_configs", "needs Kubernetes discovery, which this build lacks: run the container image, which has it, or build with -tags kubernetes; dns_sd_configs finds the pods of a headless Service without it"}}
}

// The rest is for blocks that problems has refused.

func (KubernetesSDConfigs) discoverers() discovery.Configs { return nil }

func (KubernetesSDConfigs) setDirectory(string) {}

func (KubernetesSDConfigs) check() error { return nil }
