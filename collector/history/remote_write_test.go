package history

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/config"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

func receiver(t *testing.T, address string) *RemoteWriteConfig {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c := promconfig.DefaultRemoteWriteConfig
	c.URL = &config.URL{URL: u}
	return &c
}

func TestCheckRemoteWrite(t *testing.T) {
	t.Parallel()
	named := receiver(t, "http://a/write")
	named.Name = "second"
	for _, tt := range []struct {
		name, want string
		configs    []*RemoteWriteConfig
	}{
		{"none", "", nil},
		{"two to one address", "", []*RemoteWriteConfig{receiver(t, "http://a/write"), named}},
		{"an empty entry", "entry 1: url is missing", []*RemoteWriteConfig{nil}},
		{"a key in the address", "entry 1: url holds user info", []*RemoteWriteConfig{receiver(t, "http://me:hush@a/write")}},
		{"the same twice", "entry 2: is there twice", []*RemoteWriteConfig{receiver(t, "http://a/write"), receiver(t, "http://a/write")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := CheckRemoteWrite(tt.configs)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush")):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestDeadReceiver stores while nobody takes what is sent: what waits in memory
// stays below the queue's capacity.
func TestDeadReceiver(t *testing.T) {
	t.Parallel()
	dir, registry := t.TempDir(), prometheus.NewRegistry()
	w := NewRemoteWriter(dir, registry, nil)
	w.Notify() // before there is a receiver
	store, err := Open(Options{Dir: dir, Written: w})
	if err != nil {
		t.Fatal(err)
	}
	dead := receiver(t, "http://127.0.0.1:1/write")
	dead.QueueConfig.Capacity, dead.QueueConfig.MaxSamplesPerSend, dead.QueueConfig.MaxShards = 100, 20, 1
	if err := w.Apply(labels.FromStrings("cluster", "madrid"), []*RemoteWriteConfig{dead}); err != nil {
		t.Fatal(err)
	}
	const series, rounds = 100, 200
	var samples []collector.Sample
	for i := range series {
		samples = append(samples, collector.Sample{
			Series: &collector.Series{Labels: labels.FromStrings("__name__", "kvwatch_test", "i", string(rune('a'+i)))}, Value: 1,
		})
	}
	begin := time.Now()
	for i := range rounds {
		if err := store.Append(t.Context(), begin.Add(time.Duration(i)*time.Second), samples, nil); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	pending := -1.0
	for _, f := range families {
		if f.GetName() == "prometheus_remote_storage_samples_pending" {
			pending = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if pending < 0 || pending > 2*(100+20) {
		t.Errorf("%g of %d samples wait in memory, want at most the queue's capacity", pending, series*rounds)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// TestRemoteWriteRefusesWhole holds that an entry that cannot be used changes nothing.
func TestRemoteWriteRefusesWhole(t *testing.T) {
	t.Parallel()
	w := NewRemoteWriter(t.TempDir(), nil, nil)
	broken := receiver(t, "https://127.0.0.1:1/write")
	broken.HTTPClientConfig.TLSConfig.CAFile = "nowhere.pem"
	err := w.Apply(labels.EmptyLabels(), []*RemoteWriteConfig{receiver(t, "http://127.0.0.1:1/write"), broken})
	if err == nil || !strings.Contains(err.Error(), "nowhere.pem") || w.storage != nil {
		t.Errorf("error %v, queues %v", err, w.storage)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
