package volcenginetest

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"patchbay/internal/voice/engines/socket/sockettest"
	"patchbay/internal/voice/engines/volcengine/wire"
)

// speakRate is the rate of speech that clients ask for, in Hz.
const speakRate = 24000

// speak serves a connection of a speaker.
func (c *conn) speak() {
	f, ok := c.frame()
	if !ok {
		return
	}
	if f.Event != wire.StartConnection || string(f.Payload) != "{}" {
		c.s.Violation("no StartConnection first")
		return
	}
	if !c.At(Connect) {
		return
	}
	c.send(wire.Frame{Type: wire.FullResponse, Flags: wire.WithEvent, JSON: true, Event: wire.ConnectionStarted,
		ID: "connection", Payload: []byte("{}")})
	for stage := Start; c.session(stage); stage = Again {
	}
}

// session serves a session, and reports whether the connection goes on.
func (c *conn) session(stage string) bool {
	f, ok := c.frame()
	if !ok {
		return false
	}
	*c = conn{Conn: c.Conn, s: c.s, id: f.ID}
	c.got = Session{Header: c.Request.Header.Clone(), Request: string(f.Payload)}
	if f.Event != wire.StartSession || !c.begin(f) {
		c.s.Violation("not the beginning of a session: " + string(f.Payload))
		return false
	}
	if !c.At(stage) || !c.is(NoSpeech) && c.fail() {
		return false
	}
	if c.is(WrongID) {
		c.id = "another"
	}
	c.event(wire.SessionStarted, map[string]any{})
	for {
		of, ok := c.frame()
		if !ok {
			return false
		}
		if of.ID != f.ID || !of.JSON {
			c.s.Violation("a frame of another session")
			return false
		}
		if goesOn, ended := c.request(of); ended || !goesOn {
			return goesOn
		}
	}
}

// begin checks the definition of a session.
func (c *conn) begin(f wire.Frame) bool {
	var p struct {
		User      struct{ UID string }
		Event     int
		Namespace string
		Params    struct {
			Speaker string
			Audio   struct {
				Format string
				Rate   int `json:"sample_rate"`
				Speed  int `json:"speech_rate"`
			} `json:"audio_params"`
			Additions string
		} `json:"req_params"`
	}
	err := json.Unmarshal(f.Payload, &p)
	audio := p.Params.Audio
	c.opus = audio.Format == "ogg_opus"
	return err == nil && f.ID != "" && c.s.fresh(f.ID) && p.User.UID != "" && p.Event == 100 &&
		p.Namespace == "BidirectionalTTS" && p.Params.Speaker != "" && json.Valid([]byte(p.Params.Additions)) &&
		(c.opus || audio.Format == "pcm") && audio.Rate == speakRate && audio.Speed >= -50 && audio.Speed <= 100
}

// request handles a frame of the session, and reports whether the connection goes on and the
// session has ended.
func (c *conn) request(f wire.Frame) (goesOn, ended bool) {
	switch f.Event {
	case wire.TaskRequest:
		var p struct {
			Event  int
			Params struct{ Text string } `json:"req_params"`
		}
		if json.Unmarshal(f.Payload, &p) != nil || p.Event != 200 || p.Params.Text == "" {
			c.s.Violation("a text that is none: " + string(f.Payload))
		}
		if len(c.got.Texts) == 0 {
			c.Wait(c.s.opt.Delay)
		}
		c.got.Texts = append(c.got.Texts, p.Params.Text)
		c.unspoken += p.Params.Text
		return c.sentences(false), false
	case wire.FinishSession:
		if !c.sentences(true) || !c.At(Last) {
			return false, true
		}
		c.s.ended(c.got)
		end := map[string]any{"status_code": 20000000, "message": "ok"}
		if c.Request.Header.Get("X-Control-Require-Usage-Tokens-Return") == "*" {
			end["usage"] = map[string]any{"text_words": c.billed()}
		}
		c.event(wire.SessionFinished, end)
		if c.is(DoubleEnd) {
			c.event(wire.SessionFinished, end)
		}
		return true, true
	case wire.CancelSession:
		c.got.Canceled = true
		c.s.ended(c.got)
		c.Wait(c.s.opt.CancelDelay)
		c.event(wire.SessionCanceled, map[string]any{})
		return true, true
	}
	c.s.Violation("an event that may not follow")
	return false, true
}

// billed returns how many characters the session bills.
func (c *conn) billed() int {
	text := strings.Join(c.got.Texts, "")
	if c.s.opt.Billed != nil {
		return c.s.opt.Billed(text)
	}
	return utf8.RuneCountInString(text)
}

// sentences speaks the sentences that are complete, or all, and reports whether the connection goes
// on.
func (c *conn) sentences(all bool) bool {
	for {
		text := c.unspoken
		if end := strings.IndexAny(text, ".!?。！？"); end >= 0 {
			_, size := utf8.DecodeRuneInString(text[end:])
			text = text[:end+size]
		} else if !all || strings.TrimSpace(text) == "" {
			return true
		}
		c.unspoken = c.unspoken[len(text):]
		if !c.is(NoSound) && !c.say(strings.TrimSpace(text)) {
			return false
		}
	}
}

// say speaks a sentence.
func (c *conn) say(text string) bool {
	c.event(wire.SentenceStart, map[string]any{"text": text, "phonemes": []any{}, "words": []any{}})
	samples := c.s.opt.Sound(text)
	sound := sockettest.PCM(samples, speakRate)
	if c.opus {
		sound = sockettest.Ogg(samples)
	}
	for len(sound) > 0 {
		n := min(len(sound), 4800)
		c.send(wire.Frame{Type: wire.AudioResponse, Flags: wire.WithEvent, Event: wire.Audio, ID: c.id,
			Payload: sound[:n]})
		if c.frames++; c.frames == 1 && !c.At(First) || c.frames == 3 && !c.At(Middle) {
			return false
		}
		if !c.is(Endless) {
			sound = sound[n:]
		} else if c.frames > 10000 {
			return false // the client takes everything
		}
	}
	c.event(wire.SentenceEnd, map[string]any{})
	return true
}

// event sends an event of the session.
func (c *conn) event(e wire.Event, payload map[string]any) {
	data, _ := json.Marshal(payload) // texts and numbers
	c.send(wire.Frame{Type: wire.FullResponse, Flags: wire.WithEvent, JSON: true, Event: e, ID: cmp.Or(c.id, "none"),
		Payload: data})
}
