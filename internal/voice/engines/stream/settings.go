package stream

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/language"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// Dialects: values of [Settings].Dialect.
const (
	FunASR = "funasr"
	Vosk   = "vosk"
	Sherpa = "sherpa"
)

// Modes of FunASR (runtime/docs/websocket_protocol.md, "mode").
const (
	TwoPass = "2pass"   // partial texts, which better ones replace
	Online  = "online"  // partial texts only
	Offline = "offline" // one text, after the end
)

const (
	// maxHotwords limits the configuration message.
	maxHotwords = 200
	// maxHotword is the maximum length of a hot word, in characters.
	maxHotword = 50
	// maxResultTimeout is longer than anybody waits for an answer.
	maxResultTimeout = time.Minute
)

// Settings define the server. URL and Dialect are required.
type Settings struct {
	// URL is the address of the server: "wss://localhost:10095" for FunASR, "ws://localhost:2700"
	// for Vosk, "ws://localhost:6006" for sherpa-onnx. A path and a query are kept.
	URL string `json:"url"`
	// Dialect is the protocol of the server: funasr, vosk or sherpa.
	Dialect string `json:"dialect"`
	// Mode is how FunASR recognises: 2pass, online or offline. Empty means 2pass.
	Mode string `json:"mode,omitempty"`
	// APIKey is sent as a bearer token. The servers check none; a proxy before them may.
	APIKey string `json:"api_key,omitempty" secret:"true" to:"url"`
	// Language is the language of the server's model, BCP 47. Transcripts have it if the server
	// does not report one. It is not sent: the model decides.
	Language string `json:"language,omitempty"`
	// Hotwords are names that FunASR recognises more easily; at most 200 of 50 characters.
	Hotwords []string `json:"hotwords,omitempty"`
	// Headers are sent with the WebSocket request. They override our own.
	Headers map[string]string `json:"headers,omitempty" secret:"true" to:"url"`
	// SkipTLSVerify accepts every certificate: that of a FunASR server is self-signed unless its
	// owner changed it. Whoever can redirect the connection can then listen.
	SkipTLSVerify bool `json:"skip_tls_verify,omitempty"`
	// ResultTimeout limits the time without a message after the end of the speech. 0 means 5 s; the
	// maximum is 1 min. It does not hold for FunASR, which sends nothing for silence: its limit is
	// 2 s.
	ResultTimeout settings.Duration `json:"result_timeout,omitempty"`
}

// Texts about invalid settings.
const (
	msgNoURL         = i18n.Message("url is missing: give the address of the speech server, for example ws://localhost:2700")
	msgURL           = i18n.Message("url is not the address of a speech server; it has to look like ws://localhost:2700 or wss://…")
	msgURLUser       = i18n.Message("url holds a user name or password; put the secret into api_key or headers instead")
	msgDialect       = i18n.Message("dialect is %q; choose funasr, vosk or sherpa, whichever the speech server is")
	msgMode          = i18n.Message("mode is %q; choose 2pass, online or offline, or leave it out for 2pass")
	msgModeDialect   = i18n.Message("mode is only for funasr; take it out")
	msgHotwordsOther = i18n.Message("hotwords are only for funasr; take them out")
	msgHotwordsMany  = i18n.Message("hotwords has %d words; %d are the most")
	msgHotword       = i18n.Message("hotwords: %q is empty or has more than %d characters")
	msgLanguage      = i18n.Message("language is %q; give a code such as zh or en-US, or leave it out")
	msgResultTimeout = i18n.Message(`result_timeout is %s; choose something like "5s", %s at most`)
)

// reservedHeaders belong to the WebSocket request (RFC 6455, 4.1).
var reservedHeaders = []string{"upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol",
	"sec-websocket-extensions", "sec-websocket-accept"}

// Validate returns an error that explains what is invalid and how to fix it. It quotes neither the
// address nor a secret.
func (s *Settings) Validate() error {
	if _, err := parseURL(s.URL); err != nil {
		return err
	}
	return errors.Join(s.checkDialect(), s.checkHotwords(), s.checkRest(),
		settings.CheckCredential("api_key", s.APIKey), settings.CheckHeaders(s.Headers, reservedHeaders...))
}

func (s *Settings) checkDialect() error {
	switch {
	case !slices.Contains([]string{FunASR, Vosk, Sherpa}, s.Dialect):
		return msgDialect.Errorf(s.Dialect)
	case s.Mode == "":
		return nil
	case s.Dialect != FunASR:
		return msgModeDialect.Errorf()
	case !slices.Contains([]string{TwoPass, Online, Offline}, s.Mode):
		return msgMode.Errorf(s.Mode)
	}
	return nil
}

func (s *Settings) checkHotwords() error {
	switch {
	case len(s.Hotwords) > 0 && s.Dialect != FunASR:
		return msgHotwordsOther.Errorf()
	case len(s.Hotwords) > maxHotwords:
		return msgHotwordsMany.Errorf(len(s.Hotwords), maxHotwords)
	}
	for _, word := range s.Hotwords {
		if !isHotword(word) {
			return msgHotword.Errorf(word, maxHotword)
		}
	}
	return nil
}

func isHotword(word string) bool {
	return strings.TrimSpace(word) != "" && utf8.RuneCountInString(word) <= maxHotword
}

func (s *Settings) checkRest() error {
	if s.Language != "" {
		if _, err := language.Parse(s.Language); err != nil {
			return msgLanguage.Errorf(s.Language)
		}
	}
	if time.Duration(s.ResultTimeout) > maxResultTimeout {
		return msgResultTimeout.Errorf(time.Duration(s.ResultTimeout), maxResultTimeout)
	}
	return nil
}

// parseURL parses the address. Errors do not quote it: a query may hold a secret.
func parseURL(address string) (*url.URL, error) {
	address = strings.TrimSpace(address)
	if address == "" {
		return nil, msgNoURL.Errorf()
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" {
		return nil, msgURL.Errorf()
	}
	if u.User != nil {
		return nil, msgURLUser.Errorf()
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}
