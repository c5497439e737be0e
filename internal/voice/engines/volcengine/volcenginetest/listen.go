package volcenginetest

import (
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/voice/engines/socket/sockettest"
	"patchbay/internal/voice/engines/volcengine/wire"
)

// pieceSize is the size of a message with sound, 200 ms.
const pieceSize = 6400

// listen serves an utterance.
func (c *conn) listen() {
	f, ok := c.frame()
	if !ok {
		return
	}
	c.got = Session{Header: c.Request.Header.Clone(), Request: string(f.Payload)}
	if f.Type != wire.FullRequest || f.Flags != wire.None || !f.JSON || !isHearing(f.Payload) {
		c.s.Violation("not the beginning of an utterance: " + string(f.Payload))
		return
	}
	for {
		f, ok := c.frame()
		if !ok {
			return
		}
		last := f.Flags == wire.LastNoSequence
		if f.Type != wire.AudioRequest || f.Flags != wire.None && !last || !c.sound(f.Payload, last) {
			c.s.Violation("not sound, or in wrong pieces")
			return
		}
		n := len(c.got.Sizes)
		switch {
		case last:
			c.last()
			return
		case n == 1 && (!c.At(First) || c.fail()) || n == 3 && !c.At(Middle):
			return
		case n <= len(c.s.opt.Partials):
			c.result(c.s.opt.Partials[n-1], false)
		}
	}
}

// isHearing checks the first message.
func isHearing(payload []byte) bool {
	var p struct {
		User  struct{ UID string }
		Audio struct {
			Format, Codec       string
			Rate, Bits, Channel int
		}
		Request struct {
			Model  string `json:"model_name"`
			Show   bool   `json:"show_utterances"`
			Result string `json:"result_type"`
			Corpus *struct{ Context string }
		}
	}
	if json.Unmarshal(payload, &p) != nil || p.User.UID == "" || p.Request.Model != "bigmodel" || !p.Request.Show ||
		p.Request.Result != "single" || p.Audio.Format != "pcm" || p.Audio.Codec != "raw" || p.Audio.Rate != 16000 ||
		p.Audio.Bits != 16 || p.Audio.Channel != 1 {
		return false
	}
	return p.Request.Corpus == nil || json.Valid([]byte(p.Request.Corpus.Context))
}

// sound notes sound and reports whether its size is allowed.
func (c *conn) sound(data []byte, last bool) bool {
	if last && len(data) == 0 {
		return true
	}
	sizes := c.got.Sizes
	c.got.Sizes = append(sizes, len(data))
	c.got.Samples = append(c.got.Samples, sockettest.Samples(data)...)
	return len(data) > 0 && len(data)%2 == 0 && len(data) <= pieceSize &&
		!slices.ContainsFunc(sizes, func(n int) bool { return n != pieceSize })
}

// last sends the last result.
func (c *conn) last() {
	c.Wait(c.s.opt.Delay)
	if !c.At(Last) {
		return
	}
	text := ""
	if c.s.opt.Transcript != nil {
		text = c.s.opt.Transcript(c.got.Samples)
	}
	if c.is(EmptyText) {
		text = ""
	}
	if c.is(LongText) {
		text = strings.Repeat("x", 64<<10)
	}
	c.s.ended(c.got)
	c.result(Partial{text, true}, true)
	if c.is(DoubleEnd) {
		c.sentence--
		c.result(Partial{text, true}, true)
	}
}

// result sends what was recognised since the last sentence.
func (c *conn) result(p Partial, last bool) {
	c.sequence++
	f := wire.Frame{Type: wire.FullResponse, Flags: wire.PositiveSequence, JSON: true, Sequence: c.sequence}
	if last {
		f.Flags, f.Sequence = wire.NegativeSequence, -c.sequence
	}
	utterances := []any{}
	if p.Text != "" {
		utterances = []any{map[string]any{"text": p.Text, "start_time": c.sentence, "end_time": c.sentence + 1,
			"definite": p.Definite, "words": []any{}}}
	}
	f.Payload, _ = json.Marshal(map[string]any{"audio_info": map[string]any{"duration": 100},
		"result": map[string]any{"text": p.Text, "utterances": utterances}}) // texts and numbers
	if p.Definite {
		c.sentence++
	}
	c.send(f)
}
