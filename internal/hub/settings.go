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
	"patchbay/internal/seal"
	"patchbay/internal/talk"
)

// What is wrong with settings.
var (
	sayTime    = talk.Say{Zh: `时间要写成 "45s" 或 "10m" 这样`, En: `a time is written like "45s" or "10m"`}
	sayAgentID = talk.Say{Zh: "agent_id 只能是 owner、anyone 或 off，不能是 %q",
		En: "agent_id is owner, anyone or off, not %q"}
	sayHangup    = talk.Say{Zh: "hangup 只能是 finish 或 cancel，不能是 %q", En: "hangup is finish or cancel, not %q"}
	sayNegative  = talk.Say{Zh: "concurrent 和 waiting 不能是负数", En: "concurrent and waiting cannot be negative"}
	sayNoSetting = talk.Say{Zh: "没有名为 %q 的设置；有 %s", En: "no setting is called %q; there are %s"}
	sayNoFit     = talk.Say{Zh: "%s：%q 不合适（需要%s）", En: "%s: %q does not fit (%s)"}
	sayNoText    = talk.Say{Zh: "%s 不是文本", En: "%s is not a text"}

	sayWantTime   = talk.Say{Zh: "时间，例如 45s", En: "a time such as 45s"}
	sayWantBool   = talk.Say{Zh: " true 或 false", En: "true or false"}
	sayWantObject = talk.Say{Zh: " JSON 对象", En: "a JSON object"}
	sayWantList   = talk.Say{Zh: "用逗号分隔的列表", En: "a list, separated by commas"}
	sayWantNumber = talk.Say{Zh: "数字", En: "a number"}
)

// Duration is a time in settings, written as "45s" or "10m".
type Duration time.Duration

// UnmarshalJSON reads "45s".
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return sayTime.Wrong()
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return sayTime.Wrong()
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON writes "45s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// Common is the settings that every bot has, whatever its kind.
type Common struct {
	account.Audience
	// AgentID says who may ask the bot by its number: its owner's keys ("owner",
	// also when empty), every key ("anyone") or none ("off").
	AgentID string `json:"agent_id,omitempty"`
	// OnDisconnect says what happens when the asker goes away: the bot finishes and
	// the answer is told later ("finish", also when empty), or it is stopped
	// ("cancel").
	OnDisconnect string `json:"hangup,omitempty"`
	// FirstPiece and Idle override how long the asker waits for the first piece
	// and for each next one.
	FirstPiece Duration `json:"first_piece,omitempty"`
	Idle       Duration `json:"idle,omitempty"`
	// Concurrent and Waiting override how many turns the bot answers at a time
	// and how many may wait.
	Concurrent int `json:"concurrent,omitempty"`
	Waiting    int `json:"waiting,omitempty"`
	// KeepContent reports whether traces keep what was asked and answered.
	KeepContent *bool `json:"keep_content,omitempty"`
	// AllowTools are the tools that the bot may call, by names and patterns with *;
	// empty: none. DenyTools are left out of them, and DangerousTools may be called
	// although they are dangerous.
	AllowTools     []string `json:"allow_tools,omitempty"`
	DenyTools      []string `json:"deny_tools,omitempty"`
	DangerousTools []string `json:"dangerous_tools,omitempty"`
}

// rules are those of the bot as a caller.
func (c *Common) rules() Rules {
	return Rules{Allow: c.AllowTools, Deny: c.DenyTools, Dangerous: c.DangerousTools}
}

// Validate finds values that cannot be.
func (c *Common) Validate() error {
	if !slices.Contains([]string{"", "owner", "anyone", "off"}, c.AgentID) {
		return sayAgentID.Wrong(c.AgentID)
	}
	if !slices.Contains([]string{"", "finish", "cancel"}, c.OnDisconnect) {
		return sayHangup.Wrong(c.OnDisconnect)
	}
	if c.Concurrent < 0 || c.Waiting < 0 {
		return sayNegative.Wrong()
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
	// addressField is the setting with the address that the value is sent to; empty: it is sent
	// nowhere, or not to an address among the settings.
	addressField string
}

// fields lists the settings of a struct, those of embedded structs too.
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

// settingsSchema is what settings a bot of some kind can have: the fields of several
// structs, one of the kind and those that all kinds share.
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
	return field{}, sayNoSetting.Wrong(name, strings.Join(names, ", "))
}

// set changes one setting, given as text, in raw; an empty text takes it away.
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
	return sayNoFit.Wrong(name, text, expectedForm(f.typ))
}

// candidates are the ways a text can be meant, best first.
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

func expectedForm(t reflect.Type) talk.Say {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case strings.HasSuffix(t.Name(), "Duration"):
		return sayWantTime
	case t.Kind() == reflect.Bool:
		return sayWantBool
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
		return sayWantObject
	case t.Kind() == reflect.Slice:
		return sayWantList
	}
	return sayWantNumber
}

// check decodes the settings into each struct and lets it validate them.
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

// mapSecrets runs change on every secret text among the settings. One that was sealed for
// another address than the settings have is taken out: it must not be sent there.
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

// origin is where the value of a field is sent to.
func origin(raw map[string]json.RawMessage, f field) string {
	var address string
	if json.Unmarshal(raw[f.addressField], &address) != nil {
		return ""
	}
	return seal.Origin(address)
}

// mapTexts runs change on a secret text, or on each of a secret map.
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
		return nil, sayNoText.Wrong(f.name)
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

// seal returns the settings as they are kept.
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

// unseal returns kept settings with their secrets readable.
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

// dropStaleSecrets takes out of changed settings what was given for another origin than it would
// be sent to now, unless it is given again, and lists what that was.
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

// DropStaleSecrets is for settings that no [Registry] keeps, as the fields of a struct and their
// values before and after a change. Values that are sent to the address in another
// setting, which is named by their tag to, are taken out of after if that address has
// another origin now, unless they were given again; their names are returned.
func DropStaleSecrets(settings any, before, after map[string]json.RawMessage,
	given func(name string) bool) (dropped []string) {
	return settingsSchema{func() any { return settings }}.dropStaleSecrets(before, after, given)
}

// Assign sets fields of a settings struct, given as text, by their json names; an
// empty text takes a field's value away.
func Assign(into any, set map[string]string) error {
	_, err := assign(into, set, false)
	return err
}

// Reassign is [Assign] for settings that were kept: what [DropStaleSecrets] takes out of them is
// returned.
func Reassign(into any, set map[string]string) (dropped []string, err error) {
	return assign(into, set, true)
}

func assign(into any, set map[string]string, kept bool) (dropped []string, err error) {
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
	if kept {
		dropped = s.dropStaleSecrets(before, raw, func(name string) bool { return set[name] != "" })
	}
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
