package dashscopetest

import (
	"encoding/json"
	"maps"
	"strings"
	"unicode/utf8"

	"patchbay/internal/voice/engines/socket/sockettest"
)

// speakRate is the rate of speech that clients ask for, in Hz.
const speakRate = 24000

// sound notes a message with sound, and reports whether the connection goes on.
func (c *conn) sound(data []byte) bool {
	sizes := c.got.Sizes
	if c.kind != "asr" || len(data) == 0 || len(data)%2 != 0 || len(data) > 3200 ||
		len(sizes) > 0 && sizes[len(sizes)-1] < 3200 {
		c.s.Violation("sound where none may be, or in wrong pieces")
	}
	c.got.Sizes = append(sizes, len(data))
	c.got.Samples = append(c.got.Samples, sockettest.Samples(data)...)
	n := len(c.got.Sizes)
	if n == 1 && !c.At(First) || n == 3 && !c.At(Middle) {
		return false
	}
	if n <= len(c.s.opt.Partials) {
		c.partial(c.s.opt.Partials[n-1])
	}
	return true
}

// partial sends what was recognised.
func (c *conn) partial(p Partial) {
	sentence := map[string]any{"begin_time": c.sentence, "end_time": nil, "text": p.Text, "sentence_end": p.End,
		"words": []any{}}
	if p.End {
		sentence["end_time"] = c.sentence + 1
		c.sentence++
	}
	name := "sentence"
	if c.gummy {
		name = "transcription"
	}
	c.send("result-generated", map[string]any{"output": map[string]any{name: sentence}, "usage": nil})
}

// text notes a text, and reports whether the connection goes on.
func (c *conn) text(payload json.RawMessage) bool {
	var p struct {
		Input struct {
			Text string `json:"text"`
		} `json:"input"`
	}
	if err := json.Unmarshal(payload, &p); err != nil || p.Input.Text == "" || len([]rune(p.Input.Text)) > 20000 {
		c.s.Violation("a text that is none: " + string(payload))
	}
	if c.unspoken == "" && c.frames == 0 {
		c.Wait(c.s.opt.Delay)
	}
	c.unspoken += p.Input.Text
	c.billed += utf8.RuneCountInString(p.Input.Text)
	return c.speak(false)
}

// speak speaks the sentences that are complete, or all, and reports whether the connection goes on.
func (c *conn) speak(all bool) bool {
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
	c.result("sentence-begin", map[string]any{"original_text": text})
	for sound := c.encode(c.s.opt.Sound(text)); len(sound) > 0; {
		n := min(len(sound), 4800)
		c.result("sentence-synthesis", nil)
		c.Binary(sound[:n])
		if c.frames++; c.frames == 1 && !c.At(First) || c.frames == 3 && !c.At(Middle) {
			return false
		}
		if !c.is(Endless) {
			sound = sound[n:]
		} else if c.frames > 10000 {
			return false // the client went away or takes everything
		}
	}
	c.result("sentence-end", map[string]any{"original_text": text})
	return true
}

// result sends an event of a sentence.
func (c *conn) result(kind string, more map[string]any) {
	output := map[string]any{"type": kind, "sentence": map[string]any{"index": c.sentence, "words": []any{}}}
	maps.Copy(output, more)
	payload := map[string]any{"output": output}
	if kind == "sentence-end" {
		c.sentence++
		payload["usage"] = map[string]any{"characters": c.billed}
	}
	c.send("result-generated", payload)
}

// encode returns samples as the client wants them.
func (c *conn) encode(samples []int16) []byte {
	if c.opus {
		return sockettest.Ogg(samples)
	}
	return sockettest.PCM(samples, speakRate)
}
