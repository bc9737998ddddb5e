package sizing

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// number is one number of a plan.
type number struct {
	// path is where it stands; an entry of a list is its index.
	path []string
	// key is its name: the path with dots, an entry of a list by its own name. It is
	// what --set takes, and how an assumption is called.
	key string
	// value is the plan's own; nil there is absent.
	value **float64
	// bounds is its jsonschema tag.
	bounds string
}

// numbers are all numbers of the plan, the absent ones too, in its order.
func (p *Plan) numbers() []number { return numbersOf(reflect.ValueOf(p).Elem(), nil, nil) }

func numbersOf(v reflect.Value, path, names []string) []number {
	var all []number
	for i := range v.NumField() {
		field, f := v.Type().Field(i), v.Field(i)
		name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		in, called := with(path, name), with(names, name)
		switch {
		case option == "inline":
			all = append(all, numbersOf(f, path, names)...)
		case !field.IsExported():
		case f.Type() == reflect.TypeFor[*float64]():
			all = append(all, number{in, strings.Join(called, "."), f.Addr().Interface().(**float64), field.Tag.Get("jsonschema")})
		case f.Kind() == reflect.Struct:
			all = append(all, numbersOf(f, in, called)...)
		case f.Kind() == reflect.Slice:
			for j := range f.Len() {
				all = append(all, numbersOf(f.Index(j), with(in, strconv.Itoa(j)), with(called, entryName(f.Index(j), j)))...)
			}
		}
	}
	return all
}

// entryName is how an entry of a list is called: by its name, else its index.
func entryName(entry reflect.Value, index int) string {
	if name := entry.FieldByName("Name"); name.IsValid() && name.String() != "" {
		return name.String()
	}
	return strconv.Itoa(index)
}

// with returns path with one more segment; it never shares its end.
func with(path []string, segment string) []string { return append(slices.Clone(path), segment) }
