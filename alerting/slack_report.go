package alerting

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slack-go/slack"
)

// Report posts a report.
func (w *slackWebhook) Report(ctx context.Context, r Report, now time.Time) (retry bool, err error) {
	return w.post(ctx, slackEscape(r.Title), slackReport(r), now)
}

// Report posts a report as a message of its own, without a thread.
func (b *slackBot) Report(ctx context.Context, r Report, now time.Time) (retry bool, err error) {
	api, err := b.api(now)
	if err != nil {
		return false, err
	}
	if _, _, err := api.PostMessageContext(ctx, b.settings.Channel, message(slackEscape(r.Title), slackReport(r))...); err != nil {
		return slackError(err)
	}
	return false, nil
}

// slackReport lays a report out: what stands before the first colon of a line
// says what it is about, and is bold.
func slackReport(r Report) []slack.Block {
	lines := make([]string, 0, len(r.Lines))
	for _, l := range r.Lines {
		if about, rest, ok := strings.Cut(l, ": "); ok {
			lines = append(lines, slackBold(about+":")+" "+slackEscape(rest))
			continue
		}
		lines = append(lines, slackEscape(l))
	}
	blocks := append([]slack.Block{slackHeader(r.Title)}, slackSection(strings.Join(lines, "\n"))...)
	if r.Link != "" {
		blocks = append(blocks, slackContext(slackLink(r.Link, "All of it")))
	}
	return blocks
}

// slackLink is an address with words in its place.
func slackLink(address, words string) string {
	address = strings.NewReplacer("|", "%7C", ">", "%3E", "<", "%3C").Replace(address)
	return fmt.Sprintf("<%s|%s>", slackEscape(address), words)
}
