package bot

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
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
	// Agent is the agent's id. Empty means main.
	Agent string `json:"agent,omitempty"`
	// SessionPrefix is the prefix of the conversation keys at the gateway. Two bots with the
	// same agent, prefix and asker share a conversation. Empty means patchbay.
	SessionPrefix string `json:"session_prefix,omitempty"`
	// Thinking is the thinking level: off, low, medium, high, as far as the model supports it.
	// Empty means the gateway's default.
	Thinking string `json:"thinking,omitempty"`
	// Deadline limits an answer. 0 means 2 min; the maximum is 30 min.
	Deadline hub.Duration `json:"deadline,omitempty"`
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
var (
	sayNoURL = talk.Say{Zh: "url 没有填写：请填写网关的地址，例如 ws://127.0.0.1:18789",
		En: "url is missing: give the address of the gateway, for example ws://127.0.0.1:18789"}
	sayToken = talk.Say{Zh: "token 的首尾有空格或换行；请重新复制",
		En: "token has a space or a line break at an end; copy it again"}
	sayAgent = talk.Say{Zh: "agent 是 %q；智能体的 id 只有字母、数字、- 和 _",
		En: "agent is %q; an agent's id has letters, digits, - and _"}
	sayPrefix = talk.Say{Zh: "session_prefix 是 %q；请使用小写字母、数字、- 和 _",
		En: "session_prefix is %q; use small letters, digits, - and _"}
	sayThinking = talk.Say{Zh: "thinking 是 %q；请选择 off、low、medium 或 high，或者不填",
		En: "thinking is %q; choose off, low, medium or high, or leave it out"}
	sayDeadline = talk.Say{Zh: `deadline 是 %s；请写成 "2m" 这样，从 %s 到 %s`,
		En: `deadline is %s; choose something like "2m", %s to %s`}
	sayIdentity = talk.Say{
		Zh: "device_identity 不是在这里生成的；不要填写，就会生成新的",
		En: "device_identity is not what was made here; leave it out, and a new one is made",
	}
)

// Validate returns the first error in the settings, with its remedy.
func (s *Settings) Validate() error {
	if strings.TrimSpace(s.URL) == "" {
		return sayNoURL.Wrong()
	}
	if _, err := client.ParseURL(s.URL); err != nil {
		return err
	}
	switch d := time.Duration(s.Deadline); {
	case strings.TrimSpace(s.Token) != s.Token:
		return sayToken.Wrong()
	case s.Agent != "" && !agentPattern.MatchString(s.Agent):
		return sayAgent.Wrong(s.Agent)
	case s.SessionPrefix != "" && !prefixPattern.MatchString(s.SessionPrefix):
		return sayPrefix.Wrong(s.SessionPrefix)
	case s.Thinking != "" && !thinkingPattern.MatchString(s.Thinking):
		return sayThinking.Wrong(s.Thinking)
	case d != 0 && d < minDeadline || d > maxDeadline:
		return sayDeadline.Wrong(d, minDeadline, maxDeadline)
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
		return device{}, sayIdentity.Wrong()
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
