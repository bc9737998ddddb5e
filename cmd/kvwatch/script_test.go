package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary answer to the name kvwatch, so that scripts
// and process tests run the real main.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kvwatch": main, "kvwatch-jailed": jailed, "kvwatch-cramped": cramped, "kvwatch-bystander": bystander})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true})
}
