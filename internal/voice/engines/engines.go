// Package engines has the kinds of speech engines, opens engines by their addresses, whose schemes
// name the kind, and checks them.
package engines

import (
	"slices"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/dashscope"
	"patchbay/internal/voice/engines/edge"
	"patchbay/internal/voice/engines/httpspeech"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/realtime"
	"patchbay/internal/voice/engines/stream"
	"patchbay/internal/voice/engines/volcengine"
	"patchbay/internal/voice/engines/wyoming"
)

// Kinds lists the kinds of engines, in the order in which people are shown them.
func Kinds() []engine.Kind {
	return []engine.Kind{openai.Kind(), stream.Kind(), wyoming.Kind(), dashscope.Kind(), volcengine.Kind(),
		realtime.Kind(), httpspeech.Kind(), edge.Kind()}
}

// Settings define an engine by its address. Address is required.
type Settings struct {
	// Address has a scheme of a kind.
	Address string
	Key     string
	// NoListening and NoSpeaking leave a part of the engine out.
	NoListening, NoSpeaking bool
	// What follows is used by the kinds that have such a setting; empty means their defaults.
	ListenModel, SpeakModel, Voice, Format string
}

const (
	msgScheme  = i18n.Message("the address of a speech engine begins with %s")
	msgNothing = i18n.Message("the speech engine can neither listen nor speak, or is not to do either")
)

// Open returns the engine with an address. It does not connect.
func Open(s Settings, o engine.Options) (engine.Engine, error) {
	scheme, _, _ := strings.Cut(s.Address, "://")
	var schemes []string
	for _, k := range Kinds() {
		if slices.Contains(k.Schemes, scheme) {
			return s.open(k, o)
		}
		for _, other := range k.Schemes {
			schemes = append(schemes, other+"://")
		}
	}
	return engine.Engine{}, msgScheme.Errorf(strings.Join(schemes, ", "))
}

func (s Settings) open(k engine.Kind, o engine.Options) (engine.Engine, error) {
	of := k.FromAddress(s.Address, s.Key)
	set := map[string]string{}
	for _, f := range (settings.Schema{k.Settings}).Fields() {
		text := map[string]string{"listen_model": s.ListenModel, "speak_model": s.SpeakModel, "voice": s.Voice,
			"format": s.Format}[f.Name]
		if text != "" {
			set[f.Name] = text
		}
	}
	if _, err := settings.ChangeStruct(of, set); err != nil {
		return engine.Engine{}, err
	}
	e, err := k.Open(of, o)
	if err != nil {
		return engine.Engine{}, err
	}
	if s.NoListening {
		e.Listener = nil
	}
	if s.NoSpeaking {
		e.Speaker = nil
	}
	if e.Listener == nil && e.Speaker == nil {
		return engine.Engine{}, msgNothing.Errorf()
	}
	return e, nil
}
