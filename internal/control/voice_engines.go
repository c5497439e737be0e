package control

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	// maxEngines limits the speech engines: a question tries one after the other.
	maxEngines = 32
	// maxEngineName and maxEngineText limit a name and the text of a test, in characters.
	maxEngineName = 40
	maxEngineText = 500
)

const (
	msgEngineMissing    = i18n.Message("There is no speech engine %s. It may have been removed.")
	msgEngineTaken      = i18n.Message("There is a speech engine called %s already; choose another name.")
	msgEnginesMost      = i18n.Message("There may be %d speech engines at most; remove some first.")
	msgEngineName       = i18n.Message("The name of a speech engine has 1 to %d characters, and is no number.")
	msgEngineUse        = i18n.Message("An engine is used to listen, to speak, or for both; %q is none of them.")
	msgEngineClash      = i18n.Message("Somebody else changed this engine at the same moment; look again and repeat.")
	msgEngineConfigured = i18n.Message("This engine is of the configuration and can only be changed there.")
	msgEngineNothing    = i18n.Message("%s Nothing was saved.")
	msgEngineText       = i18n.Message("Give a text of 1 to %d characters.")
)

// EngineKinds lists the kinds of speech engines.
func (s *Service) EngineKinds(_ context.Context, c Caller, _ Empty) (EngineKindList, error) {
	if err := admin(c); err != nil {
		return EngineKindList{}, err
	}
	return EngineKindList{s.Voice.Kinds(c.Lang)}, nil
}

// ListEngines lists the speech engines in the order in which they are tried.
func (s *Service) ListEngines(ctx context.Context, c Caller, _ Empty) (EngineList, error) {
	if err := admin(c); err != nil {
		return EngineList{}, err
	}
	rows, err := s.Hub.Store.SpeechEngines.All(ctx)
	if err != nil {
		return EngineList{}, err
	}
	out := EngineList{Engines: []Engine{}}
	for _, e := range s.Voice.All(rows) {
		out.Engines = append(out.Engines, s.engineRow(c, e))
	}
	return out, nil
}

// VoiceReady reports whether engines that are on listen and speak. Everybody may know.
func (s *Service) VoiceReady(ctx context.Context) (bool, error) {
	if s.Voice.All == nil { // no voice boards
		return false, nil
	}
	rows, err := s.Hub.Store.SpeechEngines.All(ctx)
	if err != nil {
		return false, err
	}
	var ears, mouths bool
	for _, e := range s.Voice.All(rows) {
		if _, listens, speaks := s.Voice.Where(e); e.Enabled {
			ears, mouths = ears || listens, mouths || speaks
		}
	}
	return ears && mouths, nil
}

func (s *Service) engineRow(c Caller, e store.SpeechEngine) Engine {
	out := Engine{SpeechEngine: e, Configured: e.Number == 0, EngineHealth: s.Voice.Health(e)}
	out.Where, out.Listens, out.Speaks = s.Voice.Where(e)
	out.Problem = out.EngineHealth.Problem.In(c.Lang)
	return out
}

// EngineRef identifies a speech engine by number or name.
type EngineRef struct {
	Engine string `path:"engine" json:"-"`
}

// engine returns a speech engine.
func (s *Service) engine(ctx context.Context, c Caller, ref string) (store.SpeechEngine, error) {
	if err := admin(c); err != nil {
		return store.SpeechEngine{}, err
	}
	rows, err := s.Hub.Store.SpeechEngines.All(ctx)
	if err != nil {
		return store.SpeechEngine{}, err
	}
	number, _ := strconv.ParseInt(ref, 10, 64) // 0 for a name
	for _, e := range s.Voice.All(rows) {
		if e.Number == number && number != 0 || strings.EqualFold(e.Name, ref) {
			return e, nil
		}
	}
	return store.SpeechEngine{}, problem.New(problem.NotFound, msgEngineMissing, ref)
}

// changeableEngine returns a speech engine of the database.
func (s *Service) changeableEngine(ctx context.Context, c Caller, ref string) (store.SpeechEngine, error) {
	e, err := s.engine(ctx, c, ref)
	if err == nil && e.Number == 0 {
		err = problem.New(problem.Invalid, msgEngineConfigured)
	}
	return e, err
}

// ShowEngine returns a speech engine with its settings.
func (s *Service) ShowEngine(ctx context.Context, c Caller, in EngineRef) (EngineDetail, error) {
	e, err := s.engine(ctx, c, in.Engine)
	if err != nil {
		return EngineDetail{}, err
	}
	d := EngineDetail{Engine: s.engineRow(c, e)}
	if e.Number == 0 {
		return d, nil
	}
	if d.Settings, err = s.Voice.Shown(e); err != nil {
		// An engine whose settings cannot be read can still be shown and removed.
		s.Logger.WarnContext(ctx, "the settings of a speech engine cannot be read", "engine", e.Name, "error", err)
	}
	return d, nil
}

// EngineTexts returns the settings of a speech engine as texts, with empty secrets, for a form.
func (s *Service) EngineTexts(ctx context.Context, c Caller, in EngineRef) (map[string]string, error) {
	e, err := s.changeableEngine(ctx, c, in.Engine)
	if err != nil {
		return nil, err
	}
	return s.Voice.Texts(e)
}

