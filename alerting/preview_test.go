package alerting

import (
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/slack-go/slack"
)

var preview = flag.String("preview", "", "folder into which the messages are written as pages that look like Slack on a phone")

// page writes an incident as Slack lays it out on a phone, as far as a browser
// can tell: for a look at length, breaks and what stands first.
func page(t *testing.T, file, title string, list []stage) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=420"><title>%s</title><style>
body { font: 15px/1.46 Lato, "Segoe UI", Roboto, "DejaVu Sans", "Noto Color Emoji", sans-serif; color: #1d1c1d; background: #fff; margin: 0; width: 390px; padding: 0 15px }
h1 { font-size: 13px; color: #616061; border-bottom: 1px solid #ddd; margin: 14px 0 6px }
.app { font-weight: 700 } .app span { background: #e8e8e8; font-size: 10px; padding: 1px 3px; border-radius: 2px; color: #616061 }
.header { font-size: 18px; font-weight: 800; margin: 6px 0 } .context { font-size: 13px; color: #616061; margin: 6px 0 } .section { margin: 8px 0 }
.actions { display: flex; flex-wrap: wrap; gap: 8px; margin: 10px 0 } .actions span { border: 1px solid #bbb; border-radius: 4px; padding: 4px 12px; font-weight: 700; font-size: 14px }
.actions .primary { background: #007a5a; color: #fff; border-color: #007a5a } .reply { margin-left: 22px; border-left: 3px solid #ddd; padding-left: 10px }
a { color: #1264a3; text-decoration: none }</style>`, title)
	for i, s := range list {
		fmt.Fprintf(&b, "<h1>%s, %s</h1>", s.name, clockAt(s.n.Now, "15:04")(s.n.Now))
		layout(t, &b, "", slackRoot(s.n, true))
		if _, reply, _ := slackReply(s.n, i == 0); len(reply) > 0 {
			layout(t, &b, "reply", reply)
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func layout(t *testing.T, b *strings.Builder, class string, blocks []slack.Block) {
	t.Helper()
	fmt.Fprintf(b, `<div class="%s"><div class="app">kvwatch <span>APP</span></div>`, class)
	for _, block := range blocks {
		if actions, ok := block.(*slack.ActionBlock); ok {
			b.WriteString(`<div class="actions">`)
			for _, e := range actions.Elements.ElementSet {
				button := e.(*slack.ButtonBlockElement)
				fmt.Fprintf(b, `<span class="%s">%s</span>`, button.Style, html.EscapeString(button.Text.Text))
			}
			b.WriteString(`</div>`)
			continue
		}
		text, _ := blockText(t, block)
		fmt.Fprintf(b, `<div class="%s">%s</div>`, block.BlockType(), marked(text, block.BlockType()))
	}
	b.WriteString(`</div>`)
}

var (
	slackDate    = regexp.MustCompile(`<!date\^[^|]*\|([^>]*) UTC>`)
	slackAddress = regexp.MustCompile(`<(http[^|>]*)\|([^>]*)>`)
	slackStrong  = regexp.MustCompile(`\*([^*\n]+)\*`)
)

// marked turns Slack's marks into HTML. What Slack gets is escaped already.
func marked(text string, in slack.MessageBlockType) string {
	if in == slack.MBTHeader {
		return html.EscapeString(text)
	}
	text = slackDate.ReplaceAllString(text, "$1")
	text = slackAddress.ReplaceAllString(text, `<a href="$1">$2</a>`)
	text = slackStrong.ReplaceAllString(text, "<b>$1</b>")
	return strings.ReplaceAll(text, "\n", "<br>")
}
