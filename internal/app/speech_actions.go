package app

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/settings"
	"patchbay/internal/store"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines"
	"patchbay/internal/voice/pcm"
	"patchbay/internal/voice/spoken"
)

const (
	msgNoSuchKind   = i18n.Message("no kind of speech engine is called %q; there are %s")
	msgCannotDo     = i18n.Message("engines of the kind %s cannot do that")
	msgNoSpeaker    = i18n.Message("This engine does not speak.")
	msgNoListener   = i18n.Message("This engine does not listen.")
	msgNoSound      = i18n.Message("This is no sound that can be read; send a WAV or Ogg Opus file.")
	msgEngineFailed = i18n.Message("%[1]s (%[2]v)")
	msgEngineSpent  = i18n.Message("its limit of the day, %s, is reached")
	msgDaily        = i18n.Message("%s is %d; choose 1 to %d, or leave it out")
	msgConcurrent   = i18n.Message("concurrent is %d; choose 1 to 1000, or leave it out")
)

// SpeechCommon are the settings that engines of every kind have.
type SpeechCommon struct {
	// Concurrent is how many utterances and answers use the engine at a time; 0: any number.
	Concurrent int `json:"concurrent,omitempty"`
	// NumbersInWords has numbers written in words before they are spoken; nil: it depends on the
	// engine.
	NumbersInWords *bool `json:"numbers_in_words,omitempty"`
	engine.Price
	// DailyMinutes are the most that it hears in a day, and DailyCharacters the most that it
	// speaks; 0: any number. The next engine is used beyond that.
	DailyMinutes    int `json:"daily_minutes,omitempty"`
	DailyCharacters int `json:"daily_characters,omitempty"`
}

// The highest limits of a day: nobody means more.
const (
	maxDailyMinutes    = 1_000_000
	maxDailyCharacters = 1_000_000_000
)

// Validate implements the interface of package settings.
func (s *SpeechCommon) Validate() error {
	if s.Concurrent < 0 || s.Concurrent > 1000 {
		return msgConcurrent.Errorf(s.Concurrent)
	}
	for _, limit := range []struct {
		name        string
		value, most int
	}{
		{dailyMinutes, s.DailyMinutes, maxDailyMinutes},
		{dailyCharacters, s.DailyCharacters, maxDailyCharacters},
	} {
		if limit.value < 0 || limit.value > limit.most {
			return msgDaily.Errorf(limit.name, limit.value, limit.most)
		}
	}
	return s.Price.Validate()
}

// commonSpeechTexts are what people are told of the settings of every kind.
var commonSpeechTexts = map[string]settings.FieldText{
	"concurrent": {Label: i18n.Message("Most at a time"),
		Hint: i18n.Message("How many people it serves at a time; any number if empty"), Example: "8"},
	"price_per_minute":             engine.PriceTexts["price_per_minute"],
	"price_per_million_characters": engine.PriceTexts["price_per_million_characters"],
	dailyMinutes: {Label: i18n.Message("Most minutes a day"),
		Hint: i18n.Message("That it hears, on all boards; the next engine goes on. No limit if empty."), Example: "300"},
	dailyCharacters: {Label: i18n.Message("Most characters a day"),
		Hint: i18n.Message("That it speaks, on all boards; the next engine goes on. No limit if empty."), Example: "500000"},
	"numbers_in_words": {Label: i18n.Message("Numbers in words"),
		Hint: i18n.Message("yes for a voice that reads dates, times or units badly. Empty: yes for Wyoming servers, and for models named Kokoro or Piper.")},
}

// engineSettings are the settings of an engine with its kind, and secrets in clear text.
type engineSettings struct {
	kind   engine.Kind
	values settings.Values
}

func newSpeechCommon() any { return new(SpeechCommon) }

// schema returns the settings of the kind, and then those of every kind.
func schemaOf(k engine.Kind) settings.Schema { return settings.Schema{k.Settings, newSpeechCommon} }

// kindNamed returns the kind of a name.
func kindNamed(name string) (engine.Kind, error) {
	var names []string
	for _, k := range engines.Kinds() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return engine.Kind{}, problem.New(problem.Invalid, msgNoSuchKind, name, strings.Join(names, ", "))
}

