package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/voice/engines/openai/openaitest"
)

const (
	msgMorning    = i18n.Message("Good morning!")
	msgMorningToo = i18n.Message("Good morning! It is sunny today.")
	msgEngineNew  = i18n.Message("a speech engine is set up: it has spoken a sentence and understood it")
	msgEarsHeard  = i18n.Message("%s hears: %s")
	msgMouthSays  = i18n.Message("%s says, in %.1f s of sound: %s")
	msgVoiceTook  = i18n.Message("after the end of the speech: its end noticed after %d ms, understood after %d ms, first words of the bot after %d ms, first sound after %d ms")
)

// spoken is a question that was spoken to a board, with its answer.
type spoken struct {
	Heard string   `json:"heard"`
	Said  []string `json:"said"`
	// Played is how long the board played the answer.
	Played float64 `json:"played_ms"`
	// What follows counts from the end of the person's speech. Commit is when it was certain that
	// they had finished.
	Commit     float64 `json:"commit_ms"`
	Transcript float64 `json:"transcript_ms"`
	FirstText  float64 `json:"first_text_ms"`
	FirstSound float64 `json:"first_sound_ms"`
}

// playVoice sets up a simulated speech engine and talks to the bot of the board through it.
func playVoice(ctx context.Context, st *demoRun) error {
	k := st.kitchen
	if k == nil {
		return errors.New("there is no board")
	}
	if err := st.startSpeech(ctx); err != nil {
		return err
	}
	before := k.Report()
	// Engines are chosen when a conversation begins, so the one that is open ends.
	if err := k.Press(ctx); err != nil {
		return err
	}
	st.line("›", msgGoodDay.In(st.sh.lang))
	a, err := k.Ask(ctx, sim.GoodMorning())
	if err != nil {
		return err
	}
	s := spoken{Heard: a.Transcript, Said: a.Sentences, Played: playedSeconds(a) * 1000}
	said := strings.Join(a.Sentences, " ")
	st.line("⇠", msgEarsHeard.In(st.sh.lang, msgKitchen.In(st.sh.lang), s.Heard))
	st.line("‹", msgMouthSays.In(st.sh.lang, msgKitchen.In(st.sh.lang), s.Played/1000, said))
	letters := strings.NewReplacer(" ", "") // not every language has spaces between sentences
	if a.Transcript != msgMorning.In(st.sh.lang) || a.Packets == 0 ||
		letters.Replace(said) != letters.Replace(msgMorningToo.In(st.sh.lang)) {
		return fmt.Errorf("the board heard %q, and said %q in %d packets", a.Transcript, said, a.Packets)
	}
	if r := k.Report(); len(r.Violations) > len(before.Violations) {
		return fmt.Errorf("the board saw the server break rules: %v", r.Violations)
	}
	if err := st.voiceTimes(ctx, &s); err != nil {
		return err
	}
	st.voice = &s
	st.note = msgVoiceTook.In(st.sh.lang, int(s.Commit), int(s.Transcript), int(s.FirstText), int(s.FirstSound))
	return nil
}

// demoSpeech is a speech engine that understands always the text that was given last, and speaks in
// tones. It is safe for concurrent use.
type demoSpeech struct {
	text   atomic.Pointer[string]
	faster atomic.Int32 // how much faster than people it speaks
}

// hear sets the text that is understood.
func (s *demoSpeech) hear(text string) { s.text.Store(&text) }

// startSpeech starts a speech engine, and makes it the server's.
func (st *demoRun) startSpeech(ctx context.Context) error {
	engine, err := openaitest.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	st.stops = append(st.stops, func() error { engine.Close(); return nil })
	st.speech = &demoSpeech{}
	st.speech.faster.Store(2)
	st.speech.hear(msgMorning.In(st.sh.lang))
	engine.Transcript = func([]int16) string { return *st.speech.text.Load() }
	engine.Sound = func(text string) []int16 { // faster than people, so that the demo is short
		tone := openaitest.Tone(text)
		return tone[:len(tone)/int(st.speech.faster.Load())]
	}
	set, err := api.SetUpVoice.Call(ctx, st.at, control.VoiceSetup{URL: engine.URL, Key: openaitest.Key})
	if err != nil {
		return err
	}
	if len(set.Engines) != 1 || set.Engines[0].Found == nil {
		return fmt.Errorf("the engines that were set up are %+v", set.Engines)
	}
	st.line("⇠", msgEngineNew.In(st.sh.lang))
	return nil
}

// voiceTimes reads the times of the newest spoken turn from its record.
func (st *demoRun) voiceTimes(ctx context.Context, s *spoken) error {
	return await(ctx, "the spoken turn has no record", func() (bool, error) {
		newest, err := api.Turns.Call(ctx, st.at, control.TurnQuery{Limit: 1, Channel: xiaozhi.Channel})
		if err != nil || len(newest.Turns) == 0 || newest.Turns[0].Voice == nil {
			return false, err
		}
		v := newest.Turns[0].Voice
		s.Commit, s.Transcript = float64(v.Commit), float64(v.Transcript)
		s.FirstText, s.FirstSound = float64(v.FirstText), float64(v.FirstSound)
		if s.Commit <= 0 || s.Transcript <= 0 || s.FirstText <= 0 || s.FirstSound < s.FirstText {
			return false, fmt.Errorf("the record of the spoken turn has the times %+v", v)
		}
		return true, nil
	})
}
