package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/seal"
)

// Messages about invalid settings.
const (
	msgTime      = i18n.Message(`a time is written like "45s" or "10m"`)
	msgAgentID   = i18n.Message("agent_id is owner, anyone or off, not %q")
	msgHangup    = i18n.Message("hangup is finish or cancel, not %q")
	msgNegative  = i18n.Message("concurrent and waiting cannot be negative")
	msgNoSetting = i18n.Message("no setting is called %q; there are %s")
	msgNoFit     = i18n.Message("%s: %q does not fit (%s)")
	msgNoText    = i18n.Message("%s is not a text")

	msgWantTime   = i18n.Message("a time such as 45s")
	msgWantBool   = i18n.Message("true or false")
	msgWantObject = i18n.Message("a JSON object")
	msgWantList   = i18n.Message("a list, separated by commas")
	msgWantNumber = i18n.Message("a number")
)

// Duration is a duration in settings, written as "45s" or "10m".
type Duration time.Duration

// UnmarshalJSON parses "45s".
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return msgTime.Errorf()
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return msgTime.Errorf()
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON writes "45s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// Common has the settings of all kinds of bots.
type Common struct {
	account.Audience
	// AgentID decides who may ask the bot by its number: keys of its owner ("owner", also when
	// empty), any key ("anyone") or none ("off").
	AgentID string `json:"agent_id,omitempty"`
	// OnDisconnect decides what happens when the asker disconnects: the bot finishes and the answer
	// is delivered later ("finish", also when empty), or it is stopped ("cancel").
	OnDisconnect string `json:"hangup,omitempty"`
	// FirstPiece and Idle override the timeouts for the first piece and for each further one.
	FirstPiece Duration `json:"first_piece,omitempty"`
	Idle       Duration `json:"idle,omitempty"`
	// Concurrent and Waiting override the number of concurrent and of waiting turns.
	Concurrent int `json:"concurrent,omitempty"`
	Waiting    int `json:"waiting,omitempty"`
	// KeepContent stores questions and answers in traces.
	KeepContent *bool `json:"keep_content,omitempty"`
	// AllowTools are the tools that the bot may call, names and patterns with *; empty: none.
	// DenyTools are excluded from them, and DangerousTools may be called although they are
	// dangerous.
	AllowTools     []string `json:"allow_tools,omitempty"`
	DenyTools      []string `json:"deny_tools,omitempty"`
	DangerousTools []string `json:"dangerous_tools,omitempty"`
}

// rules returns the rules of the bot as a caller.
func (c *Common) rules() Rules {
	return Rules{Allow: c.AllowTools, Deny: c.DenyTools, Dangerous: c.DangerousTools}
}

// Validate reports invalid values.
func (c *Common) Validate() error {
	if !slices.Contains([]string{"", "owner", "anyone", "off"}, c.AgentID) {
		return msgAgentID.Errorf(c.AgentID)
	}
	if !slices.Contains([]string{"", "finish", "cancel"}, c.OnDisconnect) {
		return msgHangup.Errorf(c.OnDisconnect)
	}
	if c.Concurrent < 0 || c.Waiting < 0 {
		return msgNegative.Errorf()
	}
	r := c.rules()
	return r.Validate()
}

// field is one setting: a field of a settings struct with a json name.
type field struct {
	name     string
	typ      reflect.Type
	secret   bool
	required bool // it has no omitempty
	// addressField is the setting with the address that the value is sent to; empty: the value is
	// not sent to an address among the settings.
	addressField string
}

// fields lists the settings of a struct, with those of embedded structs.
func fields(t reflect.Type) []field {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, fields(f.Type)...)
		case name != "" && name != "-":
			out = append(out, field{name, f.Type, f.Tag.Get("secret") == "true",
				!strings.Contains(options, "omitempty"), f.Tag.Get("to")})
		}
	}
	return out
}

// settingsSchema has the settings of a kind of bot: the fields of the kind's struct and of those
// that all kinds share.
type settingsSchema []func() any

func (s settingsSchema) fields() []field {
	var out []field
	for _, make := range s {
		out = append(out, fields(reflect.TypeOf(make()))...)
	}
	return out
}

func (s settingsSchema) find(name string) (field, error) {
	var names []string
	for _, f := range s.fields() {
		if f.name == name {
			return f, nil
		}
		names = append(names, f.name)
	}
	slices.Sort(names)
	return field{}, msgNoSetting.Errorf(name, strings.Join(names, ", "))
}

// set changes one setting, given as text, in raw; an empty text removes it.
func (s settingsSchema) set(raw map[string]json.RawMessage, name, text string) error {
	f, err := s.find(name)
	if err != nil {
		return err
	}
	if text == "" {
		delete(raw, name)
		return nil
	}
	for _, candidate := range candidates(f.typ, text) {
		if json.Unmarshal(candidate, reflect.New(f.typ).Interface()) == nil {
			raw[name] = candidate
			return nil
		}
	}
	return msgNoFit.Errorf(name, text, expectedForm(f.typ))
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
		parts := strings.Split(text, ",")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		list, _ := json.Marshal(parts)
		if json.Valid(asJSON) {
			return []json.RawMessage{asJSON, list}
		}
		return []json.RawMessage{list}
	case t.Kind() == reflect.Bool:
		if b, err := strconv.ParseBool(text); err == nil {
			return []json.RawMessage{json.RawMessage(strconv.FormatBool(b))}
		}
	}
	if json.Valid(asJSON) {
		return []json.RawMessage{asJSON, quoted}
	}
	return []json.RawMessage{quoted}
}

