package bot

import (
	"context"
	"encoding/json"
	"strings"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// recordMessages and recordChars are how much of the record is read: an answer
	// with its calls of tools, and more than gateways keep of an answer.
	recordMessages = 100
	recordChars    = 500_000
)

// fate is what became of a run, according to the gateway.
type fate int

const (
	absent  fate = iota // the gateway does not know the question
	dubious             // it knows the question, and of no answer
	alive               // it is being answered
	ended               // it was
)

// restartTool made a message of the record that is a gateway's own: after a restart
// it asks the agent to go on with what was interrupted, in another run.
const restartTool = "main_session_restart_recovery"

// ask asks the gateway what became of a run.
func (l *line) ask(ctx context.Context, c *client.Conn, r *run) (fate, error) {
	payload, err := c.Call(ctx, wire.MethodChatHistory, struct {
		wire.ChatHistory
		MaxChars int `json:"maxChars"`
	}{wire.ChatHistory{SessionKey: r.session, Limit: recordMessages}, recordChars})
	if err != nil {
		return dubious, err
	}
	id, what, text, end := readRecord(r.id, payload)
	if id != r.id {
		l.adopt(r, id)
	}
	if what >= alive {
		r.learn(text, end)
	}
	return what, nil
}

// recorded is a message of the record, as far as it matters.
type recorded struct {
	Role    string          `json:"role"`
	Type    string          `json:"customType"`
	Content json.RawMessage `json:"content"`
	Key     string          `json:"idempotencyKey"`
	Stop    string          `json:"stopReason"`
	Abort   *struct {
		Aborted bool `json:"aborted"`
	} `json:"openclawAbort"`
	Error  string `json:"errorMessage"`
	Origin struct {
		Tool string `json:"sourceTool"`
	} `json:"provenance"`
	Own struct {
		RunID string `json:"runId"`
	} `json:"__openclaw"`
}

// readRecord finds a run in the record of its conversation, or the one in which a
// gateway goes on with it after a restart; the id is that of the latter then.
func readRecord(run string, payload []byte) (id string, what fate, text string, end *wire.ChatEvent) {
	id = run
	var h struct {
		Messages []recorded `json:"messages"`
		InFlight *struct {
			RunID string `json:"runId"`
			Text  string `json:"text"`
		} `json:"inFlightRun"`
	}
	if json.Unmarshal(payload, &h) != nil {
		return id, dubious, "", nil
	}
	var parts []string
	for i := range h.Messages {
		m := &h.Messages[i]
		switch {
		case m.Key == id+":user":
			what = dubious
		case what == dubious && m.Origin.Tool == restartTool && strings.HasSuffix(m.Key, ":user"):
			id, parts, end = strings.TrimSuffix(m.Key, ":user"), nil, nil
		case m.Role == "assistant" && (m.Own.RunID == id || m.Key == id+":assistant"):
			what = dubious
			if text := strings.TrimSpace(wire.ContentText(m.Content)); text != "" {
				parts = append(parts, text)
			}
			end = m.end()
		case m.Type == "run-failed-before-reply" && what == dubious && end == nil && i > 0 && h.Messages[i-1].Key == id+":user":
			end = &wire.ChatEvent{State: wire.ChatError, ErrorMessage: wire.ContentText(m.Content)}
		}
	}
	switch {
	case h.InFlight != nil && h.InFlight.RunID != "" && h.InFlight.RunID == id:
		return id, alive, h.InFlight.Text, nil
	case end == nil:
		return id, what, "", nil
	}
	return id, ended, strings.Join(parts, "\n\n"), end
}

// end is how a run has ended whose last message this is; nil: it was not the last.
func (m *recorded) end() *wire.ChatEvent {
	switch {
	case m.Abort != nil && m.Abort.Aborted, m.Stop == "aborted":
		return &wire.ChatEvent{State: wire.ChatAborted}
	case m.Stop == "error":
		return &wire.ChatEvent{State: wire.ChatError, ErrorMessage: m.Error}
	case m.Stop == "" || m.Stop == "toolUse":
		return nil
	}
	return &wire.ChatEvent{State: wire.ChatFinal, StopReason: m.Stop}
}
