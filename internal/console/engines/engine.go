package engines

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/problem"
	"patchbay/internal/settings"
)

// field is a setting in a form.
type field struct {
	hub.Setting
	Value string
	Set   bool   // a secret has a value
	Wrong string // validation error
}

func (f *field) id() string { return "set-" + f.Name }

// isLong reports whether a value is longer than an input shows.
func (f *field) isLong() bool {
	return f.Name == "instructions" || f.Name == "body" || f.Name == "prompt" || f.Form == settings.FormList
}

// form has the current or submitted settings of an engine.
type form struct {
	Kind      control.EngineKind
	Name, Use string
	Enabled   bool
	Unchecked bool
	Fields    []field
	Wrong     string // error about the form as a whole
}

// newForm makes a form from the values of settings.
func newForm(k control.EngineKind, set map[string]string) *form {
	f := &form{Kind: k, Enabled: true}
	for _, s := range k.Settings {
		value, is := set[s.Name]
		f.Fields = append(f.Fields, field{Setting: s, Value: value, Set: is})
	}
	slices.SortStableFunc(f.Fields, func(a, b field) int { // the required ones first
		switch {
		case a.Required && !b.Required:
			return -1
		case b.Required && !a.Required:
			return 1
		}
		return 0
	})
	return f
}

// read reads the submitted form and returns the changed settings. Submitted secrets are only in the
// result, not in the form.
func (f *form) read(v *page.Visit) control.SettingTexts {
	f.Name, f.Use = strings.TrimSpace(v.FormValue("name")), v.FormValue("use")
	f.Enabled, f.Unchecked = v.FormValue("enabled") != "", v.FormValue("unchecked") != ""
	set := control.SettingTexts{}
	for i := range f.Fields {
		x := &f.Fields[i]
		text := strings.TrimSpace(strings.ReplaceAll(v.FormValue(x.Name), "\r\n", "\n"))
		switch {
		case x.Secret && v.FormValue("drop."+x.Name) != "":
			set[x.Name] = ""
		case x.Secret && text != "":
			set[x.Name] = text
		case !x.Secret && text != x.Value && !(x.Form == settings.FormBool && text == "" && x.Value == "false"):
			set[x.Name], x.Value = text, text
		}
	}
	return set
}

// setError shows an error beside the field whose name it begins with.
func (f *form) setError(v *page.Visit, text string) {
	f.Wrong = text
	for i := range f.Fields {
		x := &f.Fields[i]
		if beside, above, ok := v.FieldError(text, x.Name, x.Text.Label); ok {
			x.Wrong, f.Wrong = beside, above
		}
	}
}

// kinds returns the kinds of engines. On failure it has responded and returns false.
func (p pages) kinds(v *page.Visit) ([]control.EngineKind, bool) {
	list, err := p.EngineKinds(v.Context(), v.Operator(), control.Empty{})
	if err != nil {
		v.Fail(err)
	}
	return list.Kinds, err == nil
}

func kindNamed(kinds []control.EngineKind, name string) (control.EngineKind, bool) {
	i := slices.IndexFunc(kinds, func(k control.EngineKind) bool { return k.Name == name })
	if i < 0 {
		return control.EngineKind{}, false
	}
	return kinds[i], true
}

// addPage shows the choice of kinds, or the form for a new engine of one kind.
func (p pages) addPage(v *page.Visit) {
	kinds, ok := p.kinds(v)
	if !ok {
		return
	}
	if v.FormValue("kind") == "" {
		v.Render(http.StatusOK, kindsPage(v, kinds))
		return
	}
	k, ok := kindNamed(kinds, v.FormValue("kind"))
	if !ok {
		v.NotFound()
		return
	}
	v.Render(http.StatusOK, newPage(v, newForm(k, nil)))
}

// add adds an engine.
func (p pages) add(v *page.Visit) {
	kinds, ok := p.kinds(v)
	if !ok {
		return
	}
	k, ok := kindNamed(kinds, v.FormValue("kind"))
	if !ok {
		v.NotFound()
		return
	}
	f := newForm(k, nil)
	set := f.read(v)
	d, err := p.AddEngine(v.Context(), v.Operator(), control.NewEngine{Name: f.Name, Kind: k.Name, Use: f.Use,
		Settings: set, Unchecked: f.Unchecked})
	if err != nil {
		wrong(v, err, func(status int, text string) {
			f.setError(v, text)
			v.Render(status, newPage(v, f))
		})
		return
	}
	v.Redirect(engineURL(&d.Engine) + "?done=added")
}

// view is the content of the page of an engine.
type view struct {
	control.Engine
	Form *form // nil for an engine of the configuration
	// Notice is about further effects of a change.
	Notice string
	// Results of the tests.
	Found *control.EngineFound
	Text  string
	Said  *control.EngineSaid
	Heard *control.EngineHeard
	Wrong string
}

// audio returns the sound that an engine has spoken, as an address.
func (x *view) audio() string {
	return "data:audio/wav;base64," + base64.StdEncoding.EncodeToString(x.Said.Sound)
}

