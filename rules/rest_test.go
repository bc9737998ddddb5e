package rules

import (
	"testing"
	"time"
)

func TestRest(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return testStart.Add(time.Duration(minutes) * time.Minute) }
	var r rest
	if r.active(at(0), time.Time{}, false, true, 10*time.Minute) || !r.active(at(1), time.Time{}, true, false, 10*time.Minute) {
		t.Error("what does not fire is active as long as its condition holds")
	}
	fired := at(1)
	for _, x := range []struct {
		minute int
		ends   bool
		want   bool
	}{
		{2, false, true},
		{3, true, true},
		{12, true, true},
		{13, true, false}, // ten minutes
		{14, false, true},
		{15, true, true},
		{20, false, true}, // not for ten minutes on end
		{21, true, true},
		{30, true, true},
		{31, true, false},
	} {
		if got := r.active(at(x.minute), fired, false, x.ends, 10*time.Minute); got != x.want {
			t.Errorf("minute %d: %t", x.minute, got)
		}
	}
}

func TestRestIsKept(t *testing.T) {
	t.Parallel()
	var before, after rest
	if raw, err := before.save(); raw != nil || err != nil {
		t.Errorf("nothing to keep is kept as %s, %v", raw, err)
	}
	before.active(testStart, testStart, false, true, time.Hour)
	raw, err := before.save()
	if err != nil {
		t.Fatal(err)
	}
	if err := after.load(raw); err != nil || after != before {
		t.Errorf("%+v came back as %+v: %v", before, after, err)
	}
}
