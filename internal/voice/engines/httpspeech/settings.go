package httpspeech

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/pcm"
)

// Settings define the service. URL is required, and {text} in it or in Body.
type Settings struct {
	// URL is the address, with placeholders: {text}, {voice}, {lang} and {speed}.
	URL string `json:"url"`
	// Method is GET or POST. Empty means POST if there is a body.
	Method string `json:"method,omitempty"`
	// Body is sent, with placeholders. It is JSON if it begins with { or [, a form if it has a =,
	// and plain text otherwise; what replaces the placeholders is escaped for it.
	Body string `json:"body,omitempty"`
	// APIKey is sent as a bearer token. Headers override it, and our own.
	APIKey  string            `json:"api_key,omitempty" secret:"true" to:"url"`
	Headers map[string]string `json:"headers,omitempty" secret:"true" to:"url"`
	// Voice and Speed are what {voice} and {speed} are unless an answer has others. 0 means 1.
	Voice string  `json:"voice,omitempty"`
	Speed float64 `json:"speed,omitempty"`
	// Language is what {lang} is unless an answer has another. Empty means auto.
	Language string `json:"language,omitempty"`
	// PCMRate is the sample rate of sound without a header, in Hz: 16 bits, one channel. 0 means
	// that the service sends WAV, Ogg-Opus or MP3.
	PCMRate int `json:"pcm_rate,omitempty"`
}

const (
	msgNoURL  = i18n.Message("url is missing: give the address of the speech service, for example http://localhost:5000/?text={text}")
	msgHost   = i18n.Message("url has a placeholder in its host; placeholders belong after it")
	msgText   = i18n.Message("neither url nor body has {text}, where the text to speak belongs")
	msgBody   = i18n.Message("body begins like JSON and is not; placeholders of texts stand within quotation marks")
	msgMethod = i18n.Message("method is %q; choose GET or POST, or leave it out")
	msgGet    = i18n.Message("method is GET, which has no body")
	msgSpeed  = i18n.Message("speed is %v; choose between 0.25 and 4, or leave it out")
	msgRate   = i18n.Message("pcm_rate is %d; choose between %d and %d, or leave it out")
)

// reservedHeaders belong to the request.
var reservedHeaders = []string{"content-encoding", "accept-encoding"}

// Validate returns an error that explains what is invalid and how to fix it. It quotes neither the
// address nor a secret.
func (s *Settings) Validate() error {
	switch {
	case strings.TrimSpace(s.URL) == "":
		return msgNoURL.Errorf()
	case strings.Contains(hostOf(s.URL), "{"):
		return msgHost.Errorf()
	case !strings.Contains(s.URL, "{text}") && !strings.Contains(s.Body, "{text}"):
		return msgText.Errorf()
	}
	// Values with everything that has to be escaped.
	v := values{text: "\"\\&=?# \n/", voice: "\"", lang: "zh", speed: 1.5}
	if _, err := settings.ParseAddress("url", v.fill(s.URL, escapeURL), "http://localhost:5000/?text={text}",
		"headers"); err != nil {
		return err
	}
	switch {
	case !slices.Contains([]string{"", http.MethodGet, http.MethodPost}, s.Method):
		return msgMethod.Errorf(s.Method)
	case s.Method == http.MethodGet && s.Body != "":
		return msgGet.Errorf()
	case s.isJSON() && !json.Valid([]byte(v.fill(s.Body, escapeJSON))):
		return msgBody.Errorf()
	case s.Speed != 0 && !(s.Speed >= 0.25 && s.Speed <= 4):
		return msgSpeed.Errorf(s.Speed)
	case s.PCMRate != 0 && (s.PCMRate < pcm.MinRate || s.PCMRate > pcm.MaxRate):
		return msgRate.Errorf(s.PCMRate, pcm.MinRate, pcm.MaxRate)
	}
	if err := settings.CheckCredential("api_key", s.APIKey); err != nil {
		return err
	}
	return settings.CheckHeaders(s.Headers, reservedHeaders...)
}

// hostOf returns what is between the scheme and the path or the query of an address.
func hostOf(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

func (s *Settings) isJSON() bool {
	body := strings.TrimSpace(s.Body)
	for _, placeholder := range []string{"{text}", "{voice}", "{lang}", "{speed}"} {
		if strings.HasPrefix(body, placeholder) {
			return false
		}
	}
	return strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[")
}
