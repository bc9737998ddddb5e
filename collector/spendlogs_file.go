package collector

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// mostFileCalls bounds the calls of a file that are held, which are sorted.
	mostFileCalls = 2_000_000
	// writeDelay is how long after its end a gateway writes a call out.
	writeDelay = 10 * time.Second
)

// SpendLogsFile is an export of a gateway's log of calls.
type SpendLogsFile struct {
	// From is when the first of all calls of the file began.
	From time.Time
	// calls are in the order in which their rows were written.
	calls []Call
	next  int
	// Skipped counts the rows that could not be read, FirstSkipped says why the
	// first of them could not. It quotes nothing of the row.
	Skipped      int
	FirstSkipped string
}

// ReadSpendLogsFile reads an export of LiteLLM's table as CSV with a header
// (\copy ... TO ... WITH (FORMAT csv, HEADER)), compressed where the name ends in
// .zst or .gz: the calls that ended between two times. Rows may come in any order.
func ReadSpendLogsFile(path string, from, to time.Time) (f *SpendLogsFile, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("spend logs: %w", err)
	}
	defer file.Close()
	var text io.Reader = file
	switch {
	case strings.HasSuffix(path, ".zst"):
		var z *zstd.Decoder
		if z, err = zstd.NewReader(file); err == nil {
			defer z.Close()
			text = z
		}
	case strings.HasSuffix(path, ".gz"):
		text, err = gzip.NewReader(file)
	}
	if err == nil {
		f, err = readSpendLogs(text, from, to)
	}
	if err != nil {
		return nil, fmt.Errorf("spend logs %s: %w", path, err)
	}
	return f, nil
}

func readSpendLogs(text io.Reader, from, to time.Time) (*SpendLogsFile, error) {
	r := csv.NewReader(text)
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("the header cannot be read: %w", err)
	}
	columns := spendFields{}
	for i, name := range header {
		if slices.Contains(spendColumns, name) {
			columns[name] = i
		}
	}
	for _, name := range neededColumns {
		if _, ok := columns[name]; !ok {
			return nil, fmt.Errorf("there is no column %q: export LiteLLM_SpendLogs as CSV with its header", name)
		}
	}
	f := &SpendLogsFile{}
	seed, names := maphash.MakeSeed(), interned{}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var row spendRow
		if err == nil {
			row, err = columns.row(record)
		} else if _, bad := errors.AsType[*csv.ParseError](err); !bad {
			return nil, err
		}
		if err != nil {
			f.skip(r, err)
			continue
		}
		if f.From.IsZero() || row.start.Before(f.From) {
			f.From = row.start
		}
		if row.end.Before(from) || !row.end.Before(to) {
			continue
		}
		if len(f.calls) == mostFileCalls {
			return nil, fmt.Errorf("more than %d calls are between %s and %s: ask for a shorter time", mostFileCalls, from.Format(time.RFC3339), to.Format(time.RFC3339))
		}
		f.calls = append(f.calls, row.call(seed, &names))
	}
	slices.SortStableFunc(f.calls, func(a, b Call) int { return cmp.Or(a.End.Compare(b.End), a.Start.Compare(b.Start)) })
	return f, nil
}

// skip notes a row that cannot be read.
func (f *SpendLogsFile) skip(r *csv.Reader, err error) {
	if f.Skipped++; f.Skipped > 1 {
		return
	}
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		f.FirstSkipped = fmt.Sprintf("line %d: %v", bad.Line, bad.Err)
		return
	}
	line, _ := r.FieldPos(0)
	f.FirstSkipped = fmt.Sprintf("line %d: %v", line, err)
}

// Len is how many calls there are.
func (f *SpendLogsFile) Len() int { return len(f.calls) }

// Read gives what a read of the table at now would have found since the read
// before. The slice of calls is valid until the file is dropped.
func (f *SpendLogsFile) Read(name string, now time.Time) *CallRound {
	begin := f.next
	for f.next < len(f.calls) && !f.calls[f.next].End.After(now.Add(-writeDelay)) {
		f.next++
	}
	return &CallRound{Source: name, Time: now, From: f.From, State: StateUp, Calls: f.calls[begin:f.next]}
}

// spendFields says where the columns are in a record.
type spendFields map[string]int

// field is nil where the record has no value.
func (c spendFields) field(record []string, name string) *string {
	i, ok := c[name]
	if !ok || record[i] == "" {
		return nil
	}
	return &record[i]
}

// row reads a record as a row of the table.
func (c spendFields) row(record []string) (spendRow, error) {
	var errs []error
	at := func(name string) *time.Time {
		s := c.field(record, name)
		if s == nil {
			return nil
		}
		t, err := parseSpendTime(*s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is no time", name))
			return nil
		}
		return &t
	}
	number := func(name string) *int64 {
		s := c.field(record, name)
		if s == nil {
			return nil
		}
		n, err := strconv.ParseInt(*s, 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is no number", name))
		}
		return &n
	}
	start, end := at("startTime"), at("endTime")
	r := spendRow{
		first: at("completionStartTime"), prompt: number("prompt_tokens"), output: number("completion_tokens"),
		session: c.field(record, "session_id"), model: c.field(record, "model"), group: c.field(record, "model_group"),
		modelID: c.field(record, "model_id"), base: c.field(record, "api_base"), status: c.field(record, "status"),
		cacheHit: c.field(record, "cache_hit"), cachedColumn: c.field(record, "cached_tokens"),
		cacheRead: c.field(record, "cache_read_input_tokens"), metadata: c.metadata(record),
	}
	if start == nil || end == nil {
		return r, errors.Join(append(errs, errors.New("startTime or endTime is missing"))...)
	}
	r.start, r.end = *start, *end
	return r, errors.Join(errs...)
}

// metadata is the object, which some versions wrote as a string that holds it.
func (c spendFields) metadata(record []string) *string {
	s := c.field(record, "metadata")
	var inner string
	if s != nil && strings.HasPrefix(*s, `"`) && json.Unmarshal([]byte(*s), &inner) == nil {
		return &inner
	}
	return s
}

// parseSpendTime reads a time as PostgreSQL exports it: UTC where it has no zone.
func parseSpendTime(s string) (time.Time, error) {
	var err error
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07", time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		var t time.Time
		if t, err = time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, err
}
