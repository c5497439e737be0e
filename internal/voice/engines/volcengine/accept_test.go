package volcengine

import (
	"context"
	"strings"
	"testing"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
	"patchbay/internal/voice/engines/volcengine/wire"
)

// FuzzAccept checks that no message of the services breaks an utterance or a session, and that
// errors do not repeat the key.
func FuzzAccept(f *testing.F) {
	const secret = "very-secret"
	for _, frame := range []wire.Frame{
		{Type: wire.FullResponse, Flags: wire.PositiveSequence, JSON: true, Sequence: 1, Payload: []byte(`{"result":` +
			`{"text":"hi","utterances":[{"text":"hi","start_time":0,"end_time":10,"definite":true}]}}`)},
		{Type: wire.FullResponse, Flags: wire.NegativeSequence, Gzip: true, Sequence: -1, Payload: []byte(`{"result":[]}`)},
		{Type: wire.ErrorResponse, Code: codeNoSpeech, Payload: []byte(secret)},
		{Type: wire.ErrorResponse, Code: codeBusy, JSON: true, Payload: []byte(`{"error":"` + secret + `"}`)},
		{Type: wire.FullResponse, Flags: wire.WithEvent, Event: wire.SentenceStart, ID: "ID", Payload: []byte(`{"text":"a"}`)},
		{Type: wire.AudioResponse, Flags: wire.WithEvent, Event: wire.Audio, ID: "ID", Payload: []byte{1, 2}},
		{Type: wire.FullResponse, Flags: wire.WithEvent, Event: wire.SessionFailed, ID: "ID", Payload: []byte(`{}`)},
	} {
		f.Add(frame.Append(nil))
	}
	c := &client{secrets: []string{secret}}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := socket.Message{Binary: true, Data: data}
		check := func(err error) {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Error(err)
			}
		}
		u := &utterance{client: c}
		for range 2 {
			_, _, err := u.Accept(m)
			check(err)
		}
		v := &session{newSpeaker(c), "ID"}
		v.isOver(m)
		say := func(_ context.Context, _ engine.Manner, n *engine.Narration) error {
			_, err := v.Accept(m, n)
			return err
		}
		s, err := engine.SpeakLive(say).Speak(t.Context(), engine.Manner{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Next()
		check(err)
		s.Close()
	})
}
