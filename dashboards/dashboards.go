// Package dashboards holds what people look at: the Grafana dashboards, which
// are generated here and embedded as JSON, and in its sub-packages the page
// that the daemon serves itself.
package dashboards

import "embed"

// Grafana holds the dashboards for Grafana as grafana/<name>.json. They are
// generated: see Fleet.
//
//go:embed grafana/*.json
var Grafana embed.FS
