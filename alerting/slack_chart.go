package alerting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"kvwatch/alerting/chart"
	"kvwatch/rules"
)

// slackDrawn is the last picture that was asked for of an incident: slackBegin
// or slackEnd.
const (
	slackDrawn = "slack_drawn"
	slackBegin = "begin"
	slackEnd   = "end"
)

// slackEndAfter is how long an incident must have lasted for a second picture:
// the first one of a shorter one shows most of it.
const slackEndAfter = 10 * time.Minute

// picture implements illustrator: the thread gets one when it begins, and one of
// the whole incident at its end if that took a while, and no others.
func (b *slackBot) picture(n Notification) picture {
	channel, thread, known := strings.Cut(n.Memory.Get(slackThread), " ")
	which := slackPicture(n)
	if b.past == nil || !b.settings.Chart || !known || which == "" || n.Memory.Get(slackDrawn) == which {
		return nil
	}
	i := slices.IndexFunc(n.Alerts, func(a rules.Alert) bool { _, drawn := rules.ChartOf(a); return drawn })
	if i < 0 {
		return nil
	}
	a := n.Alerts[i]
	n.Memory.Set(slackDrawn, which)
	return func(ctx context.Context) (drawn bool, err error) {
		c, ok, err := chartOf(ctx, b.past, a, n.Now)
		if err != nil || !ok {
			return false, err
		}
		raw, err := c.PNG()
		if errors.Is(err, chart.ErrTooFew) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, b.upload(ctx, n.Now, slack.UploadFileParameters{
			Reader: bytes.NewReader(raw), FileSize: len(raw), Filename: "chart.png", Title: c.Title,
			AltTxt: c.Alt(), Channel: channel, ThreadTimestamp: thread,
		})
	}
}

// slackPicture says which picture goes with a notification, "" for none.
func slackPicture(n Notification) string {
	switch {
	case len(n.Alerts) == 0:
		return ""
	case n.Status() == rules.StateFiring && n.Memory.Get(slackDrawn) == "":
		return slackBegin
	case n.Reason == ReasonResolved && until(n.Alerts).Sub(since(n.Alerts)) >= slackEndAfter:
		return slackEnd
	default:
		return ""
	}
}

// upload puts a file into a thread.
func (b *slackBot) upload(ctx context.Context, now time.Time, file slack.UploadFileParameters) error {
	api, err := b.api(now)
	if err != nil {
		return err
	}
	if _, err = api.UploadFileContext(ctx, file); err == nil {
		return nil
	}
	if slackSays(err, "missing_scope") {
		return errors.New("slack: missing_scope: charts need the scope files:write: add it and install the app again, or set chart: false")
	}
	_, err = slackError(err)
	return fmt.Errorf("uploading a chart: %w", err)
}
