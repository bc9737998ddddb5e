package rules

import (
	"encoding/json"
	"time"
)

// rest keeps an alert up until the condition of its end held for a while, so
// that a value near a threshold does not end and begin it again and again.
type rest struct {
	// Since is when that condition began to hold, in Unix milliseconds; 0 is
	// that it does not.
	Since int64 `json:"resting_since,omitempty"`
}

// active says whether the alert holds: one that does not fire, while begins;
// one that fires, until ends held for d.
func (r *rest) active(now, firing time.Time, begins, ends bool, d time.Duration) bool {
	switch {
	case firing.IsZero():
		r.Since = 0
		return begins
	case !ends:
		r.Since = 0
	case r.Since == 0:
		r.Since = now.UnixMilli()
	}
	return r.Since == 0 || now.UnixMilli()-r.Since < d.Milliseconds()
}

// save implements keeper.
func (r *rest) save() (json.RawMessage, error) {
	if r.Since == 0 {
		return nil, nil
	}
	return json.Marshal(r)
}

// load implements keeper.
func (r *rest) load(raw json.RawMessage) error { return json.Unmarshal(raw, r) }
