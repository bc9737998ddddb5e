package history

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/storage/remote"
)

const (
	// derivedSeries are the names of what leaves kvwatch: what it derives. The
	// raw series are where they came from.
	derivedSeries = "kvwatch_.+"
	// flushDeadline is how long a stop waits for a receiver.
	flushDeadline = 2 * time.Second
)

// RemoteWriteConfig is one entry of `remote_write`: Prometheus's own block.
type RemoteWriteConfig = promconfig.RemoteWriteConfig

// CheckRemoteWrite checks the entries as a whole.
func CheckRemoteWrite(configs []*RemoteWriteConfig) error {
	var errs []error
	seen := map[string]bool{}
	for i, c := range configs {
		where := fmt.Sprintf("remote_write: entry %d", i+1)
		if c == nil || c.URL == nil || c.URL.URL == nil {
			errs = append(errs, fmt.Errorf("%s: url is missing", where))
			continue
		}
		if c.URL.User != nil {
			errs = append(errs, fmt.Errorf("%s: url holds user info: put it into basic_auth or authorization", where))
		}
		if err := c.Validate(model.UTF8Validation); err != nil {
			errs = append(errs, fmt.Errorf("%s: write_relabel_configs: %w", where, err))
		}
		name := cmp.Or(c.Name, c.URL.String())
		if seen[name] {
			errs = append(errs, fmt.Errorf("%s: is there twice: give each entry a name of its own", where))
		}
		seen[name] = true
	}
	return errors.Join(errs...)
}

// RemoteWriter sends the derived series to other servers by Prometheus's own
// queues. They follow the storage's write-ahead log: a receiver that is slow or
// dead holds nobody up, and memory holds no more than the queues' capacity.
// What was stored before the start is not sent, nor what a receiver missed for
// longer than the write-ahead log reaches back (two to three hours).
type RemoteWriter struct {
	dir        string
	registerer prometheus.Registerer
	logger     *slog.Logger

	mu      sync.Mutex
	storage *remote.WriteStorage // nil until there is a receiver
}

// NewRemoteWriter makes a writer of what the Store in dir stores. The
// registerer takes the queues' metrics (prometheus_remote_storage_...) once
// there is a receiver.
func NewRemoteWriter(dir string, registerer prometheus.Registerer, logger *slog.Logger) *RemoteWriter {
	return &RemoteWriter{dir: dir, registerer: registerer, logger: cmp.Or(logger, slog.New(slog.DiscardHandler))}
}

// Apply takes the receivers and the labels that every series is sent with.
// Queues whose settings did not change go on. Where an entry is wrong nothing changes.
func (w *RemoteWriter) Apply(external labels.Labels, configs []*RemoteWriteConfig) error {
	if err := CheckRemoteWrite(configs); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.storage == nil && len(configs) == 0 {
		return nil
	}
	all := &promconfig.Config{GlobalConfig: promconfig.GlobalConfig{ExternalLabels: external}}
	for _, c := range configs {
		// The library stops half way where a client cannot be made.
		if _, err := config.NewClientFromConfig(c.HTTPClientConfig, "remote_write"); err != nil {
			return fmt.Errorf("remote_write: %w", err)
		}
		one := *c
		one.MetadataConfig.Send = false // it is taken from Prometheus's own scrapes
		one.WriteRelabelConfigs = slices.Concat([]*relabel.Config{onlyDerived()}, c.WriteRelabelConfigs)
		all.RemoteWriteConfigs = append(all.RemoteWriteConfigs, &one)
	}
	if w.storage == nil {
		w.storage = remote.NewWriteStorage(w.logger, w.registerer, w.dir, flushDeadline, nil, false)
	}
	if err := w.storage.ApplyConfig(all); err != nil {
		return fmt.Errorf("remote_write: %w", err)
	}
	return nil
}

// onlyDerived keeps the derived series.
func onlyDerived() *relabel.Config {
	return &relabel.Config{
		SourceLabels: model.LabelNames{model.MetricNameLabel}, Separator: ";",
		Regex: relabel.MustNewRegexp(derivedSeries), Replacement: "$1", Action: relabel.Keep,
		NameValidationScheme: model.UTF8Validation,
	}
}

// Notify tells the queues that something was stored; it never waits.
func (w *RemoteWriter) Notify() {
	w.mu.Lock()
	s := w.storage
	w.mu.Unlock()
	if s != nil {
		s.Notify()
	}
}

// Close sends what is queued, for two seconds at most, and ends the queues.
func (w *RemoteWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.storage == nil {
		return nil
	}
	err := w.storage.Close()
	w.storage = nil
	return err
}
