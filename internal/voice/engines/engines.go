// Package engines opens speech engines by their addresses, whose schemes name the wire protocol,
// and checks them.
package engines

import (
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/stream"
)

// Settings define an engine. Address is required.
type Settings struct {
	// Address is http:// or https:// for an API like that of OpenAI; funasr+ws://, vosk+ws:// or
	// sherpa+ws:// for a recogniser over a WebSocket, or wss in place of ws.
	Address string
	Key     string
	// NoListening and NoSpeaking leave a part of the engine out.
	NoListening, NoSpeaking bool
	// What follows is used by the engines that have it; empty means their defaults.
	ListenModel, SpeakModel, Voice, Format string
}

const msgScheme = i18n.Message("the address of a speech engine begins with https://, http://, funasr+wss://, funasr+ws://, vosk+ws:// or sherpa+ws://")

// Open returns the engine with an address. It does not connect.
func Open(s Settings, o engine.Options) (engine.Engine, error) {
	scheme, _, _ := strings.Cut(s.Address, "://")
	dialect, wire, isStream := strings.Cut(scheme, "+")
	switch {
	case scheme == "http" || scheme == "https":
		listens, speaks := !s.NoListening, !s.NoSpeaking
		return openai.New(openai.Settings{BaseURL: s.Address, APIKey: s.Key, Listens: &listens, Speaks: &speaks,
			ListenModel: s.ListenModel, SpeakModel: s.SpeakModel, Voice: s.Voice, Format: s.Format}, o)
	case isStream && (wire == "ws" || wire == "wss"):
		return stream.New(stream.Settings{URL: strings.TrimPrefix(s.Address, dialect+"+"), Dialect: dialect,
			APIKey: s.Key}, o)
	}
	return engine.Engine{}, msgScheme.Errorf()
}
