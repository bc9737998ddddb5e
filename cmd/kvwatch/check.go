package main

import (
	"context"
	"fmt"
	"io"

	"github.com/alecthomas/kingpin/v2"
)

// checkConfigCommand says whether a configuration file would be taken: exit code 2 if not.
func checkConfigCommand(app *kingpin.Application) (string, action) {
	cmd := checkGroup(app).Command("config", "Checks a configuration file; exits 2 when it is invalid.")
	file := cmd.Arg("file", "Configuration file.").Default("kvwatch.yml").String()
	alert := cmd.Flag("alert", "Labels of an alert, e.g. alertname=PrefixCacheCollapse,severity=critical,pool=agents: says who is told of it.").String()
	return cmd.FullCommand(), func(_ context.Context, stdout io.Writer) error {
		c, err := loadConfig(*file)
		if err == nil {
			err = named(*file, c.build())
		}
		if err != nil {
			return invalidError{err}
		}
		fmt.Fprintf(stdout, "%s is valid: %s, %s, %s, %s, %s.\n", *file,
			count(len(c.ScrapeConfigs), "scrape job"), count(len(c.Pools), "pool"), count(len(c.Alerting.Receivers), "receiver"), count(len(c.Rules), "rule override"), count(len(c.plans), "plan"))
		if *alert == "" {
			return nil
		}
		lbls, err := alertLabels(*alert)
		if err != nil {
			return err
		}
		fmt.Fprint(stdout, waysText(c, lbls))
		return nil
	}
}

// checkGroup is the parent of all checks, made by whichever is declared first.
func checkGroup(app *kingpin.Application) *kingpin.CmdClause {
	if cmd := app.GetCommand("check"); cmd != nil {
		return cmd
	}
	return app.Command("check", "Checks what was written, before it is used.")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
