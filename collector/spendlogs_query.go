package collector

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// sqlTime is how a time is written into a query; columns are UTC without a zone.
const sqlTime = "2006-01-02 15:04:05.000000"

// longestMetadata bounds the metadata that is read as text where a version
// wrote it as a JSON string, in characters.
const longestMetadata = 65_536

// spendColumns are all columns that are ever read: nothing that was said, and
// nothing that tells who said it.
var spendColumns = []string{ //nolint:gochecknoglobals // a table
	"request_id", "startTime", "endTime", "completionStartTime", "session_id", "model", "model_group", "model_id",
	"api_base", "status", "cache_hit", "prompt_tokens", "completion_tokens", "cached_tokens", "cache_read_input_tokens", "metadata",
}

// neededColumns are those without which a row says nothing.
var neededColumns = []string{"request_id", "startTime", "endTime"} //nolint:gochecknoglobals // a table

// spendTable is what was found out about the table: versions differ, and a role
// may be allowed to read some columns only.
type spendTable struct {
	// name is the quoted name.
	name string
	// columns gives the type of each column that exists and may be read.
	columns map[string]string
	// missing and forbidden are wanted columns that do not exist, or may not be read.
	missing, forbidden []string
	// rows is PostgreSQL's own estimate; negative is unknown.
	rows float64
	// indexed says that an index begins with startTime; a view cannot tell.
	indexed bool
	probed  time.Time
	// keys and details are the two queries.
	keys, details string
}

// settings bound what one transaction may cost the server. They are set locally,
// because a pooler before the server refuses them as the connection's own.
func settings(timeout time.Duration) string {
	ms := strconv.FormatInt(timeout.Milliseconds(), 10)
	return "SET LOCAL statement_timeout = " + ms + "; SET LOCAL lock_timeout = 200;" +
		" SET LOCAL idle_in_transaction_session_timeout = 10000; SET LOCAL work_mem = '32MB';" +
		" SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off;" +
		" SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO'"
}

// probe finds out what the table is like. It never counts its rows.
func probe(ctx context.Context, tx pgx.Tx, c *SpendLogsConfig, schema string) (*spendTable, error) {
	parts := pgx.Identifier{c.Table}
	if schema != "" {
		parts = pgx.Identifier{schema, c.Table}
	}
	t := &spendTable{name: parts.Sanitize(), columns: map[string]string{}}
	var oid int64
	err := tx.QueryRow(ctx, `SELECT c.oid::bigint, c.reltuples::float8, c.relkind IN ('v', 'm') OR EXISTS (
		SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
		WHERE i.indrelid = c.oid AND a.attname = 'startTime')
		FROM pg_class c WHERE c.oid = to_regclass($1::text)`, t.name).Scan(&oid, &t.rows, &t.indexed)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT attname::text, atttypid::regtype::text, has_column_privilege(attrelid, attnum, 'SELECT')
		FROM pg_attribute WHERE attrelid = $1::bigint::oid AND attnum > 0 AND NOT attisdropped AND attname = ANY ($2::text[])`, oid, spendColumns)
	if err != nil {
		return nil, err
	}
	var name, kind string
	var allowed bool
	found := map[string]bool{}
	if _, err := pgx.ForEachRow(rows, []any{&name, &kind, &allowed}, func() error {
		found[name] = true
		if allowed {
			t.columns[name] = kind
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, c := range spendColumns {
		switch {
		case t.columns[c] != "", c == "cached_tokens", c == "cache_read_input_tokens": // most tables do without these two
		case found[c]:
			t.forbidden = append(t.forbidden, c)
		default:
			t.missing = append(t.missing, c)
		}
	}
	return t, t.check()
}

// check says what stands in the way of reading, and writes the queries else.
func (t *spendTable) check() error {
	for _, c := range neededColumns {
		if slices.Contains(t.forbidden, c) {
			return notAllowedError{t.name, t.forbidden}
		}
		if slices.Contains(t.missing, c) {
			return notSpendLogsError{t.name, c}
		}
	}
	t.keys = `SELECT "startTime", request_id FROM ` + t.name +
		` WHERE "startTime" >= $1::text::timestamp AND ("startTime", request_id) > ($1::text::timestamp, $2::text)` +
		` ORDER BY "startTime", request_id LIMIT $3::bigint`
	t.details = t.detailsQuery()
	return nil
}

// detailsQuery asks for rows by their ids. The bounds in time let a partitioned
// table leave its other parts alone. Of the metadata only single values are
// taken, and as text: one row that is not as expected must not fail a page.
func (t *spendTable) detailsQuery() string {
	column := func(name, kind string) string {
		if t.columns[name] == "" {
			return "NULL::" + kind
		}
		return "s." + pgx.Identifier{name}.Sanitize() + "::" + kind
	}
	fields := []string{
		`s."startTime"::timestamp`, `s."endTime"::timestamp`, column("completionStartTime", "timestamp"),
		"s.request_id::text", column("session_id", "text"), column("model", "text"), column("model_group", "text"),
		column("model_id", "text"), column("api_base", "text"), column("status", "text"), column("cache_hit", "text"),
		column("prompt_tokens", "bigint"), column("completion_tokens", "bigint"), column("cached_tokens", "text"), column("cache_read_input_tokens", "text"),
	}
	from := " FROM " + t.name + " s"
	switch kind := t.columns["metadata"]; kind {
	case "jsonb":
		// One look at the whole value in place of one for each path: it is
		// compressed, and large.
		fields = append(fields,
			"coalesce(m.usage_object #>> '{prompt_tokens_details,cached_tokens}', m.usage_object ->> 'cache_read_input_tokens',"+
				" m.additional_usage_values #>> '{prompt_tokens_details,cached_tokens}', m.additional_usage_values ->> 'cache_read_input_tokens')",
			"m.original_model_group",
			fmt.Sprintf("CASE WHEN jsonb_typeof(s.metadata) = 'string' THEN left(s.metadata #>> '{}', %d) END", longestMetadata))
		from += " LEFT JOIN LATERAL jsonb_to_record(CASE WHEN jsonb_typeof(s.metadata) = 'object' THEN s.metadata ELSE '{}' END)" +
			" AS m(usage_object jsonb, additional_usage_values jsonb, original_model_group text) ON true"
	case "":
		fields = append(fields, "NULL::text", "NULL::text", "NULL::text")
	default:
		fields = append(fields, "NULL::text", "NULL::text", fmt.Sprintf("left(s.metadata::text, %d)", longestMetadata))
	}
	return "SELECT " + strings.Join(fields, ", ") + from +
		` WHERE s."startTime" BETWEEN $1::text::timestamp AND $2::text::timestamp AND s.request_id = ANY ($3::text[])` +
		` ORDER BY s."startTime", s.request_id`
}

// spendRow is one row as it comes from the server.
type spendRow struct {
	start, end time.Time
	first      *time.Time
	id         string
	session, model, group, modelID, base, status, cacheHit,
	cachedColumn, cacheRead, cached, requested, metadata *string
	prompt, output *int64
}

// into lists where the fields of detailsQuery go.
func (r *spendRow) into() []any {
	return []any{
		&r.start, &r.end, &r.first, &r.id, &r.session, &r.model, &r.group, &r.modelID, &r.base, &r.status, &r.cacheHit,
		&r.prompt, &r.output, &r.cachedColumn, &r.cacheRead, &r.cached, &r.requested, &r.metadata,
	}
}

// call makes the call of a row; names interns what repeats.
func (r *spendRow) call(seed maphash.Seed, names *interned) Call {
	meta := r.unwrapped()
	c := Call{
		Start: r.start, End: r.end, Model: names.of(text(r.model)), ModelGroup: names.of(text(r.group)),
		RequestedModel: names.of(text(either(r.requested, meta.OriginalModelGroup))),
		Deployment:     names.of(text(r.modelID)), Host: names.host(text(r.base)),
		Failed:   text(r.status) == "failure",
		Answered: strings.EqualFold(text(r.cacheHit), "true"),
	}
	if r.session != nil && *r.session != "" {
		c.Session = max(maphash.String(seed, *r.session), 1)
	}
	if r.first != nil {
		c.FirstToken = *r.first
	}
	if r.prompt != nil && r.output != nil {
		c.PromptTokens, c.OutputTokens = max(*r.prompt, 0), max(*r.output, 0)
	}
	c.CachedTokens, c.CachedKnown = tokens(either(r.cachedColumn, r.cached, meta.cached()))
	if n, ok := tokens(r.cacheRead); !c.CachedKnown && ok && n > 0 {
		// This column is 0 where nothing was reported, so that only more says something.
		c.CachedTokens, c.CachedKnown = n, true
	}
	c.CachedTokens = min(c.CachedTokens, c.PromptTokens)
	return c
}

// wrappedMetadata is what is read from metadata that came as text.
type wrappedMetadata struct {
	UsageObject        usage   `json:"usage_object"`
	AdditionalUsage    usage   `json:"additional_usage_values"`
	OriginalModelGroup *string `json:"original_model_group"`
}

type usage struct {
	PromptTokensDetails struct {
		CachedTokens *json.Number `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CacheReadInputTokens *json.Number `json:"cache_read_input_tokens"`
}

