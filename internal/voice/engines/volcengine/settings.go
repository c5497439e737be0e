package volcengine

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// Default values of settings (Volcengine, list of resources and voices).
const (
	DefaultURL         = "wss://openspeech.bytedance.com"
	DefaultListenModel = "volc.bigasr.sauc.duration"
	DefaultSpeakModel  = "seed-tts-2.0"
	DefaultVoice       = "zh_female_xiaohe_uranus_bigtts"

	firstVoice = "zh_female_shuangkuaisisi_moon_bigtts" // of seed-tts-1.0
)

// Formats of speech.
const (
	PCM  = "pcm"  // 24 kHz
	Opus = "opus" // in Ogg
)

// minSpeed and maxSpeed are those of the service (volcengine.com/docs/6561/1329505, speech_rate).
const minSpeed, maxSpeed = 0.5, 2.0

// Settings define an engine. AppKey is required.
type Settings struct {
	// URL is the address of the service, without a path. Empty means DefaultURL.
	URL string `json:"url,omitempty"`
	// AppKey is the app id, and AccessKey its access token. A key of the new console is an AppKey
	// alone.
	AppKey    string `json:"app_key" secret:"true" to:"url"`
	AccessKey string `json:"access_key,omitempty" secret:"true" to:"url"`
	// ListenModel and SpeakModel are resource ids, which name the model and how it is paid.
	ListenModel string `json:"listen_model,omitempty"`
	SpeakModel  string `json:"speak_model,omitempty"`
	// Voice is the name of a voice of SpeakModel; a conversation may choose another.
	Voice string `json:"voice,omitempty"`
	// Speed is the speed of speech, 0.5 to 2; 0 means the normal one.
	Speed float64 `json:"speed,omitempty"`
	// Format is what speech is sent in: pcm or opus. Empty means pcm.
	Format string `json:"format,omitempty"`
}

// Texts about invalid settings.
const (
	msgNoKey  = i18n.Message("app_key is missing: give the app id or the key of Volcengine's console")
	msgURL    = i18n.Message("url is not an address of Volcengine; it has to look like %s")
	msgSpeed  = i18n.Message("speed is %v; choose between 0.5 and 2, or leave it out")
	msgFormat = i18n.Message("format is %q; choose pcm or opus, or leave it out")
	msgModel  = i18n.Message("%s is %q, which cannot be a resource; give something like %s")
)

// Validate returns an error that explains what is invalid and how to fix it. It quotes no secret.
func (s *Settings) Validate() error {
	if _, err := s.address(""); err != nil {
		return err
	}
	switch {
	case s.AppKey == "":
		return msgNoKey.Errorf()
	case s.Speed != 0 && !(s.Speed >= minSpeed && s.Speed <= maxSpeed):
		return msgSpeed.Errorf(s.Speed)
	case !slices.Contains([]string{"", PCM, Opus}, s.Format):
		return msgFormat.Errorf(s.Format)
	case !isResource(s.ListenModel):
		return msgModel.Errorf("listen_model", s.ListenModel, DefaultListenModel)
	case !isResource(s.SpeakModel):
		return msgModel.Errorf("speak_model", s.SpeakModel, DefaultSpeakModel)
	}
	return errors.Join(settings.CheckCredential("app_key", s.AppKey), settings.CheckCredential("access_key", s.AccessKey))
}

// isResource reports whether a text can be in a header.
func isResource(id string) bool {
	return !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// address returns the address of a path. Errors do not quote it.
func (s *Settings) address(path string) (*url.URL, error) {
	u, err := url.Parse(orDefault(strings.TrimSpace(s.URL), DefaultURL))
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || u.User != nil {
		return nil, msgURL.Errorf(DefaultURL)
	}
	u.Fragment, u.RawFragment = "", ""
	u.Path = strings.TrimRight(u.Path, "/") + path
	return u, nil
}

func orDefault(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}
