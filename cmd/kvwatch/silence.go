package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/user"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"kvwatch/alerting"
)

// silencesPath is the address of the silences, as in Alertmanager.
const silencesPath = "/api/v2/silences"

// silenceGroup is the parent of the commands about silences, made by whichever
// is declared first.
func silenceGroup(app *kingpin.Application) *kingpin.CmdClause {
	if cmd := app.GetCommand("silence"); cmd != nil {
		return cmd
	}
	return app.Command("silence", "Keeps alerts of a running daemon from being told for a while.")
}

// silenceAddCommand makes a silence.
func silenceAddCommand(app *kingpin.Application) (string, action) {
	cmd := silenceGroup(app).Command("add", `Silences alerts, e.g. kvwatch silence add alertname=TargetDown instance=~"vllm-.*" --duration=2h --comment="roll-out".`)
	matchers := cmd.Arg("matcher", "label=value, with =, !=, =~ or !~; all must hold.").Required().Strings()
	duration := model.Duration(time.Hour)
	cmd.Flag("duration", "How long.").Default("1h").SetValue(&duration)
	comment := cmd.Flag("comment", "Why.").Required().String()
	author := cmd.Flag("author", "Who; default: the user who runs this.").Default(whoami()).String()
	daemon := clientFor(cmd)
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		now := time.Now()
		s := alerting.Silence{StartsAt: now, EndsAt: now.Add(time.Duration(duration)), CreatedBy: *author, Comment: *comment}
		for _, text := range *matchers {
			m, err := alerting.ParseSilenceMatcher(text)
			if err != nil {
				return err
			}
			s.Matchers = append(s.Matchers, m)
		}
		answer, err := daemon.ask(ctx, http.MethodPost, silencesPath, s)
		if err != nil {
			return err
		}
		var made struct {
			ID string `json:"silenceID"`
		}
		if err := json.Unmarshal([]byte(answer), &made); err != nil || made.ID == "" {
			return fmt.Errorf("the daemon did not say that the silence is in effect: %s", answer)
		}
		fmt.Fprintf(stdout, "%s silences %s until %s. End it with: kvwatch silence expire %s\n", made.ID, matchersText(s), inUTC(s.EndsAt), made.ID)
		return nil
	}
}

// whoami names the user who runs the command; "" when the system does not say.
func whoami() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// silenceListCommand lists the silences.
func silenceListCommand(app *kingpin.Application) (string, action) {
	cmd := silenceGroup(app).Command("list", "Lists the silences that are in effect or will be.")
	expired := cmd.Flag("expired", "Those that ended in the last five days too.").Bool()
	output := cmd.Flag("output", "text or json.").Default("text").Enum("text", "json")
	daemon := clientFor(cmd)
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		var all []alerting.Silence
		if err := daemon.get(ctx, silencesPath, &all); err != nil {
			return err
		}
		shown := []alerting.Silence{}
		for _, s := range all {
			if *expired || s.Status.State != alerting.SilenceExpired {
				shown = append(shown, s)
			}
		}
		if *output == "json" {
			e := json.NewEncoder(stdout)
			e.SetIndent("", "  ")
			return e.Encode(shown)
		}
		if len(shown) == 0 {
			fmt.Fprintln(stdout, "Nothing is silenced.")
		}
		for _, s := range shown {
			fmt.Fprintf(stdout, "%s  %-7s  %s  %s to %s  %s: %s\n", s.ID, s.Status.State, matchersText(s), inUTC(s.StartsAt), inUTC(s.EndsAt), s.CreatedBy, s.Comment)
		}
		return nil
	}
}

func matchersText(s alerting.Silence) string {
	texts := make([]string, 0, len(s.Matchers))
	for _, m := range s.Matchers {
		texts = append(texts, m.String())
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// silenceExpireCommand ends silences.
func silenceExpireCommand(app *kingpin.Application) (string, action) {
	cmd := silenceGroup(app).Command("expire", "Ends silences now.")
	ids := cmd.Arg("id", "IDs, as kvwatch silence list shows them.").Required().Strings()
	daemon := clientFor(cmd)
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		for _, id := range *ids {
			if _, err := daemon.ask(ctx, http.MethodDelete, "/api/v2/silence/"+url.PathEscape(id), nil); err != nil {
				return fmt.Errorf("silence %s: %w", id, err)
			}
			fmt.Fprintf(stdout, "%s has ended.\n", id)
		}
		return nil
	}
}
