package alerting

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	amlabels "github.com/prometheus/alertmanager/pkg/labels"
)

// silencesName is the file of the silences below Options.Dir.
const silencesName = "silences.json"

// silenceKept is how long a silence that ended is still listed, as in Alertmanager.
const silenceKept = 120 * time.Hour

// mostSilences bounds the silences that are kept, so that a script that runs
// wild cannot fill the disk.
const mostSilences = 10_000

// SilenceState is pending, active or expired.
type SilenceState string

// The states of a silence.
const (
	SilencePending SilenceState = "pending"
	SilenceActive  SilenceState = "active"
	SilenceExpired SilenceState = "expired"
)

// ErrNoSilence is returned for an ID that no silence has.
var ErrNoSilence = errors.New("there is no silence with this ID")

// Silence keeps alerts from being told for a while, in the shape of
// Alertmanager's API.
type Silence struct {
	ID        string           `json:"id"`
	Status    SilenceStatus    `json:"status"`
	UpdatedAt time.Time        `json:"updatedAt"`
	Matchers  []SilenceMatcher `json:"matchers"`
	StartsAt  time.Time        `json:"startsAt"`
	EndsAt    time.Time        `json:"endsAt"`
	// CreatedBy is who silenced, Comment why.
	CreatedBy string `json:"createdBy"`
	Comment   string `json:"comment"`

	matchers amlabels.Matchers
}

// SilenceStatus says where a silence stands.
type SilenceStatus struct {
	State SilenceState `json:"state"`
}

// SilenceMatcher is one condition on a label; all of a silence must hold.
type SilenceMatcher struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	IsRegex bool   `json:"isRegex"`
	// IsEqual is false for != and !~; left out, it is true.
	IsEqual *bool `json:"isEqual,omitempty"`
}

// ParseSilenceMatcher reads `pool=chat`, `instance=~"vllm-.*"`.
func ParseSilenceMatcher(text string) (SilenceMatcher, error) {
	m, err := amlabels.ParseMatcher(text)
	if err != nil {
		return SilenceMatcher{}, fmt.Errorf("%q is no matcher: %w; write label=value, with =, !=, =~ or !~", text, err)
	}
	equal := m.Type == amlabels.MatchEqual || m.Type == amlabels.MatchRegexp
	return SilenceMatcher{
		Name: m.Name, Value: m.Value, IsEqual: &equal,
		IsRegex: m.Type == amlabels.MatchRegexp || m.Type == amlabels.MatchNotRegexp,
	}, nil
}

// String writes the matcher as it is parsed.
func (m SilenceMatcher) String() string {
	return fmt.Sprintf("%s%s%q", m.Name, m.kind(), m.Value)
}

func (m SilenceMatcher) kind() amlabels.MatchType {
	switch equal := m.IsEqual == nil || *m.IsEqual; {
	case equal && m.IsRegex:
		return amlabels.MatchRegexp
	case equal:
		return amlabels.MatchEqual
	case m.IsRegex:
		return amlabels.MatchNotRegexp
	default:
		return amlabels.MatchNotEqual
	}
}

// compile checks the silence and prepares its matchers.
func (s *Silence) compile() error {
	s.matchers = nil
	some := false
	for _, m := range s.Matchers {
		if !labelName.MatchString(m.Name) {
			return fmt.Errorf("a matcher's name is %q, which is no label name", m.Name)
		}
		compiled, err := amlabels.NewMatcher(m.kind(), m.Name, m.Value)
		if err != nil {
			return fmt.Errorf("the matcher of %s: %w", m.Name, err)
		}
		some = some || !compiled.Matches("")
		s.matchers = append(s.matchers, compiled)
	}
	switch {
	case !some:
		return errors.New("a silence needs a matcher that is about a label with a value; else it would silence everything")
	case s.StartsAt.IsZero() || s.EndsAt.IsZero():
		return errors.New("a silence needs startsAt and endsAt")
	case s.EndsAt.Before(s.StartsAt):
		return errors.New("endsAt is before startsAt")
	case strings.TrimSpace(s.CreatedBy) == "":
		return errors.New("createdBy is empty: say who silences")
	case strings.TrimSpace(s.Comment) == "":
		return errors.New("comment is empty: say why it is silenced")
	}
	return nil
}

// state says where the silence stands at now.
func (s Silence) state(now time.Time) SilenceState {
	switch {
	case !now.Before(s.EndsAt):
		return SilenceExpired
	case now.Before(s.StartsAt):
		return SilencePending
	default:
		return SilenceActive
	}
}

// covers says whether the silence is about alerts with these labels.
func (s Silence) covers(lbls map[string]string) bool {
	return !slices.ContainsFunc(s.matchers, func(m *amlabels.Matcher) bool { return !m.Matches(lbls[m.Name]) })
}

// at returns the silence as it is shown at now.
func (s Silence) at(now time.Time) Silence {
	s.Status.State = s.state(now)
	return s
}

// silences keeps the silences and the file that outlives the daemon. A change
// counts once it is on disk.
type silences struct {
	dir string // empty: in memory only

	// changing lets one change happen at a time. It is held over a write.
	changing sync.Mutex
	// mu protects list, whose silences are replaced and never changed.
	mu   sync.Mutex
	list map[string]Silence
}

