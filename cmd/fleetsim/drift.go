package main

import (
	"context"
	"fmt"
	"io"

	"github.com/alecthomas/kingpin/v2"

	"kvwatch/cmd/fleetsim/score"
)

// driftCommand scores the verdicts on sizing plans.
func driftCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("drift", "Holds sizing plans with one wrong assumption against simulated histories, and says which assumption was told to have drifted: a confusion matrix as Markdown.")
	seeds := cmd.Flag("seeds", "How many histories.").Default("2").Int()
	first := cmd.Flag("first-seed", fmt.Sprintf("The first seed. Those from 1 on are for tuning, those from %d on for the table.", score.DriftSeed)).Default("1").Uint64()
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		if *seeds < 1 {
			return fmt.Errorf("--seeds=%d: give at least 1", *seeds)
		}
		d, err := score.Drift(ctx, score.Seeds(*first, *seeds))
		if err != nil {
			return err
		}
		_, err = io.WriteString(stdout, d.Markdown())
		return err
	}
}