// NewEngine describes a speech engine to add or to try.
type NewEngine struct {
	Name     string       `json:"name"`
	Kind     string       `json:"kind"`
	Settings SettingTexts `json:"settings,omitempty"`
	// Use is "listen", "speak", or empty for whatever it can do.
	Use string `json:"use,omitempty"`
	// Unchecked stores it without a check.
	Unchecked bool `json:"unchecked,omitempty"`
}

// AddEngine adds a speech engine as the last one. It is tried first, and refused if that fails,
// unless the caller skips it.
func (s *Service) AddEngine(ctx context.Context, c Caller, in NewEngine) (EngineDetail, error) {
	if err := admin(c); err != nil {
		return EngineDetail{}, err
	}
	rows, err := s.Hub.Store.SpeechEngines.All(ctx)
	switch {
	case err != nil:
		return EngineDetail{}, err
	case len(rows) >= maxEngines:
		return EngineDetail{}, problem.New(problem.Conflict, msgEnginesMost, maxEngines)
	}
	e := store.SpeechEngine{Name: strings.TrimSpace(in.Name), Kind: in.Kind, Use: in.Use, Enabled: true,
		Created: time.Now()}
	if err := s.checkEngine(rows, e); err != nil {
		return EngineDetail{}, err
	}
	e, _, found, err := s.tried(ctx, c, e, in.Settings, in.Unchecked)
	if err != nil {
		return EngineDetail{}, err
	}
	if e, err = s.Hub.Store.SpeechEngines.Add(ctx, e); errors.Is(err, store.ErrExists) {
		err = problem.New(problem.Conflict, msgEngineTaken, in.Name)
	}
	if err != nil {
		return EngineDetail{}, err
	}
	s.RecordAdminEvent(ctx, c, EventEngineAdded, aboutEngine(e, givenNames(in.Settings)...))
	s.enginesChanged(ctx)
	d, err := s.ShowEngine(ctx, c, EngineRef{e.Name})
	d.Found = found
	return d, err
}

// checkEngine checks what all engines have in common.
func (s *Service) checkEngine(rows []store.SpeechEngine, e store.SpeechEngine) error {
	if _, err := strconv.ParseInt(e.Name, 10, 64); err == nil || e.Name == "" || len([]rune(e.Name)) > maxEngineName ||
		strings.ContainsFunc(e.Name, func(r rune) bool { return r < ' ' || r == '/' }) {
		return problem.New(problem.Invalid, msgEngineName, maxEngineName)
	}
	if !slices.Contains([]string{"", store.UseListen, store.UseSpeak}, e.Use) {
		return problem.New(problem.Invalid, msgEngineUse, e.Use)
	}
	if slices.ContainsFunc(s.Voice.All(rows), func(o store.SpeechEngine) bool {
		return o.Number != e.Number && strings.EqualFold(o.Name, e.Name)
	}) {
		return problem.New(problem.Conflict, msgEngineTaken, e.Name)
	}
	return nil
}

// tried returns an engine with changed settings, with which it works, unless that is not checked.
func (s *Service) tried(ctx context.Context, c Caller, e store.SpeechEngine, set SettingTexts,
	unchecked bool) (changed store.SpeechEngine, dropped []string, found *EngineFound, err error) {
	e, dropped, err = s.Voice.Draft(e, set)
	if err != nil || unchecked {
		return e, dropped, nil, err
	}
	f, err := s.Voice.Check(ctx, e)
	if err != nil {
		return e, dropped, nil, err
	}
	if f.Problem = f.Message.In(c.Lang); f.Problem != "" {
		if f.Cause != "" {
			f.Problem += " (" + f.Cause + ")"
		}
		return e, dropped, nil, problem.New(problem.Unavailable, msgEngineNothing, f.Problem)
	}
	return e, dropped, &f, nil
}

// enginesChanged takes up a change here at once; other instances do within a second.
func (s *Service) enginesChanged(ctx context.Context) {
	if err := s.Voice.Refresh(ctx); err != nil && ctx.Err() == nil {
		s.Logger.WarnContext(ctx, "what was changed about speech engines could not be taken up yet", "error", err)
	}
}

// EngineChange changes a speech engine; missing fields and settings stay, and an empty setting is
// removed.
type EngineChange struct {
	Engine   string       `path:"engine" json:"-"`
	Name     *string      `json:"name,omitempty"`
	Use      *string      `json:"use,omitempty"`
	Enabled  *bool        `json:"enabled,omitempty"`
	Settings SettingTexts `json:"settings,omitempty"`
	// Unchecked stores it without a check. It is checked only if settings are changed.
	Unchecked bool `json:"unchecked,omitempty"`
}

