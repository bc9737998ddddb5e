package main

import (
	"context"
	"fmt"
	"io"

	"github.com/alecthomas/kingpin/v2"
)

// checkPlanCommand says whether a sizing plan would be taken: exit code 2 if not.
func checkPlanCommand(app *kingpin.Application) (string, action) {
	cmd := checkGroup(app).Command("plan", "Checks a sizing plan and its model's config.json; exits 2 when it is invalid.")
	file := cmd.Arg("file", "Plan.").Required().String()
	return cmd.FullCommand(), func(_ context.Context, stdout io.Writer) error {
		plan, err := loadPlan(*file)
		if err != nil {
			return invalidError{err}
		}
		if problem := plan.config().Problem; problem != "" {
			return invalidError{plan.locate(fmt.Errorf("model: config_json: %s", problem))}
		}
		fmt.Fprintf(stdout, "%s is valid: plan %s, %s, %s.\n", *file, plan.Plan.Plan,
			count(max(1, len(plan.Workload.Profiles)), "profile"), count(len(plan.CriticalAssumptions), "critical assumption"))
		return nil
	}
}
