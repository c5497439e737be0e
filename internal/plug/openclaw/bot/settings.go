package bot

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/settings"
)

// Defaults of the settings.
const (
	DefaultAgent    = "main"
	DefaultPrefix   = "patchbay"
	DefaultDeadline = 2 * time.Minute
)

const (
	// maxDeadline is the hub's limit for late answers.
	maxDeadline = 30 * time.Minute
	// minDeadline is the time of the first answer after the start of a gateway.
	minDeadline = 10 * time.Second
)

// Settings select the agent that answers. Only URL is required, and usually Token.
type Settings struct {
	// URL is the gateway's address: wss://gateway.example.com, or ws:// on this machine or in a
	// private network.
	URL string `json:"url"`
	// Token is the gateway's shared secret, gateway.auth.token in its settings.
	Token string `json:"token,omitempty" secret:"true" to:"url"`
	// TLSFingerprint is the SHA-256 fingerprint of the only certificate that the gateway may have.
	// Empty means one that an authority has issued that this machine knows.
	TLSFingerprint string `json:"tls_fingerprint,omitempty" to:"url"`
	// Agent is the agent's id. Empty means main.
	Agent string `json:"agent,omitempty"`
	// SessionPrefix is the prefix of the conversation keys at the gateway. Two bots with the
	// same agent, prefix and asker share a conversation. Empty means patchbay.
	SessionPrefix string `json:"session_prefix,omitempty"`
	// Thinking is the thinking level: off, low, medium, high, as far as the model supports it.
	// Empty means the gateway's default.
	Thinking string `json:"thinking,omitempty"`
	// Deadline limits an answer. 0 means 2 min; the maximum is 30 min.
	Deadline settings.Duration `json:"deadline,omitempty"`
	// DeviceIdentity is the key by which the gateway recognizes this bot, and the token that it
	// issued for it. It is created at first use.
	DeviceIdentity string `json:"device_identity,omitempty" secret:"true" to:"url"`
}

// Patterns of the parts of a conversation key.
var (
	agentPattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	prefixPattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	thinkingPattern = regexp.MustCompile(`^[a-z]{1,16}$`)
)

// Validation errors of the settings.
const (
	msgNoURL    = i18n.Message("url is missing: give the address of the gateway, for example ws://127.0.0.1:18789")
	msgToken    = i18n.Message("token has a space or a line break at an end; copy it again")
	msgAgent    = i18n.Message("agent is %q; an agent's id has letters, digits, - and _")
	msgPrefix   = i18n.Message("session_prefix is %q; use small letters, digits, - and _")
	msgThinking = i18n.Message("thinking is %q; choose off, low, medium or high, or leave it out")
	msgDeadline = i18n.Message(`deadline is %s; choose something like "2m", %s to %s`)
	msgIdentity = i18n.Message("device_identity is not what was made here; leave it out, and a new one is made")
)

// Validate returns the first error in the settings, with its remedy.
func (s *Settings) Validate() error {
	if strings.TrimSpace(s.URL) == "" {
		return msgNoURL.Errorf()
	}
	if _, err := client.ParseURL(s.URL); err != nil {
		return err
	}
	switch d := time.Duration(s.Deadline); {
	case strings.TrimSpace(s.Token) != s.Token:
		return msgToken.Errorf()
	case s.Agent != "" && !agentPattern.MatchString(s.Agent):
		return msgAgent.Errorf(s.Agent)
	case s.SessionPrefix != "" && !prefixPattern.MatchString(s.SessionPrefix):
		return msgPrefix.Errorf(s.SessionPrefix)
	case s.Thinking != "" && !thinkingPattern.MatchString(s.Thinking):
		return msgThinking.Errorf(s.Thinking)
	case d != 0 && d < minDeadline || d > maxDeadline:
		return msgDeadline.Errorf(d, minDeadline, maxDeadline)
	}
	if _, err := client.ParsePin(s.TLSFingerprint, s.URL); err != nil {
		return err
	}
	_, err := readDevice(s.DeviceIdentity)
	return err
}

func (s *Settings) agent() string  { return orElse(s.Agent, DefaultAgent) }
func (s *Settings) prefix() string { return orElse(s.SessionPrefix, DefaultPrefix) }
func (s *Settings) deadline() time.Duration {
	return orElse(time.Duration(s.Deadline), DefaultDeadline)
}

func orElse[T comparable](v, otherwise T) T {
	var none T
	if v == none {
		return otherwise
	}
	return v
}

// device is the content of [Settings].DeviceIdentity.
type device struct {
	Identity *wire.Identity `json:"device"`
	Token    string         `json:"token,omitempty"` // issued by the gateway
}

// readDevice parses DeviceIdentity. An empty text has no device.
func readDevice(text string) (device, error) {
	var d device
	if text == "" {
		return d, nil
	}
	if json.Unmarshal([]byte(text), &d) != nil || d.Identity == nil || d.Identity.ID() == "" {
		// Do not show it: it is a secret.
		return device{}, msgIdentity.Errorf()
	}
	return d, nil
}

func (d device) text() (string, error) {
	b, err := json.Marshal(d)
	return string(b), err
}

// id returns the device's id, or "".
func (d device) id() string {
	if d.Identity == nil {
		return ""
	}
	return d.Identity.ID()
}
