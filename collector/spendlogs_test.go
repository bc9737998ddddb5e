package collector

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// afterAll is a time at which all real rows are in the table.
var afterAll = time.Date(2026, 11, 29, 21, 0, 0, 0, time.UTC)

// kvwatchRole is what deploy/docs/spend-logs.md tells to set up.
const kvwatchRole = `
CREATE ROLE kvwatch LOGIN PASSWORD 'kv-secret' CONNECTION LIMIT 2;
ALTER ROLE kvwatch SET default_transaction_read_only = on;
`

const kvwatchGrants = `
GRANT USAGE ON SCHEMA public TO kvwatch;
GRANT SELECT (request_id, session_id, "startTime", "endTime", "completionStartTime", model, model_group, model_id, api_base,
	status, cache_hit, prompt_tokens, completion_tokens, metadata) ON "LiteLLM_SpendLogs" TO kvwatch;
`

// spendRows are the rows of a real table, as its owner sees them.
func spendRows(t testing.TB) (header []string, rows []map[string]string, text []byte) {
	t.Helper()
	text = unzstd(t, "testdata/spendlogs.csv.zst")
	all, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return all[0], rows, text
}

func unzstd(t testing.TB, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	text, err := io.ReadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// realTable makes the table as LiteLLM makes it, with its real rows.
func realTable(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	schema, err := os.ReadFile("testdata/spendlogs_schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, conn, string(schema))
	header, _, text := spendRows(t)
	for i, name := range header {
		header[i] = pgx.Identifier{name}.Sanitize()
	}
	copySQL := `COPY "LiteLLM_SpendLogs" (` + strings.Join(header, ",") + `) FROM STDIN WITH (FORMAT csv, HEADER)`
	if _, err := conn.PgConn().CopyFrom(t.Context(), bytes.NewReader(text), copySQL); err != nil {
		t.Fatal(err)
	}
	mustExec(t, conn, `ANALYZE "LiteLLM_SpendLogs"`)
}

// reading is a log being read by a test, and what it yielded.
type reading struct {
	t      testing.TB
	logs   *SpendLogs
	reader *spendReader
	log    bytes.Buffer
	rounds []CallRound
	calls  []Call
}

func read(t testing.TB, c SpendLogsConfig) *reading {
	t.Helper()
	r := &reading{t: t}
	logs, err := NewSpendLogs(SpendLogsOptions{
		Configs: []SpendLogsConfig{c}, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		Sink: func(_ context.Context, round *CallRound) {
			r.calls = append(r.calls, round.Calls...)
			r.rounds = append(r.rounds, *round)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.logs, r.reader = logs, logs.readers["spend_logs/0"]
	t.Cleanup(r.reader.disconnect)
	return r
}

// poll reads once and returns the calls that came, and the last round.
func (r *reading) poll(now time.Time) ([]Call, CallRound) {
	r.t.Helper()
	r.calls, r.rounds = nil, nil
	r.reader.poll(r.t.Context(), now)
	if len(r.rounds) == 0 {
		r.t.Fatal("no round")
	}
	return r.calls, r.rounds[len(r.rounds)-1]
}

func (r *reading) mustPoll(now time.Time) []Call {
	r.t.Helper()
	calls, round := r.poll(now)
	if round.State != StateUp || round.Reason != "" {
		r.t.Fatalf("state %s: %s", round.State, round.Reason)
	}
	return calls
}

func spendConfig(dsn string) SpendLogsConfig {
	c := DefaultSpendLogsConfig()
	c.DSN = config.Secret(dsn)
	return c
}

// TestSpendLogs reads a real PostgreSQL with the real schema and real rows.
func TestSpendLogs(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	mustExec(t, server.connect(t, "postgres"), kvwatchRole)
	litellm := server.database(t, "litellm")
	realTable(t, litellm)
	mustExec(t, litellm, kvwatchGrants)
	asKvwatch := server.dsn("kvwatch", "kv-secret", "litellm")

	for name, test := range map[string]func(*testing.T){
		"every row once":       func(t *testing.T) { everyRowOnce(t, asKvwatch) },
		"late rows":            func(t *testing.T) { lateRows(t, server) },
		"shapes of a row":      func(t *testing.T) { shapesOfARow(t, server) },
		"shapes of the table":  func(t *testing.T) { shapesOfTheTable(t, server) },
		"what cannot be read":  func(t *testing.T) { whatCannotBeRead(t, server) },
		"slow and locked":      func(t *testing.T) { slowAndLocked(t, server) },
		"a file as the secret": func(t *testing.T) { secretInAFile(t, server) },
		"the loop":             func(t *testing.T) { theLoop(t, asKvwatch) },
		"a session is cut":     func(t *testing.T) { sessionIsCut(t, server, asKvwatch) },
	} {
		t.Run(name, test)
	}
	// The last one stops the server.
	t.Run("lost and back", func(t *testing.T) { lostAndBack(t, server, asKvwatch) })
}

// everyRowOnce reads with a role that may read the listed columns and no other:
// nothing that was said, no user, no key is even asked for.
func everyRowOnce(t *testing.T, dsn string) {
	c := spendConfig(dsn)
	c.PageSize = 100
	r := read(t, c)
	calls := r.mustPoll(afterAll)
	_, rows, _ := spendRows(t)
	slices.SortFunc(rows, func(a, b map[string]string) int {
		return cmp.Or(strings.Compare(a["startTime"], b["startTime"]), strings.Compare(a["request_id"], b["request_id"]))
	})
	if len(calls) != len(rows) {
		t.Fatalf("%d calls, the table has %d rows", len(calls), len(rows))
	}
	sessions := map[string]uint64{}
	for i, row := range rows {
		want := rowCall(t, row)
		got := calls[i]
		if s, ok := sessions[row["session_id"]]; ok && s != got.Session {
			t.Fatalf("session %s has two hashes", row["session_id"])
		}
		sessions[row["session_id"]] = got.Session
		got.Session = 0
		if got != want {
			t.Fatalf("row %d\n got %+v\nwant %+v", i, got, want)
		}
	}
	if len(r.reader.seen) > 1200 {
		t.Errorf("%d ids are remembered of a log that reaches 35 minutes back: only those of the overlap are needed", len(r.reader.seen))
	}
	distinct := map[uint64]bool{}
	for _, s := range sessions {
		distinct[s] = true
	}
	if len(distinct) != 122 || distinct[0] {
		t.Errorf("%d sessions, want 122", len(distinct))
	}
	for i, round := range r.rounds {
		if len(round.Calls) > 100 {
			t.Errorf("round %d has %d calls", i, len(round.Calls))
		}
		if !round.From.Equal(afterAll.Add(-2 * time.Hour)) {
			t.Errorf("round %d reads from %s", i, round.From)
		}
	}
	if more := r.mustPoll(afterAll.Add(30 * time.Second)); len(more) != 0 {
		t.Errorf("a second read yields %d calls again", len(more))
	}
	st := r.logs.Status()[0]
	if st.State != StateUp || st.Rows != 2261 || st.TableRows != 2261 || st.Lag != 30*time.Second+99633*time.Millisecond {
		t.Errorf("status %+v", st)
	}
	if !strings.HasSuffix(st.Address, "/litellm") || strings.Contains(fmt.Sprintf("%+v %+v", st, r.logs.Targets()), "secret") {
		t.Errorf("address %q", st.Address)
	}
}

// rowCall is the call that a row should become, worked out apart from the SQL.
func rowCall(t *testing.T, row map[string]string) Call {
	t.Helper()
	var meta struct {
		Usage struct {
			Details struct {
				Cached *int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage_object"`
		Group string `json:"original_model_group"`
	}
	if err := json.Unmarshal([]byte(row["metadata"]), &meta); err != nil {
		t.Fatal(err)
	}
	at := func(name string) time.Time {
		v, err := time.Parse("2006-01-02 15:04:05.999", row[name])
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	number := func(name string) int64 {
		v, err := strconv.ParseInt(row[name], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	host := strings.TrimSuffix(strings.TrimPrefix(row["api_base"], "http://"), "/v1/chat/completions")
	c := Call{
		Start: at("startTime"), FirstToken: at("completionStartTime"), End: at("endTime"),
		Model: row["model"], ModelGroup: row["model_group"], RequestedModel: meta.Group, Deployment: row["model_id"], Host: host,
		Failed: row["status"] == "failure", PromptTokens: number("prompt_tokens"), OutputTokens: number("completion_tokens"),
	}
	if cached := meta.Usage.Details.Cached; cached != nil {
		c.CachedTokens, c.CachedKnown = *cached, true
	}
	return c
}

// smallTable makes the table without rows.
func smallTable(t *testing.T, server *postgres, database string) *pgx.Conn {
	t.Helper()
	conn := server.database(t, database)
	schema, err := os.ReadFile("testdata/spendlogs_schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, conn, string(schema))
	return conn
}

// insert adds a row that began at a time of afterAll's day.
func insert(t *testing.T, conn *pgx.Conn, id, start, end, metadata string) {
	t.Helper()
	mustExec(t, conn, fmt.Sprintf(`INSERT INTO "LiteLLM_SpendLogs" (request_id, call_type, "startTime", "endTime", prompt_tokens, completion_tokens, status, session_id, metadata)
		VALUES ('%s', 'acompletion', '2026-11-29 %s', '2026-11-29 %s', 100, 10, 'success', 's', %s)`, id, start, end, metadata))
}

// lateRows come when their call ends, after rows that began later.
func lateRows(t *testing.T, server *postgres) {
	conn := smallTable(t, server, "late")
	c := spendConfig(server.dsn("postgres", postgresPassword, "late"))
	c.PageSize = 2
	r := read(t, c)
	insert(t, conn, "a", "20:50:00", "20:50:01", "'{}'")
	insert(t, conn, "b", "20:55:00", "20:55:01", "'{}'")
	insert(t, conn, "c", "20:55:00", "20:55:01", "'{}'") // at the very same moment
	insert(t, conn, "too-old", "18:59:59", "19:00:00", "'{}'")
	if got := len(r.mustPoll(afterAll)); got != 3 {
		t.Fatalf("%d calls at first", got)
	}
	insert(t, conn, "long", "20:46:00", "20:59:59", "'{}'")
	insert(t, conn, "d", "20:59:00", "20:59:01", "'{}'")
	insert(t, conn, "before-the-overlap", "20:43:59", "20:59:59", "'{}'")
	if got := len(r.mustPoll(afterAll.Add(time.Minute))); got != 2 {
		t.Errorf("%d new calls, want the long one and d", got)
	}
	if got := len(r.mustPoll(afterAll.Add(2 * time.Minute))); got != 0 {
		t.Errorf("%d calls again", got)
	}
	if len(r.reader.seen) > 4 {
		t.Errorf("%d ids are remembered: those before the overlap are forgotten", len(r.reader.seen))
	}
	// A gateway whose clock runs ahead does not make us skip what the others write.
	insert(t, conn, "ahead", "23:00:00", "23:00:01", "'{}'")
	insert(t, conn, "e", "21:02:00", "21:02:30", "'{}'")
	if got := len(r.mustPoll(afterAll.Add(3 * time.Minute))); got != 2 {
		t.Fatalf("%d calls", got)
	}
	insert(t, conn, "f", "21:03:00", "21:03:30", "'{}'")
	if got := len(r.mustPoll(afterAll.Add(4 * time.Minute))); got != 1 {
		t.Errorf("%d calls after one from the future", got)
	}
}

// shapesOfARow are what versions and accidents make of the metadata.
func shapesOfARow(t *testing.T, server *postgres) {
	const unknown = -1
	conn := smallTable(t, server, "shapes")
	cases := []struct {
		name, metadata string
		cached         int64
	}{
		{"a hit", `'{"usage_object": {"prompt_tokens_details": {"cached_tokens": 64}}}'`, 64},
		{"a miss", `'{"usage_object": {"prompt_tokens_details": {"cached_tokens": 0}}}'`, 0},
		{"not reported", `'{"usage_object": {"prompt_tokens_details": {"cached_tokens": null}}}'`, unknown},
		{"no details", `'{"usage_object": {"prompt_tokens_details": null}}'`, unknown},
		{"no usage", `'{}'`, unknown},
		{"usage is null", `'{"usage_object": null}'`, unknown},
		{"usage is text", `'{"usage_object": "none"}'`, unknown},
		{"Anthropic's name", `'{"usage_object": {"cache_read_input_tokens": 32}}'`, 32},
		{"details first", `'{"usage_object": {"cache_read_input_tokens": 0, "prompt_tokens_details": {"cached_tokens": 48}}}'`, 48},
		{"additional values", `'{"additional_usage_values": {"prompt_tokens_details": {"cached_tokens": 16}}}'`, 16},
		{"additional, Anthropic", `'{"additional_usage_values": {"cache_read_input_tokens": 8}}'`, 8},
		{"a fraction", `'{"usage_object": {"prompt_tokens_details": {"cached_tokens": 64.0}}}'`, 64},
		{"more than the prompt", `'{"usage_object": {"prompt_tokens_details": {"cached_tokens": 400}}}'`, 100},
		{"negative", `'{"usage_object": {"prompt_tokens_details": {"cached_tokens": -5}}}'`, unknown},
		{"no number", `'{"usage_object": {"prompt_tokens_details": {"cached_tokens": "many"}}}'`, unknown},
		{"a string of JSON", `to_jsonb('{"usage_object": {"prompt_tokens_details": {"cached_tokens": 24}}}'::text)`, 24},
		{"a string, not reported", `to_jsonb('{"usage_object": {}}'::text)`, unknown},
		{"a string of nonsense", `to_jsonb('{"usage'::text)`, unknown},
		{"a list", `'[1, 2]'`, unknown},
		{"JSON null", `'null'`, unknown},
		{"SQL null", `NULL`, unknown},
	}
	for i, c := range cases {
		insert(t, conn, fmt.Sprintf("r%02d", i), fmt.Sprintf("20:00:%02d", i), fmt.Sprintf("20:00:%02d.5", i), c.metadata)
	}
	got := read(t, spendConfig(server.dsn("postgres", postgresPassword, "shapes"))).mustPoll(afterAll)
	if len(got) != len(cases) {
		t.Fatalf("%d calls of %d rows: one row must not fail a page", len(got), len(cases))
	}
	for i, c := range cases {
		if known := c.cached != unknown; got[i].CachedKnown != known || known && got[i].CachedTokens != c.cached {
			t.Errorf("%s: %d, known %v", c.name, got[i].CachedTokens, got[i].CachedKnown)
		}
	}
}

// shapesOfTheTable are what versions, partitions and administrators make of it.
func shapesOfTheTable(t *testing.T, server *postgres) {
	const row = `INSERT INTO "LiteLLM_SpendLogs" (request_id, "startTime", "endTime", `
	const hit = `{"usage_object": {"prompt_tokens_details": {"cached_tokens": 64}}}`
	for name, c := range map[string]struct {
		sql, warning string
		dsn          string // added to the address
		table        string
		want         Call
	}{
		"an old version": {
			sql: `CREATE TABLE "LiteLLM_SpendLogs" (request_id text PRIMARY KEY, "startTime" timestamp(3), "endTime" timestamp(3), model text, prompt_tokens int, completion_tokens int);` +
				row + `model, prompt_tokens, completion_tokens) VALUES ('a', '2026-11-29 20:00:00', '2026-11-29 20:00:01', 'm', 100, 10)`,
			warning: "there is no completionStartTime, session_id, model_group, model_id, api_base, status, cache_hit, metadata; without metadata nothing tells the cached tokens; no index begins with startTime: each read scans the table",
			want:    Call{Model: "m", PromptTokens: 100, OutputTokens: 10},
		},
		"metadata as text": {
			sql: `CREATE TABLE "LiteLLM_SpendLogs" (request_id text PRIMARY KEY, "startTime" timestamp(3), "endTime" timestamp(3), prompt_tokens int, completion_tokens int, metadata text); CREATE INDEX ON "LiteLLM_SpendLogs" ("startTime");` +
				row + `prompt_tokens, completion_tokens, metadata) VALUES ('a', '2026-11-29 20:00:00', '2026-11-29 20:00:01', 100, 10, '` + hit + `')`,
			warning: "there is no completionStartTime, session_id, model, model_group, model_id, api_base, status, cache_hit",
			want:    Call{PromptTokens: 100, OutputTokens: 10, CachedTokens: 64, CachedKnown: true},
		},
		"times with a zone": {
			sql: `ALTER DATABASE "times with a zone" SET timezone = 'America/Lima'; CREATE TABLE "LiteLLM_SpendLogs" (request_id text PRIMARY KEY, "startTime" timestamptz, "endTime" timestamptz, prompt_tokens int, completion_tokens int); CREATE INDEX ON "LiteLLM_SpendLogs" ("startTime");` +
				row + `prompt_tokens, completion_tokens) VALUES ('a', '2026-11-29 20:00:00Z', '2026-11-29 20:00:01Z', 100, 10)`,
			warning: "there is no completionStartTime, session_id, model, model_group, model_id, api_base, status, cache_hit, metadata; without metadata nothing tells the cached tokens",
			want:    Call{PromptTokens: 100, OutputTokens: 10},
		},
		"a column of its own": {
			sql: `CREATE TABLE "LiteLLM_SpendLogs" (request_id text PRIMARY KEY, "startTime" timestamp, "endTime" timestamp, prompt_tokens int, completion_tokens int, metadata jsonb, cache_read_input_tokens int); CREATE INDEX ON "LiteLLM_SpendLogs" ("startTime");` +
				row + `prompt_tokens, completion_tokens, metadata, cache_read_input_tokens) VALUES ('a', '2026-11-29 20:00:00', '2026-11-29 20:00:01', 100, 10, '{}', 80)`,
			warning: "there is no completionStartTime, session_id, model, model_group, model_id, api_base, status, cache_hit",
			want:    Call{PromptTokens: 100, OutputTokens: 10, CachedTokens: 80, CachedKnown: true},
		},
		"its 0 says nothing": {
			sql: `CREATE TABLE "LiteLLM_SpendLogs" (request_id text PRIMARY KEY, "startTime" timestamp, "endTime" timestamp, prompt_tokens int, completion_tokens int, metadata jsonb, cache_read_input_tokens int DEFAULT 0); CREATE INDEX ON "LiteLLM_SpendLogs" ("startTime");` +
				row + `prompt_tokens, completion_tokens, metadata) VALUES ('a', '2026-11-29 20:00:00', '2026-11-29 20:00:01', 100, 10, '{}')`,
			warning: "there is no completionStartTime, session_id, model, model_group, model_id, api_base, status, cache_hit",
			want:    Call{PromptTokens: 100, OutputTokens: 10},
		},
		// Seen on LiteLLM 1.106.12: columns are read by their names, more are no error.
		"two columns more": {
			sql: `CREATE TABLE "LiteLLM_SpendLogs" (billing_agent_id text, request_id text PRIMARY KEY, litellm_call_id text, "startTime" timestamp(3), "endTime" timestamp(3), prompt_tokens int, completion_tokens int, metadata jsonb); CREATE INDEX ON "LiteLLM_SpendLogs" ("startTime");` +
				row + `prompt_tokens, completion_tokens, metadata, billing_agent_id, litellm_call_id) VALUES ('a', '2026-11-29 20:00:00', '2026-11-29 20:00:01', 100, 10, '` + hit + `', 'b', 'c')`,
			warning: "there is no completionStartTime, session_id, model, model_group, model_id, api_base, status, cache_hit",
			want:    Call{PromptTokens: 100, OutputTokens: 10, CachedTokens: 64, CachedKnown: true},
		},
		// Seen on LiteLLM 1.102: what was written to the cache stands beside what
		// came from it, and is none of it.
		"tokens written to the cache": {
			sql: `CREATE TABLE "LiteLLM_SpendLogs" (request_id text PRIMARY KEY, "startTime" timestamp(3), "endTime" timestamp(3), prompt_tokens int, completion_tokens int, metadata jsonb); CREATE INDEX ON "LiteLLM_SpendLogs" ("startTime");` +
				row + `prompt_tokens, completion_tokens, metadata) VALUES ('a', '2026-11-29 20:00:00', '2026-11-29 20:00:01', 100, 10, '{"usage_object": {"prompt_tokens_details": {"cached_tokens": 64, "created_cache_tokens": 32}}}')`,
			warning: "there is no completionStartTime, session_id, model, model_group, model_id, api_base, status, cache_hit",
			want:    Call{PromptTokens: 100, OutputTokens: 10, CachedTokens: 64, CachedKnown: true},
		},
		"partitions": {
			sql: `CREATE TABLE "LiteLLM_SpendLogs" (request_id text, "startTime" timestamp(3), "endTime" timestamp(3), prompt_tokens int, completion_tokens int, metadata jsonb, PRIMARY KEY (request_id, "startTime")) PARTITION BY RANGE ("startTime");` +
				`CREATE TABLE old PARTITION OF "LiteLLM_SpendLogs" FOR VALUES FROM ('2026-11-28') TO ('2026-11-29'); CREATE TABLE today PARTITION OF "LiteLLM_SpendLogs" FOR VALUES FROM ('2026-11-29') TO ('2026-11-30'); CREATE INDEX ON "LiteLLM_SpendLogs" ("startTime", request_id);` +
				row + `prompt_tokens, completion_tokens, metadata) VALUES ('a', '2026-11-29 20:00:00', '2026-11-29 20:00:01', 100, 10, '` + hit + `')`,
			warning: "there is no completionStartTime, session_id, model, model_group, model_id, api_base, status, cache_hit",
			want:    Call{PromptTokens: 100, OutputTokens: 10, CachedTokens: 64, CachedKnown: true},
		},
		"a view that hides the metadata": {
			sql: `CREATE TABLE hidden (request_id text PRIMARY KEY, "startTime" timestamp(3), "endTime" timestamp(3), prompt_tokens int, completion_tokens int, metadata jsonb, api_base text);` +
				`INSERT INTO hidden VALUES ('a', '2026-11-29 20:00:00', '2026-11-29 20:00:01', 100, 10, '` + hit + `', 'http://user:key@engine:8000/v1');` +
				`CREATE VIEW calls AS SELECT request_id, "startTime", "endTime", prompt_tokens, completion_tokens, api_base, (metadata #>> '{usage_object,prompt_tokens_details,cached_tokens}')::int AS cached_tokens FROM hidden`,
			table:   "calls",
			warning: "there is no completionStartTime, session_id, model, model_group, model_id, status, cache_hit, metadata",
			want:    Call{PromptTokens: 100, OutputTokens: 10, CachedTokens: 64, CachedKnown: true, Host: "engine:8000"},
		},
		"LiteLLM's own address": {
			dsn: "&schema=gateway&connection_limit=10&pool_timeout=60",
			sql: `CREATE SCHEMA gateway; CREATE TABLE gateway."LiteLLM_SpendLogs" (request_id text PRIMARY KEY, "startTime" timestamp(3), "endTime" timestamp(3), cache_hit text, status text, prompt_tokens int, completion_tokens int); CREATE INDEX ON gateway."LiteLLM_SpendLogs" ("startTime");` +
				`INSERT INTO gateway."LiteLLM_SpendLogs" VALUES ('a', '2026-11-29 20:00:00', '2026-11-29 20:00:01', 'True', 'failure', NULL, NULL)`,
			warning: "there is no completionStartTime, session_id, model, model_group, model_id, api_base, metadata; without metadata nothing tells the cached tokens",
			want:    Call{Failed: true, Answered: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mustExec(t, server.database(t, name), c.sql)
			conf := spendConfig(server.dsn("postgres", postgresPassword, name) + c.dsn)
			conf.Table = cmp.Or(c.table, conf.Table)
			r := read(t, conf)
			c.want.Start = time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)
			c.want.End = c.want.Start.Add(time.Second)
			if got := r.mustPoll(afterAll); len(got) != 1 || got[0] != c.want {
				t.Errorf("\n got %+v\nwant %+v", got, c.want)
			}
			if got := r.logs.Status()[0].Warning; got != c.warning {
				t.Errorf("warning\n got %s\nwant %s", got, c.warning)
			}
		})
	}
}

// whatCannotBeRead is told apart, and says nothing of a secret.
func whatCannotBeRead(t *testing.T, server *postgres) {
	empty := server.database(t, "empty")
	other := server.database(t, "other")
	mustExec(t, other, `CREATE TABLE "LiteLLM_SpendLogs" (request_id text, created timestamp)`)
	forbidden := smallTable(t, server, "forbidden")
	mustExec(t, forbidden, `GRANT SELECT (request_id, status) ON "LiteLLM_SpendLogs" TO kvwatch`)
	for name, c := range map[string]struct {
		dsn   string
		state State
		says  string
	}{
		"a wrong password":     {server.dsn("kvwatch", "hunter2-secret", "litellm"), StateUnauthorised, "refused the user or the password (SQLSTATE 28P01)"},
		"no such user":         {server.dsn("nobody", "hunter2-secret", "litellm"), StateUnauthorised, "refused the user or the password"},
		"no such database":     {server.dsn("postgres", postgresPassword, "nowhere"), StateNotFound, "no such database"},
		"no table":             {server.dsn("postgres", postgresPassword, "empty"), StateNotFound, "there is no table LiteLLM_SpendLogs"},
		"another table":        {server.dsn("postgres", postgresPassword, "other"), StateNoMetrics, "has no column startTime"},
		"no grant":             {server.dsn("kvwatch", "kv-secret", "forbidden"), StateUnauthorised, `GRANT SELECT ("startTime", "endTime",`},
		"nobody listens":       {fmt.Sprintf("postgres://kvwatch:hunter2-secret@127.0.0.1:%d/x", freePort(t)), StateDown, "refused the connection"},
		"no such host":         {"postgres://kvwatch:hunter2-secret@kvwatch.invalid/x", StateDown, `"kvwatch.invalid" does not resolve`},
		"no connection string": {"postgres://kvwatch:hunter2-secret@[::1/x", StateDown, "no connection string"},
		"a mistyped port":      {"postgres://kvwatch:hunter2-secret@db:54x/x", StateDown, "no connection string"},
		"no TLS":               {strings.Replace(server.dsn("kvwatch", "kv-secret", "litellm"), "disable", "require", 1), StateDown, "sslmode"},
	} {
		t.Run(name, func(t *testing.T) {
			r := read(t, spendConfig(c.dsn))
			calls, round := r.poll(afterAll)
			if len(calls) != 0 || round.State != c.state || !strings.Contains(round.Reason, c.says) {
				t.Errorf("%d calls, state %s: %s", len(calls), round.State, round.Reason)
			}
			told := fmt.Sprintf("%+v %+v %+v %s", r.logs.Status(), r.logs.Targets(), r.rounds, &r.log)
			for _, secret := range []string{"hunter2", "kv-secret", postgresPassword} {
				if strings.Contains(told, secret) {
					t.Errorf("the password is told: %s", told)
				}
			}
			if r.reader.pause() != 30*time.Second {
				t.Errorf("after one failure it waits %s", r.reader.pause())
			}
			r.poll(afterAll)
			r.poll(afterAll)
			if r.reader.pause() != 2*time.Minute {
				t.Errorf("after three failures it waits %s", r.reader.pause())
			}
			r.reader.failures = 100
			if r.reader.pause() != mostBackoff {
				t.Errorf("it waits %s at most", r.reader.pause())
			}
		})
	}
	// What is repaired is noticed at the next read.
	r := read(t, spendConfig(server.dsn("postgres", postgresPassword, "empty")))
	r.poll(afterAll)
	schema, err := os.ReadFile("testdata/spendlogs_schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, empty, string(schema))
	r.mustPoll(afterAll.Add(time.Minute))
	// And a column that goes away while it is read.
	insert(t, empty, "a", "20:00:00", "20:00:01", "'{}'")
	mustExec(t, empty, `ALTER TABLE "LiteLLM_SpendLogs" DROP COLUMN model_group`)
	if _, round := r.poll(afterAll.Add(2 * time.Minute)); round.State != StateNoMetrics {
		t.Errorf("state %s: %s", round.State, round.Reason)
	}
	if got := len(r.mustPoll(afterAll.Add(3 * time.Minute))); got != 1 {
		t.Errorf("%d calls once the columns were looked up again", got)
	}
}

// slowAndLocked queries are given up, and the server is not left with them.
func slowAndLocked(t *testing.T, server *postgres) {
	conn := smallTable(t, server, "slow")
	insert(t, conn, "a", "20:00:00", "20:00:01", "'{}'")
	mustExec(t, conn, `CREATE VIEW slow AS SELECT * FROM "LiteLLM_SpendLogs" WHERE pg_sleep(60) IS NOT NULL`)
	c := spendConfig(server.dsn("postgres", postgresPassword, "slow"))
	c.Table, c.Timeout = "slow", model.Duration(50*time.Millisecond)
	if _, round := read(t, c).poll(afterAll); round.State != StateTimeout || !strings.Contains(round.Reason, "timeout of 50ms") {
		t.Errorf("state %s: %s", round.State, round.Reason)
	}
	c.Table, c.Timeout = "LiteLLM_SpendLogs", model.Duration(5*time.Second)
	r := read(t, c)
	mustExec(t, conn, `BEGIN; LOCK TABLE "LiteLLM_SpendLogs" IN ACCESS EXCLUSIVE MODE`)
	if _, round := r.poll(afterAll); round.State != StateTimeout || !strings.Contains(round.Reason, "locked") {
		t.Errorf("state %s: %s", round.State, round.Reason)
	}
	mustExec(t, conn, `ROLLBACK`)
	if got := len(r.mustPoll(afterAll)); got != 1 {
		t.Errorf("%d calls once the lock is gone", got)
	}
	// A read holds nothing when it is done, and could not have written.
	var open int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kvwatch' AND datname = 'slow' AND state <> 'idle'`).Scan(&open); err != nil || open != 0 {
		t.Errorf("%d transactions stay open: %v", open, err)
	}
	err := r.reader.inTransaction(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM "LiteLLM_SpendLogs"`)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a write within a read: %v", err)
	}
}

// secretInAFile is read at every connect.
func secretInAFile(t *testing.T, server *postgres) {
	file := filepath.Join(t.TempDir(), "litellm.dsn")
	c := DefaultSpendLogsConfig()
	c.DSNFile = "litellm.dsn"
	c.SetDirectory(filepath.Dir(file))
	r := read(t, c)
	if _, round := r.poll(afterAll); round.State != StateDown || !strings.Contains(round.Reason, "litellm.dsn") {
		t.Errorf("state %s: %s", round.State, round.Reason)
	}
	for _, step := range []struct {
		text string
		want State
	}{
		{" \n", StateDown},
		{server.dsn("kvwatch", "wrong", "litellm"), StateUnauthorised},
		{server.dsn("kvwatch", "kv-secret", "litellm") + "\n", StateUp},
	} {
		if err := os.WriteFile(file, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, round := r.poll(afterAll); round.State != step.want {
			t.Errorf("state %s: %s, want %s", round.State, round.Reason, step.want)
		}
	}
}

// theLoop reads by itself; a reload keeps its place, and drops what is gone.
func theLoop(t *testing.T, dsn string) {
	var mu sync.Mutex
	counts := map[string]int{}
	done := make(chan string, 100)
	var logs *SpendLogs
	entry := func(name string) SpendLogsConfig {
		c := spendConfig(dsn)
		c.Name, c.Interval, c.Lookback = name, model.Duration(5*time.Second), model.Duration(100*365*24*time.Hour)
		return c
	}
	logs, err := NewSpendLogs(SpendLogsOptions{
		Configs: []SpendLogsConfig{entry("a")},
		Sink: func(_ context.Context, r *CallRound) {
			mu.Lock()
			counts[r.Source] += len(r.Calls)
			mu.Unlock()
			if len(r.Calls) == 0 {
				done <- r.Source
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- logs.Run(ctx) }()
	if name := <-done; name != "a" {
		t.Errorf("%s was read", name)
	}
	changed := entry("a")
	changed.PageSize = 7
	if err := logs.Reload([]SpendLogsConfig{changed, entry("b")}); err != nil {
		t.Fatal(err)
	}
	if name := <-done; name != "b" {
		t.Errorf("%s was read", name)
	}
	if err := logs.Reload([]SpendLogsConfig{{Name: "broken"}}); err == nil || !strings.Contains(err.Error(), "dsn is missing") {
		t.Errorf("a reload that cannot be: %v", err)
	}
	if got := logs.Status(); len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
		t.Errorf("after a failed reload: %+v", got)
	}
	if err := logs.Reload([]SpendLogsConfig{changed}); err != nil {
		t.Fatal(err)
	}
	if got := logs.Status(); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("after a reload: %+v", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if counts["a"] != 2261 || counts["b"] != 2261 {
		t.Errorf("calls: %v", counts)
	}
}

// sessionIsCut by an administrator: the next read connects anew.
func sessionIsCut(t *testing.T, server *postgres, dsn string) {
	r := read(t, spendConfig(dsn))
	first := len(r.mustPoll(afterAll))
	mustExec(t, server.connect(t, "litellm"), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'kvwatch' AND usename = 'kvwatch'`)
	if second := len(r.mustPoll(afterAll.Add(time.Minute))); first != 2261 || second != 0 {
		t.Errorf("%d calls, then %d", first, second)
	}
}

// lostAndBack stops the server for a while.
func lostAndBack(t *testing.T, server *postgres, dsn string) {
	r := read(t, spendConfig(dsn))
	r.mustPoll(afterAll)
	server.stop()
	for i := range 2 {
		if _, round := r.poll(afterAll.Add(time.Minute)); round.State != StateDown || round.Reason == "" {
			t.Errorf("read %d: state %s: %s", i, round.State, round.Reason)
		}
	}
	server.start()
	conn := server.connect(t, "litellm")
	insert(t, conn, "new", "20:59:00", "20:59:30", "'{}'")
	if got := len(r.mustPoll(afterAll.Add(2 * time.Minute))); got != 1 {
		t.Errorf("%d calls after the outage, want the new one", got)
	}
	if r.reader.pause() != 30*time.Second {
		t.Errorf("it still waits %s", r.reader.pause())
	}
}

func TestSpendLogsConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"nothing":            {"{}", "line 1: spend_logs: dsn is missing"},
		"both":               {"{dsn: x, dsn_file: y}", "dsn_file is given beside dsn"},
		"unknown key":        {"{dsn: x, dns_file: y}", `spend_logs: unknown key "dns_file"`},
		"too often":          {"{dsn: x, interval: 1s}", "interval must be at least 5s"},
		"no duration":        {"{dsn: x, lookback: long}", "lookback is not valid"},
		"no lookback":        {"{dsn: x, lookback: 0s}", "lookback must be more than 0"},
		"no overlap":         {"{dsn: x, overlap: 0s}", "overlap must be more than 0"},
		"a page too large":   {"{dsn: x, page_size: 100000}", "page_size must be between 1 and 20000"},
		"no table":           {`{dsn: x, table: ""}`, "table is empty"},
		"the secret is kept": {"{dsn: [hunter2]}", "line 1: spend_logs: wrong kind of value"},
	} {
		var got SpendLogsConfig
		d := yaml.NewDecoder(strings.NewReader(c.text))
		d.KnownFields(true)
		err := d.Decode(&got)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	var got []SpendLogsConfig
	if err := yaml.Unmarshal([]byte("[{dsn_file: a}, {dsn_file: b, name: x}]"), &got); err != nil {
		t.Fatal(err)
	}
	if err := CheckSpendLogs(got); err != nil || got[0].Name != "spend_logs/0" || got[1].Name != "x" || got[0].PageSize != 5000 {
		t.Errorf("%v: %+v", err, got)
	}
	if err := CheckSpendLogs([]SpendLogsConfig{got[0], got[0]}); err == nil || !strings.Contains(err.Error(), `"spend_logs/0" is used twice`) {
		t.Errorf("a name twice: %v", err)
	}
	if out, err := yaml.Marshal(SpendLogsConfig{DSN: "hunter2"}); err != nil || strings.Contains(string(out), "hunter2") {
		t.Errorf("the secret is shown: %s %v", out, err)
	}
	if _, err := NewSpendLogs(SpendLogsOptions{}); err == nil {
		t.Error("a log without a sink")
	}
}
