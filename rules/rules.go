// Package rules derives the capacity series from what was collected and judges
// them: recorded series with their quality, detectors with their state, and the
// alerts that follow. Rules are functions of a window of history and a time, so
// that the daemon, the backtest and the demo run the very same code.
package rules
