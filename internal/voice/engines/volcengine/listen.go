package volcengine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"strings"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
	"patchbay/internal/voice/engines/volcengine/wire"
)

const (
	// pieceSamples is the sound in one message: 200 ms, which the service advises.
	pieceSamples = engine.Rate / 5
	// endWindow is the pause that ends a sentence, and forceSpeech how much sound there is before
	// one may end, in ms: the defaults of the service.
	endWindow   = 800
	forceSpeech = 1000
)

// user is who uses the service: it wants a name.
type user struct {
	UID string `json:"uid"`
}

var patchbay = user{"patchbay"}

// hearing is the first message of an utterance.
type hearing struct {
	User    user         `json:"user"`
	Audio   hearingAudio `json:"audio"`
	Request hearingTask  `json:"request"`
}

type hearingAudio struct {
	Format  string `json:"format"`
	Codec   string `json:"codec"`
	Rate    int    `json:"rate"`
	Bits    int    `json:"bits"`
	Channel int    `json:"channel"`
}

type hearingTask struct {
	Model       string  `json:"model_name"`
	Numbers     bool    `json:"enable_itn"`
	Punctuation bool    `json:"enable_punc"`
	Utterances  bool    `json:"show_utterances"`
	Result      string  `json:"result_type"`
	EndWindow   int     `json:"end_window_size"`
	ForceSpeech int     `json:"force_to_speech_time"`
	NonStream   bool    `json:"enable_nonstream"`
	Corpus      *corpus `json:"corpus,omitempty"`
}

// corpus has words to expect, as JSON in a text.
type corpus struct {
	Context string `json:"context"`
}

type hotword struct {
	Word string `json:"word"`
}

// request returns the first message of an utterance.
func request(h engine.Hints) socket.Message {
	r := hearing{patchbay, hearingAudio{"pcm", "raw", engine.Rate, 16, 1},
		hearingTask{Model: "bigmodel", Numbers: true, Punctuation: true, Utterances: true, Result: "single",
			EndWindow: endWindow, ForceSpeech: forceSpeech}}
	if len(h.Words) > 0 {
		var words struct {
			Hotwords []hotword `json:"hotwords"`
		}
		for _, w := range h.Words {
			words.Hotwords = append(words.Hotwords, hotword{w})
		}
		r.Request.Corpus = &corpus{string(socket.JSON(words).Data)}
	}
	return message(wire.Frame{Type: wire.FullRequest, JSON: true, Payload: socket.JSON(r).Data})
}

// recognise is an [engine.ListenLive].
func (c *client) recognise(ctx context.Context, h engine.Hints, d *engine.Dictation) error {
	conn, err := open(ctx, c.listen)
	if err != nil {
		c.failed(ctx, nil, err)
		return err
	}
	defer conn.Close()
	if err = conn.Write(ctx, request(h)); err == nil {
		err = socket.Hear(ctx, conn, &utterance{client: c}, pieceSamples, d)
	}
	if err != nil {
		c.failed(ctx, conn, err)
	}
	return err
}

// utterance implements [socket.Ear].
type utterance struct {
	*client
	sentences []sentence // that will not change
	current   string
}

// sentence is a part of what was said.
type sentence struct {
	Text     string `json:"text"`
	Start    int    `json:"start_time"` // in ms
	Definite bool   `json:"definite"`   // will not change
}

// Sound implements [socket.Ear].
func (u *utterance) Sound(samples []int16) socket.Message {
	data := make([]byte, 0, 2*len(samples))
	for _, s := range samples {
		data = binary.LittleEndian.AppendUint16(data, uint16(s))
	}
	return message(wire.Frame{Type: wire.AudioRequest, Payload: data})
}

// End implements [socket.Ear].
func (u *utterance) End() socket.Message {
	return message(wire.Frame{Type: wire.AudioRequest, Flags: wire.LastNoSequence})
}

// Accept implements [socket.Ear].
func (u *utterance) Accept(m socket.Message) (t engine.Transcript, done bool, err error) {
	f, err := u.parse(m)
	var response struct {
		Result struct {
			Text       string     `json:"text"`
			Utterances []sentence `json:"utterances"`
		} `json:"result"`
	}
	switch {
	case err != nil && (f.Code == codeNoSpeech || f.Code == codeSilence):
		return u.transcript(), true, nil // nobody has said anything more
	case err != nil:
		return t, false, err
	case f.Type != wire.FullResponse, f.Flags == wire.WithEvent:
		return t, false, engine.Errorf(engine.Broken, "the service sent a frame of another kind")
	case json.Unmarshal(f.Payload, &response) != nil:
		return t, false, engine.Errorf(engine.Broken, "a result of the service is not the JSON that it should be")
	}
	u.hear(response.Result.Text, response.Result.Utterances)
	return u.transcript(), f.Flags == wire.LastNoSequence || f.Flags == wire.NegativeSequence, nil
}

// hear notes a result. It has the sentences since the last one that will not change; that one may
// come again.
func (u *utterance) hear(text string, sentences []sentence) {
	u.current = ""
	if len(sentences) == 0 && len(u.sentences) == 0 {
		u.current = text
	}
	for _, s := range sentences {
		if s.Definite {
			u.keep(s)
		} else {
			u.current = engine.JoinTexts(u.current, s.Text)
		}
	}
}

func (u *utterance) keep(s sentence) {
	for i := range u.sentences {
		if u.sentences[i].Start == s.Start {
			u.sentences[i] = s
			return
		}
	}
	u.sentences = append(u.sentences, s)
}

func (u *utterance) transcript() engine.Transcript {
	text := ""
	for _, s := range u.sentences {
		text = engine.JoinTexts(text, s.Text)
	}
	return engine.Transcript{Text: strings.TrimSpace(engine.JoinTexts(text, u.current))}
}