func (s *speech) unseal(row store.SpeechEngine) (e engineSettings, err error) {
	if e.kind, err = kindNamed(row.Kind); err != nil {
		return e, err
	}
	e.values, err = schemaOf(e.kind).Unseal(s.base.Box, row.Settings)
	return e, err
}

// into decodes the settings into a struct.
func (e engineSettings) into(s any) error {
	text, err := json.Marshal(e.values)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, s)
}

// open returns the engine, for what it is used for. It does not connect.
func (e engineSettings) open(use string, o engine.Options) (engine.Engine, error) {
	s := e.kind.Settings()
	if err := e.into(s); err != nil {
		return engine.Engine{}, err
	}
	opened, err := e.kind.Open(s, o)
	switch use {
	case store.UseListen:
		opened.Speaker = nil
	case store.UseSpeak:
		opened.Listener = nil
	}
	if err == nil && opened.Listener == nil && opened.Speaker == nil {
		err = msgCannotDo.Errorf(e.kind.Name)
	}
	return opened, err
}

func (e engineSettings) slots() *engine.Slots {
	var c SpeechCommon
	if e.into(&c) != nil || c.Concurrent <= 0 { // open reports what is wrong
		return nil
	}
	return engine.NewSlots(c.Concurrent)
}

func (e engineSettings) common() (c SpeechCommon) {
	_ = e.into(&c) // open reports what is wrong
	return c
}

// spell returns what writes texts for the engine, or nil.
func (e engineSettings) spell(opened engine.Engine) func(text, language string) string {
	var c SpeechCommon
	_ = e.into(&c) // open reports what is wrong
	if c.NumbersInWords != nil {
		opened.NeedsWords = *c.NumbersInWords
	}
	return spelling(opened)
}

// spelling returns what writes texts for an engine, or nil.
func spelling(e engine.Engine) func(text, language string) string {
	if !e.NeedsWords {
		return nil
	}
	return spoken.Numbers
}

// where returns the address of the engine, as far as it may be shown.
func (e engineSettings) where() string {
	for _, name := range []string{"base_url", "url", "address", "host"} {
		if v := e.values[name]; v != nil {
			return whereOfAddress(settings.Text(v))
		}
	}
	return ""
}

