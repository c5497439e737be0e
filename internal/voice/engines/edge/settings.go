package edge

import (
	"net/url"
	"regexp"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
)

// Settings define the voice. All are optional.
type Settings struct {
	// URL is the address of the service. Empty means Microsoft's.
	URL string `json:"url,omitempty"`
	// Voice is the name of a voice, such as zh-CN-XiaoxiaoNeural. Empty means one of the language.
	Voice string `json:"voice,omitempty"`
	// Speed is the speed of speech, 0.5 to 2; 0 means 1.
	Speed float64 `json:"speed,omitempty"`
}

const (
	msgURL   = i18n.Message("url is not the address of a speech server; it has to look like ws://localhost:2700 or wss://…")
	msgVoice = i18n.Message("voice is %q; give a name such as zh-CN-XiaoxiaoNeural, or leave it out")
	msgSpeed = i18n.Message("speed is %v; choose between 0.5 and 2, or leave it out")
)

// voiceName matches the names of voices (rany2/edge-tts src/edge_tts/data_classes.py).
var voiceName = regexp.MustCompile(`^[a-z]{2,3}-[A-Za-z]{2,8}(-[A-Za-z]{2,16})?-[A-Za-z]{2,40}Neural$`)

// Validate returns an error that explains what is invalid and how to fix it.
func (s *Settings) Validate() error {
	u, err := url.Parse(s.address())
	switch {
	case err != nil || u.Scheme != "wss" && u.Scheme != "ws" || u.Hostname() == "" || u.User != nil:
		return msgURL.Errorf()
	case s.Voice != "" && !voiceName.MatchString(s.Voice):
		return msgVoice.Errorf(s.Voice)
	case s.Speed != 0 && !(s.Speed >= 0.5 && s.Speed <= 2):
		return msgSpeed.Errorf(s.Speed)
	}
	return nil
}

func (s *Settings) address() string {
	if s.URL == "" {
		return microsoft
	}
	return s.URL
}

// Kind returns the kind of engines "edge".
func Kind() engine.Kind {
	return engine.Kind{
		Name:     "edge",
		Title:    i18n.Message("Microsoft Edge's read-aloud"),
		About:    i18n.Message("The voices of Microsoft's browser, without a key. It is a private interface for that browser: Microsoft licenses it to nobody else and may refuse you at any time."),
		Speaks:   true,
		Settings: func() any { return new(Settings) },
		Texts: map[string]settings.FieldText{
			"url": {Label: i18n.Message("Address"), Hint: i18n.Message("Microsoft's if empty")},
			"voice": {Label: i18n.Message("Voice"), Hint: i18n.Message("One of the language if empty"),
				Example: "zh-CN-XiaoxiaoNeural"},
			"speed": {Label: i18n.Message("Speed"), Hint: i18n.Message("0.5 to 2; 1 if empty"), Example: "1.1"},
		},
		Open: func(s any, o engine.Options) (engine.Engine, error) { return New(*s.(*Settings), o) },

		Schemes: []string{scheme + "wss", scheme + "ws"},
		FromAddress: func(address, _ string) any {
			s := &Settings{URL: strings.TrimPrefix(address, scheme)}
			if s.URL == "wss://"+microsoftHost || s.URL == "wss://"+microsoftHost+"/" {
				s.URL = ""
			}
			return s
		},
	}
}
