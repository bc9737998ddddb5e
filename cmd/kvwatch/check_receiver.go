package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kingpin/v2"
)

// checkReceiverCommand checks one receiver of the configuration, and with --send
// by a message that says that it is a test.
func checkReceiverCommand(app *kingpin.Application) (string, action) {
	cmd := checkGroup(app).Command("receiver", "Sends a test message to a receiver; exits 1 when it does not get through.")
	name := cmd.Arg("name", "Name of the receiver.").Required().String()
	file := cmd.Flag("config.file", "Configuration file.").Default("kvwatch.yml").String()
	send := cmd.Flag("send", "Really send it; without, the receiver is only built.").Bool()
	externalURL := cmd.Flag("web.external-url", "The address under which people reach kvwatch, for the links in the message.").String()
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		c, err := loadConfig(*file)
		if err == nil {
			err = named(*file, c.build())
		}
		if err != nil {
			return invalidError{err}
		}
		if !*send {
			integrations, err := c.Alerting.Integrations(*name)
			if err != nil {
				return err
			}
			for _, id := range integrations {
				fmt.Fprintf(stdout, "%s: not tried; --send sends it a test message\n", id)
			}
			return nil
		}
		attempts, err := c.Alerting.SendTest(ctx, *name, *externalURL, stdout, time.Now())
		if err != nil {
			return err
		}
		var failed []error
		for _, a := range attempts {
			if a.Err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", a.Integration, a.Err))
				continue
			}
			fmt.Fprintf(stdout, "%s: %s sent\n", a.Integration, count(a.Sent, "message"))
		}
		return errors.Join(failed...)
	}
}