func expectedForm(t reflect.Type) i18n.Message {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case strings.HasSuffix(t.Name(), "Duration"):
		return msgWantTime
	case t.Kind() == reflect.Bool:
		return msgWantBool
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
		return msgWantObject
	case t.Kind() == reflect.Slice:
		return msgWantList
	}
	return msgWantNumber
}

// check decodes the settings into each struct and validates them.
func (s settingsSchema) check(raw map[string]json.RawMessage) error {
	text, err := json.Marshal(raw)
	if err != nil {
		return err
	}
	for _, make := range s {
		v := make()
		if err := json.Unmarshal(text, v); err != nil {
			return err
		}
		if c, ok := v.(interface{ Validate() error }); ok {
			if err := c.Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// mapSecrets calls change for every secret text among the settings. A secret that was sealed for
// another address than the current one is removed: it must not be sent there.
func (s settingsSchema) mapSecrets(raw map[string]json.RawMessage,
	change func(f field, text string) (string, error)) error {
	for _, f := range s.fields() {
		if !f.secret || raw[f.name] == nil {
			continue
		}
		changed, err := f.mapTexts(raw[f.name], change)
		if errors.Is(err, seal.ErrOrigin) {
			delete(raw, f.name)
			continue
		}
		if err != nil {
			return err
		}
		raw[f.name] = changed
	}
	return nil
}

// origin returns the origin that the value of a field is sent to.
func origin(raw map[string]json.RawMessage, f field) string {
	var address string
	if json.Unmarshal(raw[f.addressField], &address) != nil {
		return ""
	}
	return seal.Origin(address)
}

// mapTexts calls change for a secret text, or for each of a secret map.
func (f field) mapTexts(raw json.RawMessage, change func(field, string) (string, error)) (json.RawMessage, error) {
	texts, isMap := map[string]string{}, f.typ.Kind() == reflect.Map
	var err error
	if isMap {
		err = json.Unmarshal(raw, &texts)
	} else {
		var text string
		err = json.Unmarshal(raw, &text)
		texts[""] = text
	}
	if err != nil {
		return nil, msgNoText.Errorf(f.name)
	}
	for name, text := range texts {
		if texts[name], err = change(f, text); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if isMap {
		return json.Marshal(texts)
	}
	return json.Marshal(texts[""])
}

// seal returns the settings in their stored form.
func (s settingsSchema) seal(box *seal.Box, raw map[string]json.RawMessage) (json.RawMessage, error) {
	err := s.mapSecrets(raw, func(f field, text string) (string, error) {
		if f.addressField != "" {
			return box.SealFor(origin(raw, f), text), nil
		}
		return box.Seal(text), nil
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(raw)
}

// unseal returns stored settings with decrypted secrets.
func (s settingsSchema) unseal(box *seal.Box, kept json.RawMessage) (map[string]json.RawMessage, error) {
	raw := map[string]json.RawMessage{}
	if len(kept) > 0 {
		if err := json.Unmarshal(kept, &raw); err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
	}
	return raw, s.mapSecrets(raw, func(f field, text string) (string, error) {
		if f.addressField != "" {
			return box.OpenFor(origin(raw, f), text)
		}
		return box.Open(text)
	})
}

// dropStaleSecrets removes from changed settings the values that were given for another origin than
// they would be sent to now, unless they are given again, and returns their names.
func (s settingsSchema) dropStaleSecrets(before, after map[string]json.RawMessage,
	given func(name string) bool) (dropped []string) {
	for _, f := range s.fields() {
		if f.addressField == "" || after[f.name] == nil || given(f.name) || origin(before, f) == origin(after, f) {
			continue
		}
		delete(after, f.name)
		dropped = append(dropped, f.name)
	}
	return dropped
}

// Reassign sets fields of a struct of stored settings, given as text, by their json names; an empty
// text resets a field. A value that is sent to the address in another setting, named by its tag to,
// is removed if that address has another origin now, unless the value is given again. The names of
// removed values are returned.
func Reassign(into any, set map[string]string) (dropped []string, err error) {
	text, err := json.Marshal(into)
	if err != nil {
		return nil, err
	}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	before := maps.Clone(raw)
	s := settingsSchema{func() any { return into }}
	for name, value := range set {
		if err := s.set(raw, name, value); err != nil {
			return nil, err
		}
	}
	dropped = s.dropStaleSecrets(before, raw, func(name string) bool { return set[name] != "" })
	if text, err = json.Marshal(raw); err != nil {
		return nil, err
	}
	fresh := reflect.New(reflect.TypeOf(into).Elem())
	if err := json.Unmarshal(text, fresh.Interface()); err != nil {
		return nil, err
	}
	reflect.ValueOf(into).Elem().Set(fresh.Elem())
	return dropped, nil
}
