package control

import (
	"context"
	"encoding/json"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// VoiceActions are the operations on speech engines that depend on their kind. Engines with number
// 0 are those of the configuration. Errors about input are, or wrap, an [*Error].
type VoiceActions struct {
	// Kinds describes the kinds of engines.
	Kinds func(i18n.Lang) []EngineKind
	// All adds the engines of the configuration to others, in the order in which they are tried.
	All func([]store.SpeechEngine) []store.SpeechEngine
	// Draft returns an engine with changed settings, valid and sealed. Dropped are the secrets that
	// were removed because the address changed.
	Draft func(e store.SpeechEngine, set SettingTexts) (changed store.SpeechEngine, dropped []string, err error)
	// Shown returns the settings of an engine with masked secrets, Texts as texts with empty ones.
	Shown func(store.SpeechEngine) (map[string]json.RawMessage, error)
	Texts func(store.SpeechEngine) (map[string]string, error)
	// Health and Where are what this instance knows of an engine.
	Health func(store.SpeechEngine) EngineHealth
	Where  func(store.SpeechEngine) (where string, listens, speaks bool)
	// Check, Say and Hear use an engine, which may be a draft.
	Check func(context.Context, store.SpeechEngine) (EngineFound, error)
	Say   func(ctx context.Context, e store.SpeechEngine, text string) (EngineSaid, error)
	Hear  func(ctx context.Context, e store.SpeechEngine, sound []byte, language string) (EngineHeard, error)
	// Wyoming returns what Wyoming servers can do: those at the addresses or, without any, those on
	// this machine.
	Wyoming func(ctx context.Context, addresses []string) ([]WyomingServer, error)
	// Usage returns what boards have used in a number of days up to today.
	Usage func(ctx context.Context, days int) (SpeechUsage, error)
	// Mute returns why bots of a kind cannot talk through boards, one of the Mute… constants;
	// empty: they can. A nil Mute means that all can.
	Mute func(kind string) string
	// Refresh takes up changes of the engines.
	Refresh func(context.Context) error
}

// Why a bot cannot talk through boards.
const (
	MuteEngines = "engines" // no speech engine hears, or none speaks
	MuteSetting = "setting" // the configuration lets no bot talk (xiaozhi.voice)
)

// SpeechUsage are sums of what boards have used of speech engines since a day.
type SpeechUsage struct {
	Since    string
	Currency string // of the costs; it may be empty
	store.SpeechSums
}

// WyomingServer is a server of Home Assistant's protocol for voice.
type WyomingServer struct {
	Address         string
	Listens, Speaks bool
}

// EngineKind is a kind of speech engine with its settings.
type EngineKind struct {
	Name     string        `json:"name"`
	Title    string        `json:"title"`
	About    string        `json:"about"`
	Listens  bool          `json:"listens"`
	Speaks   bool          `json:"speaks"`
	Settings []hub.Setting `json:"settings"`
}

// EngineKindList is the list of kinds of speech engines.
type EngineKindList struct {
	Kinds []EngineKind `json:"kinds"`
}

// States of a speech engine in [EngineHealth].
const (
	EngineUnused  = "unused"  // nobody has used it since the start
	EngineReady   = "ready"   // it worked
	EngineFailing = "failing" // the last use failed
	EnginePaused  = "paused"  // it is left out for a while
	EngineSpent   = "spent"   // a limit of its day is reached, and it is left out until tomorrow
	EngineRefused = "refused" // it is left out until its settings change
	EngineBroken  = "broken"  // its settings cannot be read
)

// EngineHealth is what an instance knows of a speech engine since the start, or since its settings
// changed.
type EngineHealth struct {
	State string `json:"state,omitempty"` // one of the Engine… constants
	// ListenMS is how long it takes from the end of speech to its text, SpeakMS from a sentence to
	// its sound: the median of the last 100 uses, and the 95th percentile; 0: not known yet.
	ListenMS    int64     `json:"listen_ms,omitempty"`
	ListenP95MS int64     `json:"listen_p95_ms,omitempty"`
	SpeakMS     int64     `json:"speak_ms,omitempty"`
	SpeakP95MS  int64     `json:"speak_p95_ms,omitempty"`
	Until       time.Time `json:"until,omitzero"` // of the pause
	// Problem is the last error; it may be over.
	Problem  i18n.Text `json:"-"`
	Cause    string    `json:"cause,omitempty"`
	FailedAt time.Time `json:"failed_at,omitzero"`
}

// Engine is a speech engine in the list of /api/v1/voice/engines.
type Engine struct {
	store.SpeechEngine
	// Configured is set for an engine of the configuration, which has no number. It comes before
	// all others, or after them if it is a program.
	Configured bool   `json:"configured,omitempty"`
	Where      string `json:"where,omitempty"` // its address
	Listens    bool   `json:"listens"`
	Speaks     bool   `json:"speaks"`
	EngineHealth
	Problem string `json:"problem,omitempty"`
}

// EngineList is the list of speech engines, in the order in which they are tried.
type EngineList struct {
	Engines []Engine `json:"engines"`
}

// EngineDetail is a speech engine with its settings, secrets masked.
type EngineDetail struct {
	Engine
	Settings map[string]json.RawMessage `json:"settings"`
	// Dropped are the settings that were removed because the address changed, which Notice
	// explains.
	Dropped []string `json:"dropped,omitempty"`
	Notice  string   `json:"notice,omitempty"`
	// Found is the result of the check before a change.
	Found *EngineFound `json:"found,omitempty"`
}

// EngineFound is the result of a check: the engine spoke a sentence, and listened to it.
type EngineFound struct {
	Listens  bool  `json:"listens"`
	Speaks   bool  `json:"speaks"`
	ListenMS int64 `json:"listen_ms,omitempty"`
	SpeakMS  int64 `json:"speak_ms,omitempty"`
	// Problem says what is wrong, and Cause has the details.
	Problem string    `json:"problem,omitempty"`
	Message i18n.Text `json:"-"`
	Cause   string    `json:"cause,omitempty"`
}

// EngineSaid is a text as an engine speaks it.
type EngineSaid struct {
	Sound    []byte `json:"sound"`    // a WAV file
	FirstMS  int64  `json:"first_ms"` // until the first sound
	LengthMS int64  `json:"length_ms"`
}

// EngineHeard is what an engine understood.
type EngineHeard struct {
	Text     string `json:"text"`
	Language string `json:"language,omitempty"`
	TookMS   int64  `json:"took_ms"`
}
