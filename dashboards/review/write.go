package review

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"unicode/utf8"
)

//go:embed review.html
var pageText string

// WriteJSON writes the review for machines.
func (r *Review) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// foldedRows is how long a table may be that is folded on the page and Markdown
// still has.
const foldedRows = 25

// heading names the period.
func (r *Review) heading() string {
	return fmt.Sprintf("%s to %s (%s)", moment(r.From), moment(r.To), length(r.To.Sub(r.From)))
}

// WriteMarkdown writes the review as a text that a wiki or a ticket takes.
func (r *Review) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Capacity review\n\n%s, times are UTC.\n", r.heading())
	for _, s := range r.sections() {
		fmt.Fprintf(&b, "\n## %s\n", s.Title)
		for _, text := range s.Text {
			fmt.Fprintf(&b, "\n%s\n", escape(text))
		}
		if len(s.Items) > 0 {
			b.WriteByte('\n')
		}
		for _, item := range s.Items {
			fmt.Fprintf(&b, "- %s\n", escape(item))
		}
		for _, t := range s.Tables {
			if t.Folded && len(t.Rows) > foldedRows {
				fmt.Fprintf(&b, "\n%s: --output=json has them.\n", t.Caption)
				continue
			}
			t.markdown(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t table) markdown(b *strings.Builder) {
	b.WriteByte('\n')
	if t.Caption != "" {
		fmt.Fprintf(b, "%s:\n\n", t.Caption)
	}
	row := func(cells []string) {
		b.WriteByte('|')
		for _, cell := range cells {
			fmt.Fprintf(b, " %s |", escape(cell))
		}
		b.WriteByte('\n')
	}
	row(t.Head)
	fmt.Fprintf(b, "|%s\n", strings.Repeat(" --- |", len(t.Head)))
	for _, cells := range t.Rows {
		row(cells)
	}
}

// escape keeps names that the fleet gives (pools, instances) from being markup.
func escape(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "`", "\\`", "[", `\[`).Replace(text)
}

// long says whether a cell may be broken into lines.
func long(cell string) bool { return utf8.RuneCountInString(cell) > 30 }

// WriteHTML writes a page that needs nothing beside itself.
func (r *Review) WriteHTML(w io.Writer) error {
	page, err := template.New("review").Funcs(template.FuncMap{"long": long}).Parse(pageText)
	if err != nil {
		return err
	}
	return page.Execute(w, struct {
		Heading  string
		Sections []section
	}{r.heading(), r.sections()})
}
