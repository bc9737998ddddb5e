package alerting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	commoncfg "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
)

// alertmanagersPath is where an Alertmanager takes alerts.
const alertmanagersPath = "/api/v2/alerts"

// The labels that relabel_configs may set, as in Prometheus.
const (
	schemeLabel = "__scheme__"
	pathLabel   = "__alerts_path__"
)

// pushAll finds the Alertmanagers and keeps one goroutine for each until ctx ends.
func (d *Dispatcher) pushAll(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	registry := prometheus.NewRegistry() // the scrapes' own discovery has the names
	metrics, err := discovery.CreateAndRegisterSDMetrics(registry)
	if err != nil {
		return fmt.Errorf("alertmanagers: %w", err)
	}
	manager := discovery.NewManager(ctx, d.logger, registry, metrics, discovery.Name("notify"))
	if manager == nil {
		return errors.New("alertmanagers: discovery could not be set up")
	}
	running.Go(func() { _ = manager.Run() })
	groups := map[string][]*targetgroup.Group{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.alertmanagersChanged:
			if err := manager.ApplyConfig(d.discoveries()); err != nil {
				d.logger.Error("The discovery of Alertmanagers failed", "err", err)
			}
		case found, ok := <-manager.SyncCh():
			if !ok {
				return nil
			}
			groups = found
		}
		d.setPeers(ctx, groups, &running)
	}
}

// discoveries returns the discovery of each entry by its place.
func (d *Dispatcher) discoveries() map[string]discovery.Configs {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]discovery.Configs{}
	for i, c := range d.alertmanagers {
		out[strconv.Itoa(i)] = c.ServiceDiscoveryConfigs
	}
	return out
}

// setPeers starts and stops peers, so that there is one for each Alertmanager.
func (d *Dispatcher) setPeers(ctx context.Context, groups map[string][]*targetgroup.Group, running *sync.WaitGroup) {
	d.mu.Lock()
	configs := d.alertmanagers
	d.mu.Unlock()
	d.pushes.mu.Lock()
	defer d.pushes.mu.Unlock()
	stays := map[string]bool{}
	for i, c := range configs {
		for _, address := range addressesOf(c, groups[strconv.Itoa(i)], d.logger) {
			stays[address] = true
			if old, ok := d.pushes.peers[address]; ok && old.config == c {
				continue
			} else if ok {
				old.stop()
			}
			p, err := d.newPeer(c, address)
			if err != nil {
				d.logger.Error("An Alertmanager cannot be told", "alertmanager", address, "err", err)
				continue
			}
			bounded, stop := context.WithCancel(ctx)
			p.stop = stop
			d.pushes.peers[address] = p
			running.Go(func() { p.run(bounded) })
		}
	}
	for key, p := range d.pushes.peers {
		if !stays[key] {
			p.stop()
			delete(d.pushes.peers, key)
		}
	}
}

func (d *Dispatcher) newPeer(c *AlertmanagerConfig, address string) (*peer, error) {
	client, err := commoncfg.NewClientFromConfig(c.HTTPClientConfig, "alertmanager")
	if err != nil {
		return nil, err
	}
	return &peer{
		d: d, config: c, address: address, client: client, timeout: time.Duration(c.Timeout), relabel: c.AlertRelabelConfigs,
		wake: make(chan struct{}, 1), told: map[string]pushed{},
	}, nil
}

// addressesOf returns where the Alertmanagers of an entry take alerts.
func addressesOf(c *AlertmanagerConfig, groups []*targetgroup.Group, logger *slog.Logger) []string {
	var out []string
	for _, g := range groups {
		for _, target := range g.Targets {
			address, err := addressOf(c, g.Labels.Merge(target))
			if err != nil {
				logger.Error("A discovered Alertmanager has no address", "err", err)
			} else if address != "" {
				out = append(out, address)
			}
		}
	}
	return out
}

// addressOf applies Prometheus's relabelling; "" is an Alertmanager that it drops.
func addressOf(c *AlertmanagerConfig, found model.LabelSet) (string, error) {
	b := labels.NewBuilder(labels.EmptyLabels())
	b.Set(schemeLabel, c.Scheme)
	b.Set(pathLabel, path.Join("/", c.PathPrefix, alertmanagersPath))
	for name, value := range found {
		b.Set(string(name), string(value))
	}
	if !relabel.ProcessBuilder(b, c.RelabelConfigs...) {
		return "", nil
	}
	host := b.Get(model.AddressLabel)
	if host == "" {
		return "", fmt.Errorf("a target has no %s after relabelling", model.AddressLabel)
	}
	address := url.URL{Scheme: b.Get(schemeLabel), Host: host, Path: b.Get(pathLabel)}
	return address.String(), nil
}
