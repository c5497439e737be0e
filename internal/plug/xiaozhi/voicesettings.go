package xiaozhi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/store"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/words"
)

// Limits of [VoiceSettings].
const (
	// MinSpeed and MaxSpeed are those of OpenAI's API (API reference, Create speech, speed).
	MinSpeed, MaxSpeed = 0.25, 4
	// MinSilence is the length of the pauses inside sentences. Nobody waits for longer than
	// MaxSilence to be answered.
	MinSilence, MaxSilence = 200 * time.Millisecond, 3 * time.Second
	// MinFollowUp leaves time to take a breath. The server's silence setting limits it as well.
	MinFollowUp, MaxFollowUp = 2 * time.Second, time.Hour
	// maxVoiceList and maxVoiceText limit the lists, whose texts are compared at each question,
	// and the texts, in characters.
	maxVoiceList, maxVoiceText = 20, 60
	// maxGreeting limits the greeting, in characters: longer than that, nobody gets a word in.
	maxGreeting = 200
	// MaxRecord is the longest time that what is said is stored, in days.
	MaxRecord = 365
)

// VoiceSettings are how a board hears and speaks, as its owner set it. Zero values mean those of
// [BotVoice], and then the defaults.
type VoiceSettings struct {
	// Language of the person, BCP 47; empty: that of the device.
	Language string `json:"language,omitempty"`
	// Voice is the name of the engine's voice; empty: the engine's choice.
	Voice string `json:"voice,omitempty"`
	// Speed is the speed of the speech; 1 is normal, and 0 too.
	Speed float64 `json:"speed,omitempty"`
	// Engines are the names of the speech engines to use, in order; empty: all, in their order.
	Engines []string `json:"engines,omitempty"`
	// Silence is the pause that ends speech; 0: it depends on the text.
	Silence settings.Duration `json:"silence,omitempty"`
	// WakeWords are the board's, besides those of the server. What a board sends in place of a wake
	// word is a typed question otherwise.
	WakeWords []string `json:"wake_words,omitempty"`
	// ExitPhrases end the conversation, besides the usual ones.
	ExitPhrases []string `json:"exit_phrases,omitempty"`
	// Greeting is spoken when somebody wakes the board; empty: nothing is.
	Greeting string `json:"greeting,omitempty"`
	// Volume is that of the board, set at its first answer in a conversation, 1 to 100; 0: as it
	// is.
	Volume int `json:"volume,omitempty"`
	// FollowUp is how long a board listens after an answer, before the conversation ends; 0: it
	// depends on the answer.
	FollowUp settings.Duration `json:"follow_up,omitempty"`
	// Record is for how many days what is said is stored: texts and sound; 0: it is not.
	Record int `json:"record,omitempty"`
	// Fillers has the board ask for patience when an answer takes long; nil: it does.
	Fillers *bool `json:"fillers,omitempty"`
}

// Texts about invalid settings.
const (
	msgVoiceLanguage = i18n.Message("language is %q; give the code of one, such as en, zh or ja-JP")
	msgVoiceSpeed    = i18n.Message("speed is %v; choose between %v and %v, or leave it out")
	msgVoiceSilence  = i18n.Message("silence is %s; choose between %s and %s, or leave it out")
	msgVoiceFollowUp = i18n.Message("follow_up is %s; choose between %s and %s, or leave it out")
	msgVoiceVolume   = i18n.Message("volume is %d; choose between 1 and 100, or leave it out")
	msgVoiceRecord   = i18n.Message("record is %d; choose between 1 and %d days, or leave it out")
	msgVoiceList     = i18n.Message("%s has %d entries; it can have %d")
	msgVoiceTwice    = i18n.Message("%s has %q twice")
	msgVoiceWords    = i18n.Message("%s: %q has no letters")
	msgVoiceText     = i18n.Message("%s: a text has %d characters; it can have %d")
	msgVoiceControl  = i18n.Message("%s: a text has a line break or another control character")
)

// Validate returns an error that says what is invalid.
func (s *VoiceSettings) Validate() error {
	bot := BotVoice{s.Language, s.Voice, s.Speed, s.Greeting}
	if err := bot.check("language", "voice", "speed", "greeting"); err != nil {
		return err
	}
	silence := time.Duration(s.Silence)
	switch {
	case silence != 0 && (silence < MinSilence || silence > MaxSilence):
		return msgVoiceSilence.Errorf(silence, MinSilence, MaxSilence)
	case s.FollowUp != 0 && (time.Duration(s.FollowUp) < MinFollowUp || time.Duration(s.FollowUp) > MaxFollowUp):
		return msgVoiceFollowUp.Errorf(time.Duration(s.FollowUp), MinFollowUp, MaxFollowUp)
	case s.Volume < 0 || s.Volume > 100:
		return msgVoiceVolume.Errorf(s.Volume)
	case s.Record < 0 || s.Record > MaxRecord:
		return msgVoiceRecord.Errorf(s.Record, MaxRecord)
	}
	return errors.Join(checkList("engines", s.Engines), checkList("wake_words", s.WakeWords),
		checkList("exit_phrases", s.ExitPhrases))
}

