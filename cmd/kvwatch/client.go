package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
)

// mostAnswer bounds an answer of the daemon, in bytes.
const mostAnswer = 64 << 20

// client asks a running daemon.
type client struct {
	url string
}

// clientFor declares the flag that says where the daemon is.
func clientFor(cmd *kingpin.CmdClause) *client {
	c := &client{}
	cmd.Flag("url", "Address of the running daemon; with basic authentication http://user:password@host:port.").Default("http://localhost:14600").StringVar(&c.url)
	return c
}

// ask sends one request and returns the answer. body may be nil.
func (c *client) ask(ctx context.Context, method, path string, body any) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text := ""
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return "", err
		}
		text = string(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.url, "/")+path, strings.NewReader(text))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("no daemon answers: %w; give its address with --url", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", res.Status, said(answer))
	}
	return string(answer), nil
}

// get asks for JSON.
func (c *client) get(ctx context.Context, path string, into any) error {
	answer, err := c.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(answer), into); err != nil {
		return fmt.Errorf("%s is no kvwatch: its answer is %w", c.url, err)
	}
	return nil
}

// said is an error as the daemon wrote it: text, or a JSON string.
func said(answer []byte) string {
	var text string
	if err := json.Unmarshal(answer, &text); err == nil {
		return text
	}
	return strings.TrimSpace(string(answer))
}