// find returns the engine that the path names. On failure it has responded and returns false.
func (p pages) find(v *page.Visit) (*view, bool) {
	ref := control.EngineRef{Engine: v.PathValue("engine")}
	d, err := p.ShowEngine(v.Context(), v.Operator(), ref)
	if err != nil {
		v.Fail(err)
		return nil, false
	}
	x := &view{Engine: d.Engine, Text: v.Text(msgSample)}
	if d.Configured {
		return x, true
	}
	kinds, ok := p.kinds(v)
	if !ok {
		return nil, false
	}
	if k, ok := kindNamed(kinds, d.Kind); ok {
		set, err := p.EngineTexts(v.Context(), v.Operator(), ref)
		if err != nil { // settings that cannot be read can be given anew
			v.Instance.Logger.WarnContext(v.Context(), "the settings of a speech engine cannot be read", "engine", d.Name,
				"error", err)
		}
		x.Form = newForm(k, set)
		x.Form.Name, x.Form.Use, x.Form.Enabled = d.Name, d.Use, d.Enabled
	}
	return x, true
}

func (p pages) engine(v *page.Visit) {
	if x, ok := p.find(v); ok {
		v.Render(http.StatusOK, enginePage(v, x))
	}
}

// change saves the settings of an engine.
func (p pages) change(v *page.Visit) {
	x, ok := p.find(v)
	if !ok {
		return
	}
	if x.Form == nil {
		v.NotFound()
		return
	}
	f := x.Form
	set := f.read(v)
	d, err := p.ChangeEngine(v.Context(), v.Operator(), control.EngineChange{Engine: v.PathValue("engine"), Name: &f.Name,
		Use: &f.Use, Enabled: &f.Enabled, Settings: set, Unchecked: f.Unchecked})
	if err != nil {
		wrong(v, err, func(status int, text string) {
			f.setError(v, text)
			v.Render(status, enginePage(v, x))
		})
		return
	}
	if d.Notice != "" { // it is about this change, so only this response shows it
		if x, ok = p.find(v); ok {
			x.Notice = d.Notice
			v.Render(http.StatusOK, enginePage(v, x))
		}
		return
	}
	v.Redirect(engineURL(&d.Engine) + "?done=saved")
}

func (p pages) remove(v *page.Visit) {
	if _, err := p.RemoveEngine(v.Context(), v.Operator(),
		control.EngineRef{Engine: v.PathValue("engine")}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(home + "?done=removed")
}

// try shows the page of an engine with what a test has found.
func (p pages) try(v *page.Visit, test func(*view) error) {
	x, ok := p.find(v)
	if !ok {
		return
	}
	if err := test(x); err != nil {
		wrong(v, err, func(status int, text string) {
			x.Wrong = text
			v.Render(status, enginePage(v, x))
		})
		return
	}
	v.Render(http.StatusOK, enginePage(v, x))
}

// check has the engine speak a sentence and listen to it.
func (p pages) check(v *page.Visit) {
	p.try(v, func(x *view) error {
		found, err := p.CheckEngine(v.Context(), v.Operator(), control.EngineRef{Engine: v.PathValue("engine")})
		x.Found = &found
		if found.Cause != "" {
			x.Found.Problem += " (" + found.Cause + ")"
		}
		return err
	})
}

// say has the engine speak a text.
func (p pages) say(v *page.Visit) {
	p.try(v, func(x *view) error {
		x.Text = v.FormValue("text")
		said, err := p.SayWithEngine(v.Context(), v.Operator(), control.EngineText{Engine: v.PathValue("engine"),
			Text: x.Text})
		x.Said = &said
		return err
	})
}

const (
	// maxSound is the maximum size of a sound file, in bytes: two minutes of WAV at 16 kHz.
	maxSound = 4 << 20
	// maxSoundForm is that of the form with it.
	maxSoundForm = maxSound + 64<<10
)

// hear has the engine understand a file.
func (p pages) hear(v *page.Visit) {
	v.Body = http.MaxBytesReader(v.W, v.Body, maxSoundForm)
	sound, err := readSound(v)
	if v.MultipartForm != nil {
		defer v.MultipartForm.RemoveAll() //nolint:errcheck // at worst a temporary file stays
	}
	p.try(v, func(x *view) error {
		if err != nil {
			return err
		}
		heard, err := p.HearWithEngine(v.Context(), v.Operator(), control.EngineSound{Engine: v.PathValue("engine"),
			Sound: sound, Language: v.FormValue("language")})
		x.Heard = &heard
		return err
	})
}

func readSound(v *page.Visit) ([]byte, error) {
	if err := v.ParseMultipartForm(maxSoundForm); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return nil, problem.New(problem.TooLarge, msgSoundLarge, maxSound>>20)
	}
	f, head, err := v.FormFile("file")
	switch {
	case errors.Is(err, http.ErrMissingFile), errors.Is(err, http.ErrNotMultipart), err == nil && head.Size == 0:
		return nil, problem.New(problem.Invalid, msgNoFile)
	case err != nil:
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
