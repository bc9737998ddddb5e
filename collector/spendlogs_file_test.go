package collector

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
)

// everAfter is later than any call of the tests.
var everAfter = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// TestSpendLogsFile reads a real export, and finds what its owner sees in it.
func TestSpendLogsFile(t *testing.T) {
	t.Parallel()
	f, err := ReadSpendLogsFile("testdata/spendlogs.csv.zst", time.Time{}, everAfter)
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := spendRows(t)
	if f.Len() != len(rows) || f.Skipped != 0 {
		t.Errorf("%d calls and %d skipped of %d rows: %s", f.Len(), f.Skipped, len(rows), f.FirstSkipped)
	}
	first := everAfter
	for _, r := range rows {
		if start, err := parseSpendTime(r["startTime"]); err != nil {
			t.Fatal(err)
		} else if start.Before(first) {
			first = start
		}
	}
	if !f.From.Equal(first) {
		t.Errorf("begins %s, want %s", f.From, first)
	}
	known, total := 0, 0
	last := time.Time{}
	for now := f.From; total < f.Len(); now = now.Add(30 * time.Second) {
		round := f.Read("log", now)
		if round.State != StateUp || round.Source != "log" || !round.From.Equal(first) || now.After(first.Add(2*time.Hour)) {
			t.Fatalf("a read at %s: %+v", now, round)
		}
		for _, c := range round.Calls {
			total++
			if c.CachedKnown {
				known++
			}
			if c.End.After(now.Add(-writeDelay)) || c.End.Before(last) || c.Start.After(c.End) || c.Session == 0 || c.Deployment == "" || c.PromptTokens == 0 && !c.Failed {
				t.Fatalf("at %s: %+v", now, c)
			}
			last = c.End
		}
	}
	if known < total*9/10 {
		t.Errorf("%d of %d tell their cached tokens", known, total)
	}
}

func TestSpendLogsFileRows(t *testing.T) {
	t.Parallel()
	const header = "metadata,endTime,request_id,startTime,completionStartTime,session_id,model,api_base,prompt_tokens,completion_tokens,status,personal\n"
	text := header +
		`"{""usage_object"": {""prompt_tokens_details"": {""cached_tokens"": 64}}}",2026-11-29 20:00:05,b,2026-11-29 20:00:01.5,,s,m,http://a:8000/v1,100,7,success,x` + "\n" +
		`"""{\""usage_object\"": {\""cache_read_input_tokens\"": 32}}""",2026-11-29T20:00:03.25Z,a,2026-11-29 20:00:00+00,2026-11-29 20:00:02,s,m,,100,7,failure,x` + "\n" +
		"{},2026-11-29 20:00:05,c,never,,s,m,,100,7,success,x\n" +
		"{},2026-11-29 20:00:05,d,2026-11-29 20:00:00,,s,m,,many,7,success,x\n" +
		"{},2026-11-29 20:00:05\n" +
		"{},2026-11-29 23:00:05,e,2026-11-29 23:00:00,,s,m,,100,7,success,x\n"
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, "2026-11-29T"+s+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	f, err := readSpendLogs(strings.NewReader(text), at("20:00:00"), at("21:00:00"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Call{
		{Start: at("20:00:00"), FirstToken: at("20:00:02"), End: at("20:00:03.25"), Model: "m", Failed: true, PromptTokens: 100, OutputTokens: 7, CachedTokens: 32, CachedKnown: true},
		{Start: at("20:00:01.5"), End: at("20:00:05"), Model: "m", Host: "a:8000", PromptTokens: 100, OutputTokens: 7, CachedTokens: 64, CachedKnown: true},
	}
	got := f.Read("log", at("20:00:15")).Calls
	for i := range got {
		got[i].Session = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if f.Skipped != 3 || f.FirstSkipped != "line 4: startTime is no time\nstartTime or endTime is missing" || !f.From.Equal(at("20:00:00")) {
		t.Errorf("%d rows skipped, %q, from %s", f.Skipped, f.FirstSkipped, f.From)
	}
	if n := len(f.Read("log", at("21:00:00")).Calls); n != 0 {
		t.Errorf("%d calls come twice", n)
	}
}

func TestSpendLogsFileKinds(t *testing.T) {
	t.Parallel()
	const text = "request_id,startTime,endTime\na,2026-11-29 20:00:00,2026-11-29 20:00:01\n"
	dir := t.TempDir()
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	_, _ = zw.Write([]byte(text))
	_ = zw.Close()
	write := func(name string, body []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, path := range []string{write("a.csv", []byte(text)), write("a.csv.gz", packed.Bytes())} {
		if f, err := ReadSpendLogsFile(path, time.Time{}, everAfter); err != nil || f.Len() != 1 {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "no.csv"):                        "no such file",
		write("b.csv.gz", []byte(text)):                     "invalid header",
		write("b.csv.zst", []byte(text)):                    "the header cannot be read",
		write("empty.csv", nil):                             "the header cannot be read",
		write("c.csv", []byte("request_id,endTime\nx,y\n")): `no column "startTime"`,
	} {
		if _, err := ReadSpendLogsFile(path, time.Time{}, everAfter); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func FuzzSpendLogsFile(f *testing.F) {
	f.Add("request_id,startTime,endTime,metadata,prompt_tokens\na,2026-11-29 20:00:00,2026-11-29 20:00:01,{},1\n")
	f.Add("endTime,startTime,request_id\n2026-11-29T20:00:00Z,2026-11-29 20:00:00+01,\"\"\n\"x")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := readSpendLogs(strings.NewReader(text), time.Time{}, everAfter)
		if err != nil {
			return
		}
		if n := len(file.Read("log", everAfter.Add(time.Hour)).Calls); n != file.Len() {
			t.Errorf("%d of %d calls are read", n, file.Len())
		}
	})
}
