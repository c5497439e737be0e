package api

import "patchbay/internal/control"

// maxSound limits the sound of a test, in bytes of JSON: two minutes of WAV at 16 kHz.
const maxSound = 6 << 20

// Operations.
var (
	VoiceServices  = define("GET /api/v1/voice/services", "List the services of which one key is enough for a conversation", (*control.Service).VoiceServices)
	SetUpVoice     = define("POST /api/v1/voice/setup", "Make and test speech engines and a bot from a key or from addresses", (*control.Service).SetUpVoice).lasting(checkLimit)
	VoiceUsage     = define("GET /api/v1/voice/usage", "Return what boards have used of speech engines, by day, person, device and engine", (*control.Service).VoiceUsage)
	VoiceLatency   = define("GET /api/v1/voice/latency", "Return how fast the last spoken turns were answered, stage by stage", (*control.Service).VoiceLatency)
	EngineKinds    = define("GET /api/v1/voice/kinds", "List the kinds of speech engines with their settings", (*control.Service).EngineKinds)
	ListEngines    = define("GET /api/v1/voice/engines", "List speech engines in their order, with their status", (*control.Service).ListEngines)
	AddEngine      = define("POST /api/v1/voice/engines", "Add a speech engine", (*control.Service).AddEngine).lasting(checkLimit)
	ShowEngine     = define("GET /api/v1/voice/engines/{engine}", "Return a speech engine with its settings, secrets masked", (*control.Service).ShowEngine)
	ChangeEngine   = define("PATCH /api/v1/voice/engines/{engine}", "Update a speech engine; null or an empty string removes a setting", (*control.Service).ChangeEngine).lasting(checkLimit)
	RemoveEngine   = define("DELETE /api/v1/voice/engines/{engine}", "Delete a speech engine", (*control.Service).RemoveEngine)
	MoveEngine     = define("POST /api/v1/voice/engines/{engine}/move", "Change the place of a speech engine in the order", (*control.Service).MoveEngine)
	CheckEngine    = define("POST /api/v1/voice/engines/{engine}/check", "Have a speech engine speak a sentence and listen to it", (*control.Service).CheckEngine).lasting(checkLimit)
	SayWithEngine  = define("POST /api/v1/voice/engines/{engine}/say", "Speak a text with a speech engine; returns a WAV file", (*control.Service).SayWithEngine).lasting(checkLimit).replying(maxSound)
	HearWithEngine = define("POST /api/v1/voice/engines/{engine}/hear", "Transcribe a WAV or Ogg Opus file with a speech engine", (*control.Service).HearWithEngine).lasting(checkLimit).taking(maxSound)
)

// voiceOperations adds the operations on speech engines.
func (s *Server) voiceOperations() {
	s.operate(VoiceServices, SetUpVoice, VoiceUsage, VoiceLatency, EngineKinds, ListEngines, AddEngine, ShowEngine,
		ChangeEngine, RemoveEngine, MoveEngine, CheckEngine, SayWithEngine, HearWithEngine)
}
