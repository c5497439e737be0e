package realtime

import (
	"cmp"
	"errors"
	"net/url"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/realtime"
)

// DefaultTranscriptionModel writes down what people say to OpenAI's models (guide "Realtime
// transcription"). Those of Qwen have one of their own.
const DefaultTranscriptionModel = "gpt-4o-mini-transcribe"

// maxInstructions limits the owner's prompt, in bytes. It is sent with every session.
const maxInstructions = 32 << 10

// minSpeed and maxSpeed limit the speed of speech (API reference, session.audio.output.speed).
const minSpeed, maxSpeed = 0.25, 1.5

// Values of [Settings].TurnDetection. Empty: Patchbay finds the end of speech.
const (
	DetectServer   = "server"
	DetectSemantic = "semantic"
)

// Settings define a bot. URL and Model are required.
type Settings struct {
	// URL is the address of the service, wss://api.openai.com/v1/realtime or
	// wss://dashscope.aliyuncs.com/api-ws/v1/realtime.
	URL string `json:"url"`
	// APIKey is sent as a bearer token.
	APIKey string `json:"api_key,omitempty" secret:"true" to:"url"`
	// Model is the model's name as the service knows it.
	Model string `json:"model"`
	// Voice is the name of the voice. Empty: the model's.
	Voice string `json:"voice,omitempty"`
	// Speed is the speed of speech, 0.25 to 1.5; 0: the model's. Only OpenAI has it.
	Speed float64 `json:"speed,omitempty"`
	// Instructions are the owner's addition to the system prompt.
	Instructions string `json:"instructions,omitempty"`
	// TurnDetection is who finds the end of speech: Patchbay if it is empty, or the service, by
	// pauses (server) or by what was said (semantic).
	TurnDetection string `json:"turn_detection,omitempty"`
	// TranscriptionModel writes down what people say. Empty means the usual one.
	TranscriptionModel string `json:"transcription_model,omitempty"`
	// Spelling is openai or qwen. Empty means that of the address and the model.
	Spelling string `json:"spelling,omitempty"`
	// Tools reports whether the model may call the tools that the owner allows. Null means yes.
	Tools *bool `json:"tools,omitempty"`
	// Headers are sent with the WebSocket request. They override our own.
	Headers map[string]string `json:"headers,omitempty" secret:"true" to:"url"`
	engine.Price
}

// Texts about invalid settings.
const (
	msgNoModel         = i18n.Message("model is missing: name the model that answers, for example gpt-realtime or qwen3-omni-flash-realtime")
	msgLongInstruction = i18n.Message("instructions has %d bytes; %d are the most, because it is sent with every conversation")
	msgSpelling        = i18n.Message("spelling is %q; choose openai or qwen, or leave it out")
	msgDetection       = i18n.Message("turn_detection is %q; choose server or semantic, or leave it out")
	msgSpeed           = i18n.Message("speed is %v; choose between 0.25 and 1.5, or leave it out")
)

// Validate returns an error that explains what is invalid and how to fix it.
func (s *Settings) Validate() error {
	if _, err := realtime.ParseURL(s.URL); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(s.Model) == "":
		return msgNoModel.Errorf()
	case len(s.Instructions) > maxInstructions:
		return msgLongInstruction.Errorf(len(s.Instructions), maxInstructions)
	case s.Spelling != "" && s.Spelling != string(realtime.OpenAI) && s.Spelling != string(realtime.Qwen):
		return msgSpelling.Errorf(s.Spelling)
	case s.TurnDetection != "" && s.TurnDetection != DetectServer && s.TurnDetection != DetectSemantic:
		return msgDetection.Errorf(s.TurnDetection)
	case s.Speed != 0 && !(s.Speed >= minSpeed && s.Speed <= maxSpeed):
		return msgSpeed.Errorf(s.Speed)
	}
	return errors.Join(s.Price.Validate(), realtime.CheckCredentials(s.APIKey, s.Headers))
}

func (s *Settings) spelling(u *url.URL) realtime.Spelling {
	return cmp.Or(realtime.Spelling(s.Spelling), realtime.SpellingOf(u, s.Model))
}

func (s *Settings) tools() bool { return s.Tools == nil || *s.Tools }

// session returns the configuration of sessions, without what depends on the conversation.
func (s *Settings) session(spelling realtime.Spelling) realtime.Session {
	out := realtime.Session{Voice: s.Voice, Speed: s.Speed, TranscriptionModel: s.TranscriptionModel,
		Detection: map[string]string{DetectServer: realtime.ServerVAD,
			DetectSemantic: realtime.SemanticVAD}[s.TurnDetection]}
	if out.TranscriptionModel == "" && spelling == realtime.OpenAI {
		out.TranscriptionModel = DefaultTranscriptionModel
	}
	return out
}
