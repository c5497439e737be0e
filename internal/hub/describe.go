package hub

import (
	"encoding/json"
	"reflect"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// KindText is what the console says about a kind of bot.
type KindText struct {
	Name     i18n.Message
	About    i18n.Message           // what bots of the kind do
	Needs    i18n.Message           // what one needs to add a bot
	Settings map[string]SettingText // the kind's own settings, by name
}

// SettingText is what the console says about a setting.
type SettingText struct {
	Label, Hint i18n.Message
	Example     string
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

// Setting describes a setting of a kind of bot.
type Setting struct {
	Name     string `json:"name"`
	Form     Form   `json:"form"`
	Secret   bool   `json:"secret,omitempty"`   // not shown again
	Required bool   `json:"required,omitempty"` // a bot needs it
	Shared   bool   `json:"shared,omitempty"`   // bots of every kind have it
	// Text is the text that the kind brings; empty for shared settings.
	Text SettingText `json:"-"`
}

// Describe lists the settings of a kind of bot: its own, and then those of all kinds.
func (r *Registry) Describe(kind string) ([]Setting, error) {
	k, err := r.Kind(kind)
	if err != nil {
		return nil, err
	}
	var list []Setting
	if k.Settings != nil {
		list = describedSettings(list, k.Settings(), k.Text.Settings, false)
	}
	for _, make := range r.shared {
		list = describedSettings(list, make(), nil, true)
	}
	return list, nil
}

// IsInbound reports whether the peer of a kind of bot initiates the connection, with a token.
func (r *Registry) IsInbound(kind string) bool {
	k, err := r.Kind(kind)
	return err == nil && k.Inbound
}

func describedSettings(list []Setting, settings any, texts map[string]SettingText, shared bool) []Setting {
	for _, f := range fields(reflect.TypeOf(settings)) {
		list = append(list, Setting{Name: f.name, Form: form(f.typ), Secret: f.secret, Required: f.required,
			Shared: shared, Text: texts[f.name]})
	}
	return list
}

// form returns the text form of a type.
func form(t reflect.Type) Form {
	maybe := t.Kind() == reflect.Pointer
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case strings.HasSuffix(t.Name(), "Duration"):
		return FormDuration
	case t.Kind() == reflect.Bool && maybe:
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

// SettingsText returns a bot's settings as texts, in the form that [Registry.Change] accepts.
// Secrets are empty.
func (r *Registry) SettingsText(b store.Bot) (map[string]string, error) {
	k, err := r.Kind(b.Kind)
	if err != nil {
		return nil, err
	}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(b.Settings, &raw); err != nil {
		return nil, err
	}
	if err := r.settingsSchema(k).mapSecrets(raw, func(field, string) (string, error) { return "", nil }); err != nil {
		return nil, err
	}
	texts := make(map[string]string, len(raw))
	for name, value := range raw {
		texts[name] = settingText(value)
	}
	return texts, nil
}

// settingText returns a value as text: strings without quotes, lists with commas.
func settingText(value json.RawMessage) string {
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
