package rules

import (
	"embed"
	"io/fs"
)

//go:embed runbooks/*.md
var runbooks embed.FS

// Runbooks holds one page for each alert, <name>.md: what it means, what to
// look at, what to do.
func Runbooks() fs.FS {
	sub, err := fs.Sub(runbooks, "runbooks")
	if err != nil {
		panic(err) // the folder is part of the build
	}
	return sub
}
