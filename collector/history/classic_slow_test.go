//go:build slow

package history

import (
	"fmt"
	"testing"
)

// TestManyWholeHistogramsReadAsSeries compares many storages.
func TestManyWholeHistogramsReadAsSeries(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { readWholeHistograms(t, 100+seed) })
	}
}