// checkList checks a list of words.
func checkList(name string, list []string) error {
	if len(list) > maxVoiceList {
		return msgVoiceList.Errorf(name, len(list), maxVoiceList)
	}
	have := map[string]bool{}
	for _, s := range list {
		letters := words.Letters(s)
		switch err := checkText(name, s, maxVoiceText); {
		case err != nil:
			return err
		case letters == "":
			return msgVoiceWords.Errorf(name, s)
		case have[letters]:
			return msgVoiceTwice.Errorf(name, s)
		}
		have[letters] = true
	}
	return nil
}

func checkText(name, text string, most int) error {
	if n := utf8.RuneCountInString(text); n > most {
		return msgVoiceText.Errorf(name, n, most)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return msgVoiceControl.Errorf(name)
	}
	return nil
}

// BotVoice are settings of a bot for all boards that it answers. Those of a board come first.
type BotVoice struct {
	Language string  `json:"voice_language,omitempty"`
	Voice    string  `json:"voice_name,omitempty"`
	Speed    float64 `json:"voice_speed,omitempty"`
	Greeting string  `json:"voice_greeting,omitempty"`
}

// Validate returns an error that says what is invalid.
func (s *BotVoice) Validate() error {
	return s.check("voice_language", "voice_name", "voice_speed", "voice_greeting")
}

// check validates settings that have these names.
func (s *BotVoice) check(lang, voice, speed, greeting string) error {
	if s.Language != "" {
		if _, err := language.Parse(s.Language); err != nil {
			return msgVoiceLanguage.Errorf(s.Language)
		}
	}
	if s.Speed != 0 && !(s.Speed >= MinSpeed && s.Speed <= MaxSpeed) {
		return msgVoiceSpeed.Errorf(s.Speed, MinSpeed, MaxSpeed)
	}
	return errors.Join(checkText(voice, s.Voice, maxVoiceText), checkText(greeting, s.Greeting, maxGreeting))
}

// VoiceSettings returns the settings of a board, with what its bot and the device add. It reads the
// database only at the first call after a device or a bot of one has changed.
func (h *Boards) VoiceSettings(ctx context.Context, d store.Device) VoiceSettings {
	return EffectiveVoice(d, h.bot(ctx, d.Bot).BotVoice)
}

// EffectiveVoice returns the settings of a board, with what its bot and the device add.
func EffectiveVoice(d store.Device, bot BotVoice) VoiceSettings {
	var s VoiceSettings
	_ = json.Unmarshal(d.Voice, &s) // unreadable settings count as none
	s.Language = cmp.Or(s.Language, bot.Language, d.Language)
	s.Voice = cmp.Or(s.Voice, bot.Voice)
	s.Speed = cmp.Or(s.Speed, bot.Speed)
	s.Greeting = cmp.Or(s.Greeting, bot.Greeting)
	return s
}

// hasWakeWord reports whether a text is one of the wake words of a board, as [Boards.isWakeWord].
func (h *Boards) hasWakeWord(d store.Device, text string) bool {
	text = words.Letters(text)
	s := EffectiveVoice(d, BotVoice{})
	return text != "" && slices.ContainsFunc(s.WakeWords, func(w string) bool { return words.Letters(w) == text })
}

// namedVoice is a bot as boards know it.
type namedVoice struct {
	BotVoice
	name string
}

// bot returns the name and the settings of a bot. If they cannot be read, there are none.
func (h *Boards) bot(ctx context.Context, number int64) (s namedVoice) {
	if number == 0 {
		return s
	}
	h.mu.Lock()
	s, known := h.bots[number]
	refreshes := h.refreshes
	h.mu.Unlock()
	if known {
		return s
	}
	b, err := h.Store.Bots.ByNumber(ctx, number)
	if err == nil {
		s.name = b.Name
		err = h.Hub.Registry.Settings(b, &s.BotVoice)
	}
	if err != nil {
		h.Logger.WarnContext(ctx, "the voice of a bot was not found", "bot", number, "error", err)
		return namedVoice{name: s.name}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refreshes == refreshes { // otherwise it may have changed
		h.bots[number] = s
	}
	return s
}

// forgetBots has the settings of bots read again.
func (h *Boards) forgetBots() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.bots)
	h.refreshes++
}

// chain returns the engines of a chain that the settings name, in their order. If none of them is
// there any more, it returns the whole chain: a board that answers is better than a silent one.
func (s *VoiceSettings) chain(all *engine.Chain) *engine.Chain {
	some := *all
	some.Links = nil
	for _, name := range s.Engines {
		for _, l := range all.Links {
			if l.Name == name {
				some.Links = append(some.Links, l)
			}
		}
	}
	if len(some.Links) == 0 {
		return all
	}
	return &some
}

// manner returns how answers are spoken.
func (s *VoiceSettings) manner() engine.Manner {
	return engine.Manner{Voice: s.Voice, Language: s.Language, Speed: s.Speed}
}
