package collector

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/common/model"
)

// benchRows is how large a table the benchmark reads; `make bench-spendlogs`
// asks for 10 million rows.
func benchRows(b *testing.B) int {
	b.Helper()
	text := os.Getenv("KVWATCH_BENCH_SPENDLOGS_ROWS")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("KVWATCH_BENCH_SPENDLOGS_ROWS is %q: give a number of rows", text)
	}
	return n
}

// madeRow is one row in the making, ten a second, the last one at afterAll; $1
// is the first number and $2 the last.
const madeRow = `INSERT INTO "LiteLLM_SpendLogs" (request_id, call_type, api_key, total_tokens, prompt_tokens, completion_tokens,
	"startTime", "endTime", "completionStartTime", model, model_id, model_group, api_base, metadata, session_id, status)
SELECT 'chatcmpl-' || md5(i::text), 'acompletion', md5('key'), 20300, 20000, 300,
	'2026-11-29 21:00'::timestamp - (%[3]d - i) * interval '100 ms', '2026-11-29 21:00'::timestamp - (%[3]d - i) * interval '100 ms' + interval '8 s',
	'2026-11-29 21:00'::timestamp - (%[3]d - i) * interval '100 ms' + interval '1 s',
	'hosted_vllm/qwen3-coder-30b', 'engine-' || i %% 8, 'agents-30b', 'http://10.0.0.' || i %% 8 || ':8000/v1/chat/completions',
	jsonb_build_object('usage_object', jsonb_build_object('prompt_tokens', 20000, 'completion_tokens', 300, 'prompt_tokens_details', jsonb_build_object('cached_tokens', 18000 + i %% 2000)),
		'litellm_call_id', md5((i + 1)::text), 'attempted_retries', 0, 'original_model_group', 'agents-30b'),
	'session-' || i / 40, 'success'
FROM generate_series(%[1]d, %[2]d) i`

// madeTable makes a table of n rows with the real schema and its indexes.
func madeTable(b *testing.B, conn *pgx.Conn, n int) {
	b.Helper()
	text, err := os.ReadFile("testdata/spendlogs_schema.sql")
	if err != nil {
		b.Fatal(err)
	}
	table, indexes, _ := strings.Cut(string(text), "ALTER TABLE")
	mustExec(b, conn, strings.Replace(table, "CREATE TABLE", "CREATE UNLOGGED TABLE", 1))
	const part = 500_000
	for i := 1; i <= n; i += part {
		mustExec(b, conn, fmt.Sprintf(madeRow, i, min(i+part-1, n), n))
	}
	mustExec(b, conn, "SET maintenance_work_mem = '512MB'", "ALTER TABLE"+indexes, `ANALYZE "LiteLLM_SpendLogs"`)
	var size string
	var longest int
	if err := conn.QueryRow(b.Context(), `SELECT pg_size_pretty(pg_total_relation_size('"LiteLLM_SpendLogs"')), max(length(metadata::text))
		FROM "LiteLLM_SpendLogs" WHERE "startTime" > '2026-11-29 20:59'`).Scan(&size, &longest); err != nil {
		b.Fatal(err)
	}
	if longest > 300 {
		b.Fatalf("metadata has %d bytes: at most 300 were asked for", longest)
	}
	b.Logf("%d rows, %s, metadata of %d bytes", n, size, longest)
}

// backendCPU is the CPU time that the server spent on a reader's connection.
func backendCPU(b *testing.B, r *reading) time.Duration {
	b.Helper()
	if r.reader.conn == nil {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.reader.conn.PgConn().PID()))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var ticks int
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// BenchmarkSpendLogs reads a large table: all that a start looks back on, and
// what a read every 30 seconds costs after that.
func BenchmarkSpendLogs(b *testing.B) {
	n := benchRows(b)
	server := startPostgres(b)
	conn := server.database(b, "large")
	madeTable(b, conn, n)
	for _, lookback := range []time.Duration{2 * time.Hour, 24 * time.Hour} {
		b.Run("catch up "+lookback.String(), func(b *testing.B) {
			c := spendConfig(server.dsn("postgres", postgresPassword, "large"))
			c.Lookback = model.Duration(lookback)
			rows, most, cpu := 0, uint64(0), time.Duration(0)
			b.ReportAllocs()
			for b.Loop() {
				r := read(b, c)
				r.reader.sink = func(_ context.Context, round *CallRound) {
					rows += len(round.Calls)
					most = max(most, heap())
				}
				r.reader.poll(b.Context(), afterAll)
				cpu += backendCPU(b, r)
				r.reader.disconnect()
			}
			b.ReportMetric(float64(rows)/float64(b.N), "rows/op")
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "server-cpu-ms/op")
			b.ReportMetric(float64(most)/(1<<20), "heap-MiB")
		})
	}
	b.Run("read every 30s", func(b *testing.B) {
		r := read(b, spendConfig(server.dsn("postgres", postgresPassword, "large")))
		r.mustPoll(afterAll)
		rows, written := 0, 0
		r.reader.sink = func(_ context.Context, round *CallRound) { rows += len(round.Calls) }
		before := backendCPU(b, r)
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			mustExec(b, conn, fmt.Sprintf(madeRow, n+written+1, n+written+300, n))
			written += 300
			b.StartTimer()
			r.reader.poll(b.Context(), afterAll.Add(time.Duration(written)*100*time.Millisecond))
		}
		if rows != written {
			b.Errorf("%d of %d new rows were read", rows, written)
		}
		b.ReportMetric(float64(rows)/float64(b.N), "rows/op")
		b.ReportMetric(float64((backendCPU(b, r)-before).Microseconds())/1000/float64(b.N), "server-cpu-ms/op")
		b.ReportMetric(float64(heap())/(1<<20), "heap-MiB")
	})
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