// whereOfAddress returns an address without what may be secret.
func whereOfAddress(address string) string {
	if !strings.Contains(address, "://") { // a host, and a port
		address = "//" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return strings.TrimPrefix(u.String(), "//")
}

// kinds describes the kinds of engines.
func (s *speech) kinds(lang i18n.Lang) (list []control.EngineKind) {
	for _, k := range engines.Kinds() {
		kind := control.EngineKind{Name: k.Name, Title: k.Title.In(lang), About: k.About.In(lang), Listens: k.Listens,
			Speaks: k.Speaks}
		add := func(of func() any, texts map[string]settings.FieldText, shared bool) {
			for _, f := range (settings.Schema{of}).Fields() {
				kind.Settings = append(kind.Settings, hub.Setting{Name: f.Name, Form: f.Form(), Secret: f.Secret,
					Required: f.Required, Shared: shared, Text: texts[f.Name]})
			}
		}
		add(k.Settings, k.Texts, false)
		add(newSpeechCommon, commonSpeechTexts, true)
		list = append(list, kind)
	}
	return list
}

// all returns rows with the engines of the configuration, in the order in which they are tried.
func (s *speech) all(rows []store.SpeechEngine) (list []store.SpeechEngine) {
	for _, e := range s.fixed {
		list = append(list, e.row)
	}
	list = append(list, rows...)
	for _, e := range s.local {
		list = append(list, e.row)
	}
	return list
}

// draft returns an engine with changed settings, which are valid and sealed.
func (s *speech) draft(row store.SpeechEngine, set control.SettingTexts) (store.SpeechEngine, []string, error) {
	e, err := s.unseal(row)
	if err != nil {
		return row, nil, err
	}
	schema := schemaOf(e.kind)
	dropped, err := schema.Change(e.values, set)
	if err == nil {
		err = schema.Validate(e.values)
	}
	if err == nil {
		_, err = e.open(row.Use, s.options())
	}
	if err != nil {
		return row, nil, control.InputProblem(problem.Invalid, err)
	}
	row.Settings, err = schema.Seal(s.base.Box, e.values)
	return row, dropped, err
}

// shown returns the settings of an engine with masked secrets.
func (s *speech) shown(row store.SpeechEngine) (map[string]json.RawMessage, error) {
	e, err := s.unseal(row)
	if err != nil {
		return nil, err
	}
	return e.values, schemaOf(e.kind).Mask(e.values, settings.Masked)
}

// texts returns the settings of an engine as [control.SettingTexts], with empty secrets.
func (s *speech) texts(row store.SpeechEngine) (map[string]string, error) {
	e, err := s.unseal(row)
	if err != nil {
		return nil, err
	}
	if err := schemaOf(e.kind).Mask(e.values, ""); err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for name, value := range e.values {
		texts[name] = settings.Text(value)
	}
	return texts, nil
}

func (s *speech) health(row store.SpeechEngine) control.EngineHealth {
	if e := s.find(row); e != nil {
		return e.health()
	}
	return control.EngineHealth{}
}

func (s *speech) where(row store.SpeechEngine) (where string, listens, speaks bool) {
	if e := s.find(row); e != nil {
		return e.where, e.link.Listener != nil, e.link.Speaker != nil
	}
	return "", false, false
}

// opened returns the engine of a row, which may be a draft.
func (s *speech) opened(row store.SpeechEngine) (engine.Engine, error) {
	if row.Kind == "" {
		if e := s.find(row); e != nil {
			return e.link.Engine, nil
		}
	}
	e, err := s.unseal(row)
	if err != nil {
		return engine.Engine{}, err
	}
	return e.open(row.Use, s.options())
}

// check tries an engine.
func (s *speech) check(ctx context.Context, row store.SpeechEngine) (f control.EngineFound, err error) {
	e, err := s.opened(row)
	if err != nil {
		return f, err
	}
	t := engines.Try(ctx, e)
	return control.EngineFound{Listens: e.Listener != nil, Speaks: e.Speaker != nil,
		ListenMS: t.Listen.Milliseconds(), SpeakMS: t.Speak.Milliseconds(), Message: t.Problem, Cause: t.Cause}, nil
}

// sayRate is the rate of the sound that people hear in a test, in Hz.
const sayRate = 24000

// say has an engine speak a text.
func (s *speech) say(ctx context.Context, row store.SpeechEngine, text string) (out control.EngineSaid, err error) {
	e, err := s.opened(row)
	switch {
	case err != nil:
		return out, err
	case e.Speaker == nil:
		return out, problem.New(problem.Invalid, msgNoSpeaker)
	}
	said, err := engines.Say(ctx, e, text, sayRate)
	if err != nil {
		return out, engineProblem(err)
	}
	var sound bytes.Buffer
	err = pcm.WriteWAV(&sound, sayRate, said.Samples)
	return control.EngineSaid{Sound: sound.Bytes(), FirstMS: said.First.Milliseconds(),
		LengthMS: int64(len(said.Samples)) * 1000 / sayRate}, err
}

// hear has an engine understand a sound.
func (s *speech) hear(ctx context.Context, row store.SpeechEngine, sound []byte,
	language string) (out control.EngineHeard, err error) {
	e, err := s.opened(row)
	switch {
	case err != nil:
		return out, err
	case e.Listener == nil:
		return out, problem.New(problem.Invalid, msgNoListener)
	}
	samples, err := engines.Samples(bytes.NewReader(sound), engine.Rate)
	if err != nil {
		return out, problem.New(problem.Invalid, msgNoSound)
	}
	most := int(engine.MaxUtterance.Seconds()) * engine.Rate
	heard, err := engines.Hear(ctx, e, slices.Clip(samples[:min(len(samples), most)]), language)
	if err != nil {
		return out, engineProblem(err)
	}
	return control.EngineHeard{Text: heard.Text, Language: heard.Language, TookMS: heard.Took.Milliseconds()}, nil
}

// engineProblem returns the error for people.
func engineProblem(err error) error {
	return problem.New(problem.Unavailable, msgEngineFailed, engines.Explain(err), causeOf(err)).Because(err)
}
