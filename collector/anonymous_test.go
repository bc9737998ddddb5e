package collector

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/prometheus/model/labels"
)

func TestAnonymousPage(t *testing.T) {
	t.Parallel()
	const key = "88dc28d0f030c55ed4ab77ed8faf098196cb1c05df778539800c9f1243fe6b4b"
	tests := []struct {
		name, page string
		want       string // H is a hash
		hashes     int    // distinct ones
	}{
		{"what the sources read stays", `vllm:num_requests_running{engine="0",model_name="org/model-7b"} 3.0`, `vllm:num_requests_running{engine="0",model_name="org/model-7b"} 3.0`, 0},
		{"a key, its alias and a user", `m{hashed_api_key="` + key + `",api_key_alias="anna's key",user="anna"} 1`, `m{hashed_api_key="H",api_key_alias="H",user="H"} 1`, 3},
		{"equal values have equal hashes", "m{user=\"anna\"} 1\nm{end_user=\"anna\"} 2", "m{user=\"H\"} 1\nm{end_user=\"H\"} 2", 1},
		{"labels that nobody knows", `m{metadata_department="hr"} 1`, `m{metadata_department="H"} 1`, 1},
		{"nothing stays nothing", `m{user="None",team=""} 1`, `m{user="None",team=""} 1`, 0},
		{"a mail address in a label that stays", `m{requested_model="anna@example.com"} 1`, `m{requested_model="H"} 1`, 1},
		{"a deployment by its digest", `m{model_id="` + key + `"} 1`, `m{model_id="` + key + `"} 1`, 0},
		{"a home directory", `m{model_name="/home/anna/m"} 1`, `m{model_name="H"} 1`, 1},
		{"an address in a label that stays", `m{model="x-10.1.2.3"} 1`, `m{model="H"} 1`, 1},
		{"a key in a label that stays", `m{model="sk-1234"} 1`, `m{model="H"} 1`, 1},
		{"exemplars go", `m_bucket{le="1.0"} 3 # {trace_id="abc"} 0.5 1700000000.1`, `m_bucket{le="1.0"} 3`, 0},
		{"a time stays", `m 3 1700000000000`, `m 3 1700000000000`, 0},
		{"escapes", `m{user="a\"} 9",engine="0"} 1`, `m{user="H",engine="0"} 1`, 1},
		{"comments of the format", "# HELP m Help.\n# TYPE m counter\n# asked by anna\nm 1\n# EOF", "# HELP m Help.\n# TYPE m counter\nm 1\n# EOF", 0},
		{"a comment of the format with a mail address", "# HELP m Ask anna@example.com.\n# TYPE m counter\nm 1", "# TYPE m counter\nm 1", 0},
		{"a path that a client chose", `m{route="/users/anna"} 1`, `m{route="H"} 1`, 1},
		{"what cannot be read", "m{user=\"anna\" 1\n<b>anna</b>\nm{user=\"anna\"} one\n{\"m\",user=\"anna\"} 1\nm 1", "m 1", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := strings.TrimSuffix(string(newAnonymiser().page(nil, []byte(tt.page))), "\n")
			hashes := map[string]bool{}
			for word := range strings.SplitSeq(got, `"`) {
				if len(word) == 17 && word[0] == 'h' {
					hashes[word] = true
					got = strings.ReplaceAll(got, word, "H")
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || len(hashes) != tt.hashes {
				t.Errorf("%d hashes, want %d (-want +got)\n%s", len(hashes), tt.hashes, diff)
			}
		})
	}
}

// TestAnonymousPagesReadTheSame holds what is read of real pages against what
// is read of them once they are anonymous.
func TestAnonymousPagesReadTheSame(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.prom*")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			page := readPageFile(t, file)
			anonymous := newAnonymiser().page(nil, page)
			want, got := valuesOf(t, page), valuesOf(t, anonymous)
			if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
				t.Errorf("%d series (-page +anonymous)\n%s", len(want), diff)
			}
		})
	}
}

func readPageFile(t testing.TB, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	page, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func valuesOf(t *testing.T, page []byte) map[string]float64 {
	t.Helper()
	reader := newPageReader(&Target{Labels: labels.FromStrings("job", "j", "instance", "i")}, DefaultLimits())
	got, _, err := reader.read(bytes.NewReader(page), contentType(page), at(0))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, s := range got.classic() {
		all[s.Series.Labels.String()] = s.Value
	}
	return all
}

// FuzzAnonymousPage looks for pages of which something of a person is left.
func FuzzAnonymousPage(f *testing.F) {
	for _, page := range []string{
		`m{user="anna",engine="0"} 1`, "# HELP m\nm_bucket{user=\"anna\",le=\"+Inf\"} 3 # {t=\"anna\"} 1", `m{ user = "anna" , } 1`, `{"m",user="anna"} 1`, "m{user=\"an\\\"na\"} 1 2\r\n",
	} {
		f.Add([]byte(page), "anna")
	}
	f.Fuzz(func(t *testing.T, page []byte, person string) {
		a := newAnonymiser()
		out := a.page(nil, page)
		if again := a.page(nil, out); bytes.Count(again, []byte("\n")) != bytes.Count(out, []byte("\n")) {
			t.Errorf("what was written cannot be read again: %q became %q, then %q", page, out, again)
		}
		// A value of a label that is personal appears nowhere but by chance.
		if len(person) < 6 || strings.ContainsAny(person, "\\\"\n\r") || bytes.Contains(page, []byte(person)) {
			return
		}
		line := []byte(`m{user="` + person + `"} 1` + "\n")
		if out := a.page(nil, append(bytes.Clone(line), page...)); bytes.Contains(out, []byte(`"`+person+`"`)) && !bytes.Contains([]byte("None"), []byte(person)) {
			t.Errorf("%q is left in %q", person, out)
		}
	})
}

func BenchmarkAnonymousPage(b *testing.B) {
	page := readPageFile(b, "testdata/litellm-1.102.0.prom.gz")
	a := newAnonymiser()
	var out []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		out = a.page(out[:0], page)
	}
}
