package realtimetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"patchbay/internal/netx"
	"patchbay/internal/voice/realtime"
)

// pieceBytes is the sound of one event: 100 ms.
const pieceBytes = 2 * realtime.OutputRate / 10

// isBusy reports whether a response or a transcript is under way, or a text waits to be spoken
// after the one before.
func (c *conn) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancel != nil || c.pending > 0 || !c.commits && c.texts != ""
}

// begin begins a response. Requires mu.
func (c *conn) begin() (ctx context.Context, id string) {
	ctx, c.cancel = context.WithCancel(c.ctx)
	c.ids++
	id = fmt.Sprintf("resp_%d", c.ids)
	c.send(object{"type": "response.created", "response": object{"id": id, "status": "in_progress"}})
	return ctx, id
}

// end ends a response.
func (c *conn) end(id, status, failure string) {
	c.mu.Lock()
	c.cancel()
	c.cancel = nil
	c.mu.Unlock()
	response := object{"id": id, "status": status, "usage": object{"total_tokens": 30,
		"input_token_details":  object{"text_tokens": 10, "audio_tokens": 5, "cached_tokens": 2},
		"output_token_details": object{"text_tokens": 7, "audio_tokens": 8}}}
	if failure != "" {
		response["status_details"] = object{"type": "failed", "error": object{"type": "server_error", "code": failure}}
	}
	done := object{"type": "response.done", "response": response}
	c.send(done)
	if c.fault == DoubleEnd {
		c.send(done)
	}
}

// respond answers what was said. Requires mu.
func (c *conn) respond() {
	if c.cancel != nil {
		c.s.violation("response.create during a response")
		c.fail("conversation_already_has_active_response", "")
		return
	}
	c.s.mu.Lock()
	q := Question{Text: c.lastSaid, Said: slices.Clone(c.got.Said), Session: c.got.Update}
	reported := c.s.err
	c.s.err = ""
	c.s.mu.Unlock()
	if reported != "" {
		c.fail(reported, "")
	}
	ctx, id := c.begin()
	c.work.Go(func() {
		if netx.Wait(ctx, c.s.opt.Delay) != nil {
			c.end(id, realtime.Cancelled, "")
			return
		}
		a := c.s.opt.Answer(q)
		c.answer(ctx, id, a)
	})
}

// isSilent reports whether the client wants texts only.
func (c *conn) isSilent() bool {
	var s struct {
		Modalities []string
		Output     []string `json:"output_modalities"`
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	_ = json.Unmarshal(c.got.Update, &s)
	return !slices.Contains(append(s.Modalities, s.Output...), "audio")
}

// answer sends an answer.
func (c *conn) answer(ctx context.Context, response string, a Answer) {
	if a.Text != "" && !c.message(ctx, response, a.Text) {
		return
	}
	for _, call := range a.Calls {
		c.mu.Lock()
		id := c.newItem(&item{call: call.ID})
		c.mu.Unlock()
		c.send(object{"type": "response.output_item.added", "response_id": response,
			"item": object{"id": id, "type": "function_call", "call_id": call.ID, "name": call.Name}})
		c.send(object{"type": "response.function_call_arguments.done", "response_id": response, "item_id": id,
			"call_id": call.ID, "name": call.Name, "arguments": call.Arguments})
	}
	if a.Hold {
		<-ctx.Done()
	}
	switch {
	case ctx.Err() != nil:
		c.end(response, realtime.Cancelled, "")
	case c.last():
	case a.Failure != "" || c.fault == FailedSound:
		c.end(response, realtime.Failure, a.Failure+"server_error")
	default:
		c.end(response, realtime.Completed, "")
	}
}

// message sends a text with its sound, and reports whether the response goes on.
func (c *conn) message(ctx context.Context, response, text string) bool {
	c.mu.Lock()
	x := &item{isBot: true}
	id := c.newItem(x)
	c.mu.Unlock()
	c.said("bot: " + text)
	c.send(object{"type": "response.output_item.added", "response_id": response,
		"item": object{"id": id, "type": "message", "role": "assistant"}})
	if c.isSilent() && c.purpose == realtime.Converse {
		for _, word := range splitWords(text) {
			if c.results++; c.interrupts(c.results) {
				return false
			}
			c.send(object{"type": "response.output_text.delta", "response_id": response, "item_id": id, "delta": word})
		}
		return true
	}
	if c.purpose == realtime.Converse {
		for _, word := range splitWords(text) {
			c.send(object{"type": "response.output_audio_transcript.delta", "response_id": response, "item_id": id,
				"delta": word})
		}
	}
	return c.sound(ctx, response, id, x, pcm(c.s.opt.Sound(text)))
}

// sound sends the sound of an item.
func (c *conn) sound(ctx context.Context, response, id string, x *item, sound []byte) bool {
	for len(sound) > 0 && ctx.Err() == nil {
		piece := sound[:min(pieceBytes, len(sound))]
		if c.fault != Endless {
			sound = sound[len(piece):]
		}
		if c.results++; c.interrupts(c.results) {
			return false
		}
		delta := base64.StdEncoding.EncodeToString(piece)
		switch c.fault {
		case BadSound:
			delta = "%%%"
		case OddSound:
			delta = base64.StdEncoding.EncodeToString(piece[:len(piece)-1])
		}
		c.mu.Lock()
		x.sound += len(piece)
		c.mu.Unlock()
		c.send(object{"type": "response.output_audio.delta", "response_id": response, "item_id": id, "delta": delta})
	}
	c.send(object{"type": "response.output_audio.done", "response_id": response, "item_id": id})
	return true
}

// speak speaks the texts so far. Requires mu.
func (c *conn) speak() {
	text := c.texts
	c.texts = ""
	if c.cancel != nil {
		if c.commits {
			c.s.violation("a commit while the last text is spoken")
		}
		c.texts = text // spoken afterwards
		return
	}
	if text == "" {
		return
	}
	ctx, id := c.begin()
	c.work.Go(func() {
		if netx.Wait(ctx, c.s.opt.Delay) != nil {
			return
		}
		c.answer(ctx, id, Answer{Text: text})
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.cancel == nil && !c.commits {
			c.speak() // what was written meanwhile
		}
	})
}

// splitWords splits a text into words with the spaces after them, or into characters if it has
// none.
func splitWords(text string) (words []string) {
	word := ""
	for _, r := range text {
		if word += string(r); r == ' ' || r > 0x2e80 {
			words, word = append(words, word), ""
		}
	}
	return append(words, word)
}