// unwrapped reads metadata that came as text: some versions write the object as
// a string that holds JSON. What is no JSON says nothing.
func (r *spendRow) unwrapped() wrappedMetadata {
	var m wrappedMetadata
	if r.metadata == nil || json.Unmarshal([]byte(*r.metadata), &m) != nil {
		return wrappedMetadata{}
	}
	return m
}

func (m wrappedMetadata) cached() *string {
	for _, n := range []*json.Number{
		m.UsageObject.PromptTokensDetails.CachedTokens, m.UsageObject.CacheReadInputTokens,
		m.AdditionalUsage.PromptTokensDetails.CachedTokens, m.AdditionalUsage.CacheReadInputTokens,
	} {
		if n != nil {
			return new(n.String())
		}
	}
	return nil
}

// tokens reads a count; what is none is not known.
func tokens(s *string) (int64, bool) {
	if s == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(*s, 64)
	if err != nil || !(v >= 0 && v < 1<<53) {
		return 0, false
	}
	return int64(v), true
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// either is the first that is there.
func either(all ...*string) *string {
	for _, s := range all {
		if s != nil && *s != "" {
			return s
		}
	}
	return nil
}

// mostNames bounds how many names are kept: clients may ask for any model.
const mostNames = 4096

// interned holds the names that repeat from row to row once.
type interned struct{ names, hosts map[string]string }

func (n *interned) of(s string) string {
	if kept, ok := n.names[s]; ok {
		return kept
	}
	if n.names == nil || len(n.names) >= mostNames {
		n.names = map[string]string{}
	}
	n.names[s] = strings.Clone(s)
	return n.names[s]
}

// host is the host and port of a deployment's address, which may hold a key.
func (n *interned) host(base string) string {
	if kept, ok := n.hosts[base]; ok {
		return kept
	}
	if n.hosts == nil || len(n.hosts) >= mostNames {
		n.hosts = map[string]string{}
	}
	host := ""
	if u, err := url.Parse(base); err == nil {
		host = n.of(u.Host)
	}
	n.hosts[strings.Clone(base)] = host
	return host
}
