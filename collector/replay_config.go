package collector

import (
	"errors"
	"math"
)

// RecordingConfig is one entry of a scrape configuration's `recordings`.
type RecordingConfig struct {
	// Path is a recording: a directory, or a .tar.zst or .tar.gz archive of one.
	Path string `yaml:"path"`
	// Speed is how many recorded seconds pass in one: 1 is real time, 0 is as
	// fast as it goes.
	Speed float64 `yaml:"speed"`
}

// UnmarshalYAML sets the default speed, decodes strictly and checks.
func (r *RecordingConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type plain RecordingConfig
	*r = RecordingConfig{Speed: 1}
	at, err := decode(unmarshal, (*plain)(r), func() any { return new(plain) })
	if err != nil {
		return at.explain(err, "scrape_configs: recordings")
	}
	return at.list(r.problems(), "scrape_configs: recordings")
}

func (r *RecordingConfig) problems() []problem {
	var ps []problem
	if r.Path == "" {
		ps = append(ps, problem{"path", "is missing: name a directory or an archive (.tar.zst, .tar.gz)"})
	}
	if r.Speed < 0 || math.IsNaN(r.Speed) || math.IsInf(r.Speed, 0) {
		ps = append(ps, problem{"speed", "must be 0 (as fast as it goes), 1 (real time) or any number above"})
	}
	return ps
}

// recordingProblems lists what is wrong with an entry that plays recordings,
// or that should not.
func (c *ScrapeConfig) recordingProblems() []problem {
	if c.Source != SourceRecording {
		if len(c.Recordings) > 0 {
			return []problem{{"recordings", "needs source: recording beside it"}}
		}
		return nil
	}
	var ps []problem
	if len(c.Recordings) == 0 {
		ps = append(ps, problem{"source", "is recording, but recordings is empty: name one, as in recordings: [{path: incident.tar.zst}]"})
	}
	if len(c.StaticConfigs) > 0 || len(c.discoverers()) > 0 || len(c.RelabelConfigs) > 0 {
		ps = append(ps, problem{"source", "is recording: its targets are those of targets.yml in the recording, so static_configs, discovery and relabel_configs belong into an entry of their own"})
	}
	for i := range c.Recordings {
		ps = append(ps, c.Recordings[i].problems()...)
	}
	return ps
}

// errNotOnReload is a recording that only a start can play.
var errNotOnReload = errors.New("has speed 0, which is played at the start only, before anything newer is stored: start kvwatch again, or give it a speed")
