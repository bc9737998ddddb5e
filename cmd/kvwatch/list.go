package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kingpin/v2"

	"kvwatch/alerting"
	"kvwatch/collector"
	"kvwatch/rules"
)

// listCommand prints what this build can read, derive, detect and tell.
func listCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("list", "Lists derived series, detectors with their settings, sources and receivers.")
	return cmd.FullCommand(), func(_ context.Context, stdout io.Writer) error {
		w := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', 0)
		registry := rules.Registered()
		fmt.Fprintln(w, "DERIVED SERIES\tKIND\tLABELS\tMEANING")
		for _, r := range registry.Recordings {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, r.Kind, strings.Join(r.Labels, ", "), r.Help)
		}
		fmt.Fprintln(w, "\nDETECTOR\tSEVERITY\tFOR\tMEANING")
		for _, a := range registry.Alerts {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", a.Name, a.Severity, a.For, a.Help)
			for _, s := range a.Settings {
				fmt.Fprintf(w, "  %s\t\t%v\t%s\n", s.Name, s.Default, s.Help)
			}
		}
		fmt.Fprintln(w, "\nSOURCE\tFAMILIES READ")
		for _, s := range collector.Sources() {
			fmt.Fprintf(w, "%s\t%d, such as %s\n", s.Name, len(s.Families), s.Families[0])
		}
		fmt.Fprintln(w, "\nRECEIVER\tEXAMPLE\t\tMEANING")
		for _, r := range alerting.Registered() {
			fmt.Fprintf(w, "%s\t%s\t\t%s\n", r.Name, r.Example, r.Help)
		}
		return w.Flush()
	}
}
