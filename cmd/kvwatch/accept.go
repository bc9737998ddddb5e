package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/alecthomas/kingpin/v2"
)

// acceptCommand tells a running daemon that what a pool's cache does now is normal.
func acceptCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("accept", "Takes the present cache behaviour of a pool as the new normal: its alerts end and it learns again.")
	pool := cmd.Arg("pool", "Name of the pool, as alerts and the page show it.").Required().String()
	daemon := clientFor(cmd)
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		answer, err := daemon.ask(ctx, http.MethodPost, "/api/v1/kvwatch/accept?pool="+url.QueryEscape(*pool), nil)
		if err != nil {
			return err
		}
		fmt.Fprint(stdout, answer)
		return nil
	}
}
