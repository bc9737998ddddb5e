package main

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
)

var updateSchema = flag.Bool("update-schema", false, "write the *.schema.json again")

// checkSchema compares the schema beside a command with that of its output.
func checkSchema(t *testing.T, command string, output reflect.Type) {
	t.Helper()
	reflector := jsonschema.Reflector{Anonymous: true, ExpandedStruct: true}
	schema := reflector.ReflectFromType(output)
	schema.Title = "kvwatch " + command + " --output=json"
	holdSchema(t, command+".schema.json", schema)
}

// holdSchema compares a schema with the file that is to hold it.
func holdSchema(t *testing.T, file string, schema *jsonschema.Schema) {
	t.Helper()
	want, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *updateSchema {
		if err := os.WriteFile(file, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not that of the types; write it with go test ./cmd/kvwatch -run %s -update-schema:\n%s", file, t.Name(), diff)
	}
}
