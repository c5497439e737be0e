package dashscope

import (
	"context"
	"encoding/binary"
	"strings"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
)

// pieceSamples is the sound in one message: 100 ms (Model Studio, Paraformer WebSocket API, binary
// messages).
const pieceSamples = engine.Rate / 10

// maxSeconds limits what is read of a usage, in seconds: more is no duration.
const maxSeconds = 24 * 60 * 60

// maxSentenceSilence is the pause that ends a sentence, in ms: the default of the service. So all
// but the last sentence are complete before the end.
const maxSentenceSilence = 800

// hearing are the parameters of Paraformer and Fun-ASR.
type hearing struct {
	Format      string   `json:"format"`
	Rate        int      `json:"sample_rate"`
	Silence     int      `json:"max_sentence_silence"`
	Languages   []string `json:"language_hints,omitempty"`
	Punctuation bool     `json:"punctuation_prediction_enabled"`
	Numbers     bool     `json:"inverse_text_normalization_enabled"`
	Semantic    bool     `json:"semantic_punctuation_enabled"`
	Vocabulary  string   `json:"vocabulary_id,omitempty"`
}

// gummyHearing are the parameters of Gummy (Model Studio, Gummy WebSocket API).
type gummyHearing struct {
	Format     string `json:"format"`
	Rate       int    `json:"sample_rate"`
	Silence    int    `json:"max_end_silence"`
	Language   string `json:"source_language"`
	Transcribe bool   `json:"transcription_enabled"`
	Translate  bool   `json:"translation_enabled"`
	Vocabulary string `json:"vocabulary_id,omitempty"`
}

// recognition returns the definition of the task of an utterance.
func (s *Settings) recognition(h engine.Hints) *definition {
	languages := s.Languages
	if base, _, _ := strings.Cut(h.Language, "-"); base != "" {
		languages = []string{base}
	}
	d := &definition{Group: "audio", Task: "asr", Function: "recognition",
		Model: orDefault(s.ListenModel, DefaultListenModel)}
	if strings.HasPrefix(d.Model, "gummy") {
		language := "auto"
		if len(languages) == 1 {
			language = languages[0]
		}
		d.Parameters = gummyHearing{PCM, engine.Rate, maxSentenceSilence, language, true, false, s.Vocabulary}
	} else {
		d.Parameters = hearing{PCM, engine.Rate, maxSentenceSilence, languages, true, true, false, s.Vocabulary}
	}
	return d
}

// listener implements [engine.Listener] and [engine.Warmer].
type listener struct{ *client }

// Listen implements [engine.Listener].
func (l *listener) Listen(ctx context.Context, h engine.Hints) (engine.Utterance, error) {
	return engine.ListenLive(l.recognise).Listen(ctx, h)
}

// Warm implements [engine.Warmer].
func (l *listener) Warm(ctx context.Context) { l.listening.Warm(ctx) }

func (l *listener) recognise(ctx context.Context, h engine.Hints, d *engine.Dictation) error {
	var u *utterance
	c, err := l.listening.Begin(ctx, func(ctx context.Context, c *socket.Conn) error {
		u = &utterance{task: newTask(l.settings.APIKey)}
		return u.start(ctx, c, l.settings.recognition(h))
	})
	if err == nil {
		err = socket.Hear(ctx, c, u, pieceSamples, d)
	}
	if err != nil {
		l.failed(ctx, err)
		return err
	}
	l.listening.Put(c, nil)
	return nil
}

// utterance implements [socket.Ear].
type utterance struct {
	*task
	sentences []sentence // in order; only the last one may change
	billed    time.Duration
}

// sentence is a part of what was said.
type sentence struct {
	Text      string `json:"text"`
	Begin     int    `json:"begin_time"` // in ms, from the beginning of the task
	Heartbeat bool   `json:"heartbeat"`  // says nothing
}

// Sound implements [socket.Ear].
func (u *utterance) Sound(samples []int16) socket.Message {
	data := make([]byte, 0, 2*len(samples))
	for _, s := range samples {
		data = binary.LittleEndian.AppendUint16(data, uint16(s))
	}
	return socket.Message{Binary: true, Data: data}
}

// End implements [socket.Ear].
func (u *utterance) End() socket.Message { return u.command(finishTask, input{}) }

// Accept implements [socket.Ear].
func (u *utterance) Accept(m socket.Message) (t engine.Transcript, done bool, err error) {
	e, err := u.event(m)
	if err != nil {
		return t, false, err
	}
	u.billed = max(u.billed, time.Duration(min(e.Payload.Usage.Seconds, maxSeconds))*time.Second)
	t.Billed = u.billed
	switch e.Header.Event {
	case resultGenerated:
		u.hear(e.Payload.Output.Sentence)
		u.hear(e.Payload.Output.Transcription)
	case taskFinished:
		done = true
	}
	for _, s := range u.sentences {
		t.Text = engine.JoinTexts(t.Text, s.Text)
	}
	t.Text = strings.TrimSpace(t.Text)
	return t, done, nil
}

// hear notes a sentence. Its texts replace each other until it ends, and the last may come twice.
func (u *utterance) hear(s *sentence) {
	if s == nil || s.Heartbeat {
		return
	}
	for i := range u.sentences {
		if u.sentences[i].Begin == s.Begin {
			u.sentences[i] = *s
			return
		}
	}
	u.sentences = append(u.sentences, *s)
}
