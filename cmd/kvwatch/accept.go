package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
)

// acceptCommand tells a running daemon that what a pool's cache does now is normal.
func acceptCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("accept", "Takes the present cache behaviour of a pool as the new normal: its alerts end and it learns again.")
	pool := cmd.Arg("pool", "Name of the pool, as alerts and the page show it.").Required().String()
	daemon := cmd.Flag("url", "Address of the running daemon.").Default("http://localhost:14600").String()
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		address := strings.TrimSuffix(*daemon, "/") + "/api/v1/kvwatch/accept?pool=" + url.QueryEscape(*pool)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("no daemon answers: %w; give its address with --url", err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", res.Status, strings.TrimSpace(string(answer)))
		}
		fmt.Fprint(stdout, string(answer))
		return nil
	}
}