// openSilences reads the silences in dir.
func openSilences(dir string) (*silences, error) {
	s := &silences{dir: dir, list: map[string]Silence{}}
	if dir == "" {
		return s, nil
	}
	name := filepath.Join(dir, silencesName)
	raw, err := os.ReadFile(name) //nolint:gosec // below the storage path
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("silences: %w", err)
	}
	var kept []Silence
	if err := json.Unmarshal(raw, &kept); err != nil {
		return nil, fmt.Errorf("silences: %s: %w; mend it, or move it away to start without silences", name, err)
	}
	for _, sil := range kept {
		if err := sil.compile(); err != nil {
			return nil, fmt.Errorf("silences: %s: silence %s: %w; mend it, or move it away to start without silences", name, sil.ID, err)
		}
		s.list[sil.ID] = sil
	}
	return s, nil
}

// set makes a silence, or changes the one with its ID, and returns the ID. As in
// Alertmanager, one whose meaning changes is ended and made anew under another ID.
func (s *silences) set(sil Silence, now time.Time) (string, error) {
	if sil.StartsAt.IsZero() || sil.StartsAt.Before(now) && sil.ID == "" {
		sil.StartsAt = now
	}
	if err := sil.compile(); err != nil {
		return "", err
	}
	if !sil.EndsAt.After(now) {
		return "", errors.New("endsAt has passed already")
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	list := s.snapshot()
	if old, ok := list[sil.ID]; ok {
		if !sil.continues(old, now) {
			if old.state(now) != SilenceExpired {
				list[old.ID] = old.expired(now)
			}
			sil.ID = ""
		}
	} else if sil.ID != "" {
		return "", ErrNoSilence
	}
	if sil.ID == "" {
		sil.ID = newID()
		if sil.StartsAt.Before(now) {
			sil.StartsAt = now
		}
	}
	sil.UpdatedAt, sil.Status = now, SilenceStatus{}
	list[sil.ID] = sil
	return sil.ID, s.replace(list, now)
}

// continues says whether sil may take the place of old under the same ID.
func (s Silence) continues(old Silence, now time.Time) bool {
	same := slices.EqualFunc(s.Matchers, old.Matchers, func(a, b SilenceMatcher) bool { return a.String() == b.String() })
	switch old.state(now) {
	case SilenceActive:
		return same && s.StartsAt.Equal(old.StartsAt)
	case SilencePending:
		return same && !s.StartsAt.Before(now)
	default:
		return false
	}
}

// expired returns the silence as one that ends now.
func (s Silence) expired(now time.Time) Silence {
	s.StartsAt, s.EndsAt, s.UpdatedAt = earlier(s.StartsAt, now), now, now
	return s
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// expire ends a silence now.
func (s *silences) expire(id string, now time.Time) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	list := s.snapshot()
	old, ok := list[id]
	switch {
	case !ok:
		return ErrNoSilence
	case old.state(now) == SilenceExpired:
		return errors.New("the silence has ended already")
	}
	list[id] = old.expired(now)
	return s.replace(list, now)
}

// snapshot returns a copy of the list.
func (s *silences) snapshot() map[string]Silence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.list)
}

// replace writes the list and then takes it. The caller holds changing.
func (s *silences) replace(list map[string]Silence, now time.Time) error {
	maps.DeleteFunc(list, func(_ string, sil Silence) bool { return now.Sub(sil.EndsAt) > silenceKept })
	if len(list) > mostSilences {
		return fmt.Errorf("there are %d silences already: expire some, or silence more with one matcher", mostSilences)
	}
	if s.dir != "" {
		if err := s.write(list); err != nil {
			return fmt.Errorf("the silence could not be kept and is not in effect: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = list
	return nil
}

// write replaces the file in one step, so that a crash leaves the old or the new one whole.
func (s *silences) write(list map[string]Silence) error {
	kept := slices.SortedFunc(maps.Values(list), func(a, b Silence) int { return strings.Compare(a.ID, b.ID) })
	raw, err := json.MarshalIndent(kept, "", " ")
	if err != nil {
		return err
	}
	return replaceFile(s.dir, silencesName, append(raw, '\n'))
}

// replaceFile writes a file of dir as a whole: after a crash it is the old one or
// the new one.
func replaceFile(dir, base string, raw []byte) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	name := filepath.Join(dir, base)
	f, err := openSync(name + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return err
	}
	return syncDir(dir)
}

// get returns one silence.
func (s *silences) get(id string, now time.Time) (Silence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sil, ok := s.list[id]
	if !ok {
		return Silence{}, ErrNoSilence
	}
	return sil.at(now), nil
}

// all returns the silences: active, pending, expired, and within that the next to end first.
func (s *silences) all(now time.Time) []Silence {
	out := []Silence{}
	for _, sil := range s.snapshot() {
		out = append(out, sil.at(now))
	}
	order := map[SilenceState]int{SilenceActive: 0, SilencePending: 1, SilenceExpired: 2}
	slices.SortFunc(out, func(a, b Silence) int {
		return cmp.Or(cmp.Compare(order[a.Status.State], order[b.Status.State]), a.EndsAt.Compare(b.EndsAt), strings.Compare(a.ID, b.ID))
	})
	return out
}

// active returns the silences that hold at now, the last to end first.
func (s *silences) active(now time.Time) []Silence {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Silence
	for _, sil := range s.list {
		if sil.state(now) == SilenceActive {
			out = append(out, sil)
		}
	}
	slices.SortFunc(out, func(a, b Silence) int {
		return cmp.Or(b.EndsAt.Compare(a.EndsAt), strings.Compare(a.ID, b.ID))
	})
	return out
}

// newID returns a random UUID, which is what Alertmanager's clients expect.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