// ChangeEngine changes a speech engine, for the next questions of all boards.
func (s *Service) ChangeEngine(ctx context.Context, c Caller, in EngineChange) (EngineDetail, error) {
	e, err := s.changeableEngine(ctx, c, in.Engine)
	if err != nil {
		return EngineDetail{}, err
	}
	if in.Name != nil {
		e.Name = strings.TrimSpace(*in.Name)
	}
	if in.Use != nil {
		e.Use = *in.Use
	}
	if in.Enabled != nil {
		e.Enabled = *in.Enabled
	}
	rows, err := s.Hub.Store.SpeechEngines.All(ctx)
	if err == nil {
		err = s.checkEngine(rows, e)
	}
	if err != nil {
		return EngineDetail{}, err
	}
	e, dropped, found, err := s.tried(ctx, c, e, in.Settings, in.Unchecked || len(in.Settings) == 0)
	if err != nil {
		return EngineDetail{}, err
	}
	switch err := s.Hub.Store.SpeechEngines.Save(ctx, e); {
	case errors.Is(err, store.ErrExists):
		return EngineDetail{}, problem.New(problem.Conflict, msgEngineTaken, e.Name)
	case errors.Is(err, store.ErrNotFound):
		return EngineDetail{}, problem.New(problem.Conflict, msgEngineClash)
	case err != nil:
		return EngineDetail{}, err
	}
	s.RecordAdminEvent(ctx, c, EventEngineChanged, aboutEngine(e, settingNames(in.Settings)...))
	s.enginesChanged(ctx)
	d, err := s.ShowEngine(ctx, c, EngineRef{e.Name})
	d.Found, d.Dropped, d.Notice = found, dropped, droppedSettingsNotice(c.Lang, dropped)
	return d, err
}

// EngineMove puts a speech engine to another place in the order.
type EngineMove struct {
	Engine string `path:"engine" json:"-"`
	// Place is 1 for the first of those that are not of the configuration.
	Place int `json:"place"`
}

// MoveEngine changes the order of the speech engines.
func (s *Service) MoveEngine(ctx context.Context, c Caller, in EngineMove) (EngineList, error) {
	e, err := s.changeableEngine(ctx, c, in.Engine)
	if err == nil {
		err = s.Hub.Store.SpeechEngines.Move(ctx, e.Number, in.Place-1)
	}
	if err != nil {
		return EngineList{}, err
	}
	s.RecordAdminEvent(ctx, c, EventEngineChanged, aboutEngine(e, "place"))
	s.enginesChanged(ctx)
	return s.ListEngines(ctx, c, Empty{})
}

// RemoveEngine removes a speech engine.
func (s *Service) RemoveEngine(ctx context.Context, c Caller, in EngineRef) (RemovedEngine, error) {
	e, err := s.changeableEngine(ctx, c, in.Engine)
	if err == nil {
		err = s.Hub.Store.SpeechEngines.Remove(ctx, e.Number)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = problem.New(problem.NotFound, msgEngineMissing, in.Engine)
	}
	if err != nil {
		return RemovedEngine{}, err
	}
	s.RecordAdminEvent(ctx, c, EventEngineRemoved, aboutEngine(e))
	s.enginesChanged(ctx)
	return RemovedEngine{e.Number, e.Name, true}, nil
}

// RemovedEngine is a speech engine that was removed.
type RemovedEngine struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Removed bool   `json:"removed"`
}

// CheckEngine has a speech engine speak a sentence and listen to it.
func (s *Service) CheckEngine(ctx context.Context, c Caller, in EngineRef) (EngineFound, error) {
	e, err := s.engine(ctx, c, in.Engine)
	if err != nil {
		return EngineFound{}, err
	}
	f, err := s.Voice.Check(ctx, e)
	f.Problem = f.Message.In(c.Lang)
	return f, err
}

// EngineText is a text for an engine to speak.
type EngineText struct {
	Engine string `path:"engine" json:"-"`
	Text   string `json:"text"`
}

// SayWithEngine has a speech engine speak a text.
func (s *Service) SayWithEngine(ctx context.Context, c Caller, in EngineText) (EngineSaid, error) {
	e, err := s.engine(ctx, c, in.Engine)
	if err != nil {
		return EngineSaid{}, err
	}
	if n := len([]rune(strings.TrimSpace(in.Text))); n == 0 || n > maxEngineText {
		return EngineSaid{}, problem.New(problem.Invalid, msgEngineText, maxEngineText)
	}
	return s.Voice.Say(ctx, e, in.Text)
}

// EngineSound is a sound for an engine to understand.
type EngineSound struct {
	Engine   string `path:"engine" json:"-"`
	Sound    []byte `json:"sound"` // a WAV or Ogg Opus file
	Language string `json:"language,omitempty"`
}

// HearWithEngine has a speech engine understand a sound.
func (s *Service) HearWithEngine(ctx context.Context, c Caller, in EngineSound) (EngineHeard, error) {
	e, err := s.engine(ctx, c, in.Engine)
	if err != nil {
		return EngineHeard{}, err
	}
	return s.Voice.Hear(ctx, e, in.Sound, in.Language)
}

// aboutEngine describes a speech engine in admin events, with the names of settings; their values
// can be secret.
func aboutEngine(e store.SpeechEngine, settings ...string) string {
	return aboutSettings(e.Name+" ("+e.Kind+")", settings)
}
