// Package settings describes the settings of bots, upstreams and other things as the fields of Go
// structs. A field's tags say more: json is its name, and omitempty that it may be missing; secret
// that it is sealed and not shown again; to the setting with the address that it is sent to, or the
// first of several.
//
// A struct may have a method Validate() error, whose error says in words what is wrong.
package settings

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/i18n"
)

const (
	msgNoSetting = i18n.Message("no setting is called %q; there are %s")
	msgNoFit     = i18n.Message("%s: %q does not fit (%s)")
)

// Values are settings as JSON values, by name.
type Values map[string]json.RawMessage

// Field is one setting.
type Field struct {
	Name     string
	Type     reflect.Type
	Secret   bool
	Required bool // it has no omitempty
	// AddressField is the setting with the address that the value is sent to, or several with
	// commas between, of which the first that is set counts; empty: the value is not sent to an
	// address among the settings.
	AddressField string
}

// Schema makes the structs whose fields are the settings. It returns pointers to zero values.
type Schema []func() any

// Fields lists the settings, with those of embedded structs.
func (s Schema) Fields() []Field {
	var list []Field
	for _, make := range s {
		list = append(list, fieldsOf(reflect.TypeOf(make()))...)
	}
	return list
}

func fieldsOf(t reflect.Type) (list []Field) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			list = append(list, fieldsOf(f.Type)...)
		case name != "" && name != "-":
			list = append(list, Field{name, f.Type, f.Tag.Get("secret") == "true",
				!strings.Contains(options, "omitempty"), f.Tag.Get("to")})
		}
	}
	return list
}

// Field returns the setting with a name.
func (s Schema) Field(name string) (Field, error) {
	var names []string
	for _, f := range s.Fields() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return Field{}, msgNoSetting.Errorf(name, strings.Join(names, ", "))
}

// Change sets settings, given as texts by name; an empty text removes a setting. Secrets that were
// given for another origin than they would be sent to now are removed, unless they are given again;
// dropped has their names. The result is not validated.
func (s Schema) Change(v Values, set map[string]string) (dropped []string, err error) {
	before := maps.Clone(v)
	for name, text := range set {
		if err := s.set(v, name, text); err != nil {
			return nil, err
		}
	}
	for _, f := range s.Fields() {
		if f.AddressField == "" || v[f.Name] == nil || set[f.Name] != "" || before.Origin(f) == v.Origin(f) {
			continue
		}
		delete(v, f.Name)
		dropped = append(dropped, f.Name)
	}
	return dropped, nil
}

func (s Schema) set(v Values, name, text string) error {
	f, err := s.Field(name)
	if err != nil {
		return err
	}
	if text == "" {
		delete(v, name)
		return nil
	}
	for _, candidate := range candidates(f.Type, text) {
		if json.Unmarshal(candidate, reflect.New(f.Type).Interface()) == nil {
			v[name] = candidate
			return nil
		}
	}
	return msgNoFit.Errorf(name, text, f.Form().expected())
}

// candidates returns the possible JSON values of a text, best first.
func candidates(t reflect.Type, text string) []json.RawMessage {
	quoted, _ := json.Marshal(text)
	asJSON := json.RawMessage(text)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.String:
		return []json.RawMessage{quoted}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		list, _ := json.Marshal(SplitList(text))
		if json.Valid(asJSON) {
			return []json.RawMessage{asJSON, list}
		}
		return []json.RawMessage{list}
	case t.Kind() == reflect.Bool:
		if b, ok := ParseBool(text); ok {
			return []json.RawMessage{json.RawMessage(strconv.FormatBool(b))}
		}
	}
	if json.Valid(asJSON) {
		return []json.RawMessage{asJSON, quoted}
	}
	return []json.RawMessage{quoted}
}

// Validate decodes the settings into each struct and validates them.
func (s Schema) Validate(v Values) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	for _, make := range s {
		into := make()
		if err := json.Unmarshal(text, into); err != nil {
			return err
		}
		if c, ok := into.(interface{ Validate() error }); ok {
			if err := c.Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// ChangeStruct is [Schema.Change] for the settings in a struct, which into points to.
func ChangeStruct(into any, set map[string]string) (dropped []string, err error) {
	v, err := valuesOf(into)
	if err != nil {
		return nil, err
	}
	s := Schema{func() any { return into }}
	if dropped, err = s.Change(v, set); err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	fresh := reflect.New(reflect.TypeOf(into).Elem())
	if err := json.Unmarshal(text, fresh.Interface()); err != nil {
		return nil, err
	}
	reflect.ValueOf(into).Elem().Set(fresh.Elem())
	return dropped, nil
}

// MaskStruct returns the settings in a struct, which from points to, with masked secrets.
func MaskStruct(from any) (Values, error) {
	v, err := valuesOf(from)
	if err != nil {
		return nil, err
	}
	return v, Schema{func() any { return from }}.Mask(v, Masked)
}

func valuesOf(from any) (v Values, err error) {
	text, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	return v, json.Unmarshal(text, &v)
}
