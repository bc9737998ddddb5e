package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"
)

// PoolConfig is one entry of `pools`: the replicas behind one router that serve
// one model. A key that is left out matches everything.
type PoolConfig struct {
	// Name identifies the pool in series and alerts.
	Name string `yaml:"name"`
	// Jobs are the scrape jobs that the pool's engines belong to.
	Jobs []string `yaml:"jobs,omitempty"`
	// ModelName is the model_name label of the pool's engines.
	ModelName string `yaml:"model_name,omitempty"`
	// GatewayModels are the names by which the gateway's clients ask for the model.
	GatewayModels []string `yaml:"gateway_models,omitempty"`
	// ConfigJSON is the path of the model's config.json.
	ConfigJSON string `yaml:"config_json,omitempty"`
	// MaxNumSeqs is the engines' --max-num-seqs; 0 is unknown.
	MaxNumSeqs int `yaml:"max_num_seqs,omitempty"`
	// TurnGap separates the calls of one turn from the next turn; 0 is unknown.
	TurnGap model.Duration `yaml:"turn_gap,omitempty"`
	// SLO are the pool's latency objectives; 0 is none.
	SLO SLOConfig `yaml:"slo,omitempty"`
	// Role is prefill, decode or empty (both).
	Role string `yaml:"role,omitempty"`
}

// SLOConfig holds the latency objectives of a pool.
type SLOConfig struct {
	// TTFTP95 is the objective for the 95th percentile of the time to first token.
	TTFTP95 model.Duration `yaml:"ttft_p95,omitempty"`
	// ITLP95 is the objective for the 95th percentile of the inter-token latency.
	ITLP95 model.Duration `yaml:"itl_p95,omitempty"`
	// TokensPerSecondP10 is the speed that 9 of 10 requests should get at least,
	// in tokens per second; 0 is the floor of InteractivityLow.
	TokensPerSecondP10 float64 `yaml:"tokens_per_second_p10,omitempty"`
}

// UnmarshalYAML decodes strictly and checks the pool.
func (c *PoolConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type pool PoolConfig
	var p pool
	if err := unmarshal(&p); err != nil {
		return err
	}
	*c = PoolConfig(p)
	return c.check()
}

func (c PoolConfig) check() error {
	if c.Name == "" {
		return errors.New("pools: a pool has no name: give each a name of its own")
	}
	if c.MaxNumSeqs < 0 {
		return fmt.Errorf("pools: %s: max_num_seqs is %d: leave it out if it is unknown", c.Name, c.MaxNumSeqs)
	}
	if !(c.SLO.TokensPerSecondP10 >= 0) || c.SLO.TTFTP95 < 0 || c.SLO.ITLP95 < 0 {
		return fmt.Errorf("pools: %s: slo: an objective is not above zero: leave out those that are not promised", c.Name)
	}
	switch c.Role {
	case "", "prefill", "decode":
		return nil
	default:
		return fmt.Errorf("pools: %s: role is %q: it is prefill, decode or left out", c.Name, c.Role)
	}
}

// matches says whether the pool claims an engine of that job and model.
func (c PoolConfig) matches(job, modelName string) bool {
	return (len(c.Jobs) == 0 || slices.Contains(c.Jobs, job)) && (c.ModelName == "" || c.ModelName == modelName)
}

// covers says whether c claims every engine that other claims.
func (c PoolConfig) covers(other PoolConfig) bool {
	if c.ModelName != "" && c.ModelName != other.ModelName {
		return false
	}
	if len(c.Jobs) == 0 {
		return true
	}
	if len(other.Jobs) == 0 {
		return false
	}
	for _, j := range other.Jobs {
		if !slices.Contains(c.Jobs, j) {
			return false
		}
	}
	return true
}

// checkPools finds what no pool can see alone: names given twice, and pools
// that are sure to claim the same engines. Overlaps that depend on which
// engines exist are found when an engine appears.
func checkPools(pools []PoolConfig) error {
	var errs []error
	for i, a := range pools {
		if err := a.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		for _, b := range pools[:i] {
			switch {
			case a.Name == b.Name:
				errs = append(errs, fmt.Errorf("pools: the name %q is given twice", a.Name))
			case a.covers(b) || b.covers(a):
				errs = append(errs, fmt.Errorf("pools: %q and %q claim the same engines: tell them apart by jobs or model_name", b.Name, a.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// scaled is d times the rule's time_scale.
func scaled(d time.Duration, scale float64) time.Duration {
	return time.Duration(float64(d) * scale)
}
