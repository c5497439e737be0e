package settings

import (
	"encoding/json"
	"reflect"
	"strings"

	"patchbay/internal/i18n"
)

// FieldText is what people are told of a setting.
type FieldText struct {
	Label, Hint i18n.Message
	// Example is a value. Those of natural language are translated, and the others are as they are.
	Example i18n.Message
}

// Form is the text form of a setting.
type Form string

// Forms of settings.
const (
	FormText         Form = "text"
	FormNumber       Form = "number"
	FormInteger      Form = "whole"  // an integer
	FormBool         Form = "yes_no" // true or false; empty means false
	FormOptionalBool Form = "maybe"  // true, false, or empty, which is a third value
	FormDuration     Form = "duration"
	FormList         Form = "list"   // texts, separated by commas
	FormObject       Form = "object" // in JSON
)

// What a text has to be to fit a form.
const (
	msgExpectDuration = i18n.Message("a duration such as 45s")
	msgExpectBool     = i18n.Message("true or false")
	msgExpectObject   = i18n.Message("a JSON object")
	msgExpectList     = i18n.Message("a list, separated by commas")
	msgExpectNumber   = i18n.Message("a number")
)

func (f Form) expected() i18n.Message {
	switch f {
	case FormDuration:
		return msgExpectDuration
	case FormBool, FormOptionalBool:
		return msgExpectBool
	case FormList:
		return msgExpectList
	case FormNumber, FormInteger:
		return msgExpectNumber
	}
	return msgExpectObject
}

// Form returns the text form of a setting.
func (f Field) Form() Form {
	t := f.Type
	optional := t.Kind() == reflect.Pointer
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Duration]():
		return FormDuration
	case t.Kind() == reflect.Bool && optional:
		return FormOptionalBool
	case t.Kind() == reflect.Bool:
		return FormBool
	case t.Kind() == reflect.String:
		return FormText
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return FormList
	case t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32:
		return FormNumber
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return FormInteger
	}
	return FormObject
}

// Text returns a value in the form that [Schema.Change] accepts: strings without quotes, lists with
// commas.
func Text(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var list []string
	if json.Unmarshal(value, &list) == nil && !strings.Contains(strings.Join(list, ""), ",") {
		return strings.Join(list, ", ")
	}
	return string(value)
}
