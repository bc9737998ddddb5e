package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

// static holds the page's files. Nothing is built and nothing comes from the network.
//
//go:embed static
var static embed.FS

// asset is one file of the page, ready to be served.
type asset struct {
	body        []byte
	contentType string
	etag        string
}

// loadAssets reads all embedded files, by their path below static/.
func loadAssets() (map[string]asset, error) {
	assets := map[string]asset{}
	err := fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		assets[strings.TrimPrefix(name, "static/")] = asset{
			body:        body,
			contentType: contentType(name),
			etag:        `W/"` + hex.EncodeToString(sum[:12]) + `"`,
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load the page's files: %w", err)
	}
	return assets, nil
}

// contentType names the types that the page uses itself: a machine's own table
// may lack them or hold something else.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".txt", "":
		return "text/plain; charset=utf-8"
	default:
		return mime.TypeByExtension(path.Ext(name))
	}
}

// serveAsset serves one embedded file. The browser asks each time whether it
// still has the right one, and is told so in a few bytes: a new version shows at once.
func (p *page) serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	file, ok := p.assets[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", file.contentType)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", file.etag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(file.body))
}
