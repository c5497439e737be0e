package devices

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/settings"
)

// voiceField is a setting in the form about how a device hears and speaks.
type voiceField struct {
	hub.Setting
	Value     string
	Inherited string // what holds if Value is empty; empty: the default
	Wrong     string
}

func (f voiceField) id() string { return "set-" + f.Name }

// isWide reports whether a value is longer than an input shows.
func (f voiceField) isWide() bool { return f.Form == settings.FormList || f.Name == "greeting" }

// inheritedText returns the inherited value as people read it.
func (f voiceField) inheritedText() string {
	if f.Name == languageField {
		return languageName(f.Inherited)
	}
	return f.Inherited
}

// languageField is the setting with the code of a language.
const languageField = "language"

// language is one that a person speaks with a board, by its code and in its own words.
type language struct{ code, name string }

// languages are offered. Programs can set any code of BCP 47.
var languages = []language{
	{"zh", "中文"}, {"yue", "粵語"}, {"en", "English"}, {"ja", "日本語"}, {"ko", "한국어"}, {"ar", "العربية"},
	{"cs", "Čeština"}, {"de", "Deutsch"}, {"el", "Ελληνικά"}, {"es", "Español"}, {"fr", "Français"},
	{"he", "עברית"}, {"hi", "हिन्दी"}, {"hu", "Magyar"}, {"id", "Bahasa Indonesia"}, {"it", "Italiano"},
	{"ms", "Bahasa Melayu"}, {"nl", "Nederlands"}, {"pl", "Polski"}, {"pt", "Português"}, {"ro", "Română"},
	{"ru", "Русский"}, {"sv", "Svenska"}, {"th", "ไทย"}, {"tr", "Türkçe"}, {"uk", "Українська"}, {"vi", "Tiếng Việt"},
}

// languagesFor returns the languages to choose from, with the present one.
func languagesFor(code string) []language {
	if code == "" || slices.ContainsFunc(languages, func(l language) bool { return l.code == code }) {
		return languages
	}
	return append([]language{{code, languageName(code)}}, languages...)
}

// languageName returns the name of a language with its code, or the code alone.
func languageName(code string) string {
	base, _, _ := strings.Cut(code, "-")
	for _, l := range languages {
		if l.code == base {
			return l.name + " (" + code + ")"
		}
	}
	return code
}

// voiceForm has the current or submitted settings, and their error.
type voiceForm struct {
	Fields  []voiceField
	Engines []string
	Wrong   string
}

func newVoiceForm(d control.DeviceVoice) (f voiceForm) {
	f.Engines = d.Engines
	for _, k := range d.Kinds {
		value := voiceField{Setting: k, Value: settings.Text(d.Settings[k.Name])}
		if d.Settings[k.Name] == nil {
			value.Value, value.Inherited = "", settings.Text(d.Effective[k.Name])
		}
		f.Fields = append(f.Fields, value)
	}
	return f
}

// read reads the submitted form and returns the changed settings.
func (f *voiceForm) read(v *page.Visit) control.SettingTexts {
	set := control.SettingTexts{}
	for i := range f.Fields {
		x := &f.Fields[i]
		if text := strings.TrimSpace(v.FormValue(x.Name)); text != x.Value {
			set[x.Name], x.Value = text, text
		}
	}
	return set
}

// setError shows an error beside the field whose name it begins with.
func (f *voiceForm) setError(v *page.Visit, text string) {
	f.Wrong = text
	for i := range f.Fields {
		x := &f.Fields[i]
		if beside, above, ok := v.FieldError(text, x.Name, x.Text.Label); ok {
			x.Wrong, f.Wrong = beside, above
		}
	}
}

// loadVoice returns how the device hears and speaks. If it returns false, it has responded.
func (p *pages) loadVoice(v *page.Visit) (d view, f voiceForm, ok bool) {
	if d, ok = p.find(v); !ok {
		return d, f, false
	}
	voice, err := p.control.DeviceVoice(v.Context(), v.Caller(),
		control.DeviceRef{Device: strconv.FormatInt(d.Number, 10)})
	if err != nil {
		v.Fail(err)
		return d, f, false
	}
	return d, newVoiceForm(voice), true
}

func (p *pages) voice(v *page.Visit) {
	if d, f, ok := p.loadVoice(v); ok {
		v.Render(http.StatusOK, voicePage(v, &d, &f))
	}
}

// changeVoice saves the settings that differ.
func (p *pages) changeVoice(v *page.Visit) {
	d, f, ok := p.loadVoice(v)
	if !ok {
		return
	}
	set := f.read(v)
	if len(set) > 0 {
		_, err := p.control.ChangeDeviceVoice(v.Context(), v.Caller(),
			control.DeviceVoiceChange{Device: strconv.FormatInt(d.Number, 10), Settings: set})
		if err != nil {
			text, status := v.Wrong(err)
			if text != "" { // otherwise the browser has disconnected
				f.setError(v, text)
				v.Render(status, voicePage(v, &d, &f))
			}
			return
		}
	}
	v.Redirect(d.path("/voice?saved"))
}

// placeholder returns what the empty input shows.
func (f voiceField) placeholder(v *page.Visit) string {
	return cmp.Or(f.Inherited, v.Text(f.Text.Example))
}
