package bot

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// history answers the next request for the state of a run.
func (c *conversation) history(record string) {
	c.t.Helper()
	r := c.peer.Next(wire.MethodChatHistory)
	if e := wire.ShapeChatHistory.Invalid(r.Params); e != nil {
		c.t.Error(e)
	}
	c.peer.Answer(r, json.RawMessage(strings.ReplaceAll(record, "RUN", c.sent.IdempotencyKey)))
}

// A connection is lost in the middle of an answer.
func TestResume(t *testing.T) {
	for name, c := range map[string]struct {
		begun bool // text was emitted before
		then  func(*conversation)
		text  string
		code  talk.Code
	}{
		"it goes on": {true, func(c *conversation) {
			c.history(recordAlive)
			c.await("One two")
			c.delta(" three.", "One two three.")
			c.final("One two three.")
		}, "One two three.", ""},
		"events are faster than the record": {true, func(c *conversation) {
			r := c.peer.Next(wire.MethodChatHistory)
			c.delta(" three.", "One two three.")
			c.peer.Answer(r, json.RawMessage(strings.ReplaceAll(recordAlive, "RUN", c.sent.IdempotencyKey)))
			c.await("three.")
			c.final("One two three.")
		}, "One two three.", ""},
		"it has ended": {true, func(c *conversation) { c.history(recordEnded) }, "One two three.", ""},
		"it is not recorded yet": {true, func(c *conversation) {
			c.history(recordQuestion)
			c.history(recordQuestion)
			c.history(recordEnded)
		}, "One two three.", ""},
		"it was lost": {true, func(c *conversation) {
			for range maxRechecks + 1 {
				c.history(recordQuestion)
			}
			c.peer.Answer(c.peer.Next(wire.MethodChatAbort), wire.AbortResult{OK: true})
		}, "One", talk.Lost},
		"the gateway goes on after a restart": {true, func(c *conversation) {
			c.history(recordQuestion)
			c.history(recordRestarted)
			c.await("One two")
			c.sent.IdempotencyKey = "NEXT"
			c.delta(" three.", "One two three.")
			c.final("One two three.")
		}, "One two three.", ""},
		"the gateway has gone on after a restart": {true, func(c *conversation) { c.history(recordGoneOn) },
			"One two three.", ""},
		"the question was lost": {false, func(c *conversation) {
			c.history(recordNone)
			c.history(recordNone)
			before := c.sent.IdempotencyKey
			c.accept()
			if c.sent.IdempotencyKey != before {
				c.t.Error("it could be answered twice")
			}
			c.delta("One two three.", "")
			c.final("")
		}, "One two three.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeGateway(t, clienttest.Options{}, Options{recheckDelay: 10 * time.Millisecond}, nil)
			conv := h.ask(said("p", "count"))
			if c.begun {
				conv.delta("One", "One")
				conv.await("One")
				conv.tell(wire.ChatEvent{State: wire.ChatAborted, StopReason: stopRestart})
			}
			conv.peer.Close(wire.CloseRestart, "service restart")
			conv.peer = h.gate.Peer()
			conv.subscribed()
			c.then(conv)
			f := talk.AsFailure(conv.end())
			if c.code == "" && f != nil || c.code != "" && (f == nil || f.Code != c.code) || conv.text() != c.text ||
				conv.notes() > 0 != (c.code == talk.Lost) { // that takes long
				t.Errorf("%q, %v", conv.text(), f)
			}
		})
	}
}

// The state of an answer that is silent for long is fetched.
func TestQuiet(t *testing.T) {
	h := newFakeGateway(t, clienttest.Options{}, Options{silenceTimeout: 50 * time.Millisecond}, nil)
	conv := h.ask(said("p", "count"))
	conv.history(recordAlive)
	conv.await("One two")
	conv.history(recordEnded)
	if err := conv.end(); err != nil || conv.text() != "One two three." {
		t.Errorf("%q, %v", conv.text(), err)
	}
}

// What an answer had more than what was emitted when the server ended is fetched.
func TestResumeCut(t *testing.T) {
	for name, c := range map[string]struct {
		records []string
		rest    string
		failed  bool
	}{
		"it goes on":               {[]string{recordAlive, recordAlive, recordEnded}, " three.", false},
		"it has ended":             {[]string{recordEnded}, " three.", false},
		"it was cut off there too": {[]string{recordQuestion, recordGoneOn}, " three.", false},
		"it is not known":          {slices.Repeat([]string{recordNone}, maxRechecks+1), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeGateway(t, clienttest.Options{}, Options{recheckDelay: 10 * time.Millisecond}, nil)
			turn, kept, ended := said("p", "count"), "", make(chan error, 1)
			go h.bot.Resume(t.Context(), &talk.Cut{Turn: turn, Mark: markOf("One two"),
				Keep: func(text string, mark int64) { kept += text },
				End:  func(err error) { ended <- err }})
			peer := h.gate.Peer()
			for _, record := range c.records {
				peer.Answer(peer.Next(wire.MethodChatHistory),
					json.RawMessage(strings.ReplaceAll(record, "RUN", turn.ID)))
			}
			if err := <-ended; kept != c.rest || (err != nil) != c.failed {
				t.Errorf("%q, %v", kept, err)
			}
		})
	}
}

// A restart cuts off the answer to the last question of a conversation, not an earlier one.
func TestResume_otherQuestion(t *testing.T) {
	const record = `{"messages":[{"role":"user","content":"x","idempotencyKey":"RUN:user"},
		{"role":"assistant","content":[{"type":"text","text":"One."}],"stopReason":"stop","__openclaw":{"runId":"RUN"}},
		{"role":"user","content":"y","idempotencyKey":"OTHER:user"},
		{"role":"user","content":"[System]","idempotencyKey":"NEXT:user","provenance":{"kind":"internal_system","sourceTool":"main_session_restart_recovery"}}],
		"inFlightRun":{"runId":"NEXT","text":"Two"}}`
	if id, what, text, _ := findRun("RUN", []byte(record)); id != "RUN" || what != runEnded || text != "One." {
		t.Errorf("%s, %v, %q", id, what, text)
	}
	if id, what, text, _ := findRun("OTHER", []byte(record)); id != "NEXT" || what != runActive || text != "Two" {
		t.Errorf("%s, %v, %q", id, what, text)
	}
}

// The asker is told that the gateway is away, and hears the rest when it is back.
func TestAwayInAnswer(t *testing.T) {
	h := newFakeGateway(t, clienttest.Options{}, Options{recheckDelay: 10 * time.Millisecond}, nil)
	conv := h.ask(said("p", "count"))
	conv.delta("One", "One")
	conv.await("One")
	conv.peer.Cut()
	conv.peer = h.gate.Peer()
	conv.subscribed()
	for range noticeRechecks {
		conv.history(recordQuestion)
	}
	conv.history(recordEnded)
	if err := conv.end(); err != nil || conv.text() != "One two three." || conv.notes() != 1 {
		t.Errorf("%q, %d notes, %v", conv.text(), conv.notes(), err)
	}
}
