package web

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// runbookPage frames a runbook. The body comes from goldmark, which drops raw
// HTML and unsafe addresses; the title is escaped by the template.
var runbookPage = template.Must(template.New("runbook").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Name}} – kvwatch runbook</title>
<link rel="stylesheet" href="../static/style.css">
<link rel="icon" href="../static/icon.svg" type="image/svg+xml">
<script src="../static/theme.js"></script>
</head>
<body>
<main class="runbook">
<p><a href="../">← the fleet</a></p>
{{.Body}}
</main>
</body>
</html>
`))

// renderRunbooks turns every <alert name>.md of the file system into a page.
func renderRunbooks(files fs.FS) (map[string][]byte, error) {
	pages := map[string][]byte{}
	if files == nil {
		return pages, nil
	}
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, fmt.Errorf("list the runbooks: %w", err)
	}
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table))
	for _, file := range names {
		source, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, fmt.Errorf("read the runbook %s: %w", file, err)
		}
		name := strings.TrimSuffix(path.Base(file), ".md")
		var body, page bytes.Buffer
		if err := markdown.Convert(source, &body); err != nil {
			return nil, fmt.Errorf("render the runbook %s: %w", file, err)
		}
		err = runbookPage.Execute(&page, struct {
			Name string
			Body template.HTML
		}{name, template.HTML(body.String())}) //nolint:gosec // goldmark's output: raw HTML is dropped.
		if err != nil {
			return nil, fmt.Errorf("render the runbook %s: %w", file, err)
		}
		pages[name] = page.Bytes()
	}
	return pages, nil
}

// runbook serves a rendered runbook.
func (p *page) runbook(w http.ResponseWriter, r *http.Request) {
	body, ok := p.runbooks[r.PathValue("name")]
	if !ok {
		http.Error(w, "There is no runbook of that name.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	p.write(w, body)
}
