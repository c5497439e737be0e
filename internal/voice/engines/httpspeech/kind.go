package httpspeech

import (
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
)

// Kind returns the kind of engines "http".
func Kind() engine.Kind {
	return engine.Kind{
		Name:     "http",
		Title:    i18n.Message("Speech by HTTP"),
		About:    i18n.Message("Piper's HTTP server, GPT-SoVITS, Index-TTS and whatever else answers a request with a sound. You write the request."),
		Speaks:   true,
		Settings: func() any { return new(Settings) },
		Texts: map[string]settings.FieldText{
			"url": {Label: i18n.Message("Address"), Hint: i18n.Message("With {text}, {voice}, {lang} and {speed}, unless the body has them"),
				Example: "http://localhost:5000/?text={text}"},
			"method": {Label: i18n.Message("Method"), Hint: i18n.Message("GET or POST; POST if empty and there is a body")},
			"body": {Label: i18n.Message("Body"), Hint: i18n.Message("JSON, a form or text, with the same placeholders"),
				Example: `{"text":"{text}"}`},
			"api_key":  {Label: i18n.Message("Key"), Hint: i18n.Message("Engines on this machine need none")},
			"headers":  {Label: i18n.Message("Headers"), Hint: i18n.Message("Of the request, in JSON"), Example: `{"X-Team": "home"}`},
			"voice":    {Label: i18n.Message("Voice"), Hint: i18n.Message("What {voice} is")},
			"speed":    {Label: i18n.Message("Speed"), Hint: i18n.Message("What {speed} is; 1 if empty"), Example: "1.1"},
			"language": {Label: i18n.Message("Language"), Hint: i18n.Message("What {lang} is; auto if empty"), Example: "zh"},
			"pcm_rate": {Label: i18n.Message("Sample rate"),
				Hint: i18n.Message("Of sound without a header, in Hz; leave it out for WAV, Ogg and MP3"), Example: "24000"},
		},
		Open: func(s any, o engine.Options) (engine.Engine, error) { return New(*s.(*Settings), o) },

		Schemes: []string{scheme + "https", scheme + "http"},
		FromAddress: func(address, key string) any {
			s := &Settings{URL: strings.TrimPrefix(address, scheme), APIKey: key}
			if !strings.Contains(address, "{text}") {
				s.Body = defaultBody
			}
			return s
		},
	}
}

const (
	// scheme is before the address in the configuration, because the addresses of another kind
	// begin with http, too.
	scheme = "tts+"
	// defaultBody is the body for an address in the configuration that has no text: that of Piper's
	// HTTP server (OHF-Voice/piper1-gpl docs/API_HTTP.md).
	defaultBody = `{"text":"{text}"}`
)
