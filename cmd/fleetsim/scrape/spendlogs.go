package scrape

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"kvwatch/cmd/fleetsim/fleet"
)

const (
	// spendTime is how PostgreSQL exports the table's times, which are UTC.
	spendTime = "2006-01-02 15:04:05.000"
	// spendFlush is how often the gateway writes rows out.
	spendFlush = 10 * time.Second
)

// spendHeader are the columns of LiteLLM_SpendLogs (1.102) in their order.
var spendHeader = []string{ //nolint:gochecknoglobals // a table
	"request_id", "call_type", "api_key", "spend", "total_tokens", "prompt_tokens", "completion_tokens", "startTime", "endTime", "completionStartTime",
	"model", "model_id", "model_group", "custom_llm_provider", "api_base", "user", "metadata", "cache_hit", "cache_key", "request_tags", "team_id",
	"end_user", "requester_ip_address", "messages", "response", "proxy_server_request", "session_id", "status", "mcp_namespaced_tool_name", "agent_id",
	"request_duration_ms", "created_at", "updated_at",
}

// SpendLogs writes the calls of a fleet as an export of the gateway's table of
// calls has them: CSV with a header, one row a call, in the order in which they
// ended.
type SpendLogs struct {
	config fleet.Config
	out    []io.Closer
	rows   *csv.Writer
	calls  int
	err    error
}

// CreateSpendLogs begins a file, compressed where its name ends in .zst; it must
// not exist. The fleet's Observe must be told to call Take.
func CreateSpendLogs(path string, config fleet.Config) (*SpendLogs, error) {
	if !strings.HasSuffix(path, ".csv") && !strings.HasSuffix(path, ".csv.zst") {
		return nil, fmt.Errorf("spend logs %s: the name must end in .csv or .csv.zst", path)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("spend logs: %w", err)
	}
	s := &SpendLogs{config: config, out: []io.Closer{file}}
	var to io.Writer = file
	if strings.HasSuffix(path, ".zst") {
		z, err := zstd.NewWriter(file)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("spend logs: %w", err), file.Close())
		}
		s.out, to = append(s.out, z), z
	}
	s.rows = csv.NewWriter(to)
	s.err = s.rows.Write(spendHeader)
	return s, nil
}

// Take writes the row of a call. What is wrong is told by Close.
func (s *SpendLogs) Take(c fleet.CallRecord) {
	if s.err == nil {
		s.calls++
		s.err = s.rows.Write(s.row(c))
	}
}

// Calls is how many rows there are.
func (s *SpendLogs) Calls() int { return s.calls }

// Close ends the file.
func (s *SpendLogs) Close() error {
	s.rows.Flush()
	errs := []error{s.err, s.rows.Error()}
	for _, c := range slices.Backward(s.out) {
		errs = append(errs, c.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("spend logs: %w", err)
	}
	return nil
}

// row is a call as get_logging_payload makes it, less what is null in all rows
// of the metadata.
func (s *SpendLogs) row(c fleet.CallRecord) []string {
	at := func(t time.Duration) string { return s.config.Start.Add(t).UTC().Format(spendTime) }
	status, first, prompt, output := "success", c.FirstToken, c.PromptTokens, c.Output
	metadata := fmt.Sprintf(`{"status": null, "max_retries": 1, "usage_object": {"total_tokens": %d, "prompt_tokens": %d, "completion_tokens": %d, "prompt_tokens_details": {"text_tokens": null, "cached_tokens": %d}}, "original_model_group": %q}`,
		prompt+output, prompt, output, c.CachedTokens, s.config.GatewayModel)
	switch {
	case c.Failed:
		status, first, prompt, output = "failure", c.Ended, 0, 0
		metadata = fmt.Sprintf(`{"status": "failure", "max_retries": 1, "usage_object": null, "original_model_group": %q}`, s.config.GatewayModel)
	case !c.Streamed:
		first = c.Ended
	}
	user, engine := "user-"+strconv.Itoa(c.User), fleet.EngineName(c.Engine)
	written := at((c.Ended + spendFlush - 1) / spendFlush * spendFlush)
	return []string{
		fmt.Sprintf("chatcmpl-%016x", s.calls), "acompletion", hashed(user), "0", strconv.Itoa(prompt + output), strconv.Itoa(prompt), strconv.Itoa(output),
		at(c.Began), at(c.Ended), at(first), "hosted_vllm/" + s.config.Model, engine, s.config.GatewayModel, "hosted_vllm",
		"http://" + engine + ":8000/v1/chat/completions", user, metadata, "False", "Cache OFF", `["User-Agent: python-httpx"]`, "",
		"", "", "{}", "{}", "{}", fmt.Sprintf("s-%d", c.Session), status, "", "",
		strconv.FormatInt((c.Ended - c.Began).Milliseconds(), 10), written, written,
	}
}

// hashed is a key as LiteLLM keeps it.
func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
