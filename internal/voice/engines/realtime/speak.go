package realtime

import (
	"cmp"
	"context"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/realtime"
)

// languageTypes are the names of languages (Qwen-TTS-Realtime, client events, language_type).
var languageTypes = map[string]string{"zh": "Chinese", "en": "English", "de": "German", "it": "Italian",
	"pt": "Portuguese", "es": "Spanish", "ja": "Japanese", "ko": "Korean", "fr": "French", "ru": "Russian"}

// speak is an [engine.SpeakLive].
func (v *service) speak(ctx context.Context, m engine.Manner, n *engine.Narration) error {
	mode := cmp.Or(v.settings.Mode, ModeCommit)
	conn, err := v.open(ctx, cmp.Or(v.settings.SpeakModel, DefaultSpeakModel), &realtime.Session{
		Purpose: realtime.Speak, Voice: cmp.Or(m.Voice, v.settings.Voice, DefaultVoice), Mode: mode,
		Language: languageTypes[v.language(m.Language)], Speed: m.Speed})
	if err != nil {
		return v.failed(ctx, engine.StageSpeak, err)
	}
	defer conn.Close()
	s := &speech{conn: conn, n: n, commits: mode == ModeCommit, quiet: time.NewTimer(v.limits.result),
		limit: v.limits.result}
	defer s.quiet.Stop()
	return v.failed(ctx, engine.StageSpeak, s.run(ctx))
}

// speech is an answer that is being spoken.
type speech struct {
	conn     *realtime.Conn
	n        *engine.Narration
	commits  bool // a response for each sentence
	speaking bool // a response is expected or under way
	finished bool // there is no more text
	quiet    *time.Timer
	limit    time.Duration
}

// run sends the texts, and receives the sound of all of them. With commits, a sentence is sent when
// the sound of the one before has come.
func (s *speech) run(ctx context.Context) error {
	for {
		texts := s.n.Texts()
		if s.finished || s.commits && s.speaking {
			texts = nil
		}
		select {
		case text, ok := <-texts:
			if err := s.send(ctx, text, ok); err != nil {
				return err
			}
			s.quiet.Reset(s.limit)
		case <-s.n.Taken():
		case m := <-s.conn.Messages():
			if finished, err := s.accept(m.Data); err != nil || finished {
				return err
			}
			s.quiet.Reset(s.limit)
		case <-s.conn.Done():
			return s.conn.Err()
		case <-s.quiet.C:
			if s.finished || s.speaking {
				return errSilent
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// send sends a sentence, or the end of the text.
func (s *speech) send(ctx context.Context, text string, ok bool) error {
	if !ok {
		s.finished = true
		return s.conn.Send(ctx, realtime.Finish())
	}
	s.n.Saying(text)
	if !s.commits {
		return s.conn.Send(ctx, realtime.AppendText(text))
	}
	s.speaking = true
	s.n.Begin(text, engine.PCM, realtime.OutputRate)
	return s.conn.Send(ctx, realtime.AppendText(text), realtime.CommitText())
}

// accept handles an event and reports whether it was the last.
func (s *speech) accept(data []byte) (finished bool, err error) {
	e, err := realtime.Decode(data)
	if err != nil {
		return false, err
	}
	switch e.Type {
	case realtime.ResponseCreated:
		if !s.commits {
			s.n.Begin("", engine.PCM, realtime.OutputRate)
		}
		s.speaking = true
	case realtime.Audio:
		return false, s.n.Sound(e.Sound)
	case realtime.ResponseDone:
		s.speaking = false
		s.n.End()
		if e.Err != nil {
			return false, e.Err.In()
		}
	case realtime.Failed:
		return false, e.Err.In()
	case realtime.SessionFinished:
		return true, nil
	}
	return false, nil
}
