package bot

import (
	"context"
	"encoding/json"
	"strings"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// maxHistoryMessages and maxHistoryChars limit the history that is read: an answer with its
	// tool calls, and more than gateways keep of an answer.
	maxHistoryMessages = 100
	maxHistoryChars    = 500_000
)

// runState is the state of a run according to the gateway.
type runState int

const (
	runUnknown    runState = iota // the gateway does not know the question
	runUnanswered                 // it knows the question, but no answer
	runActive                     // it is being answered
	runEnded                      // it has been answered
)

// restartTool marks a history message of the gateway itself: after a restart it asks the agent to
// resume the interrupted work, in another run (src/sessions/input-provenance.ts,
// MAIN_SESSION_RESTART_RECOVERY_SOURCE_TOOL).
const restartTool = "main_session_restart_recovery"

// fetchState fetches the state of a run from the gateway.
func (l *gatewayLink) fetchState(ctx context.Context, c *client.Conn, r *run) (runState, error) {
	payload, err := c.Call(ctx, wire.MethodChatHistory, struct {
		wire.ChatHistory
		MaxChars int `json:"maxChars"`
	}{wire.ChatHistory{SessionKey: r.session, Limit: maxHistoryMessages}, maxHistoryChars})
	if err != nil {
		return runUnanswered, err
	}
	id, what, text, end := findRun(r.id, payload)
	if id != r.id {
		l.continueAs(r, id)
	}
	if what >= runActive {
		r.mergeHistory(text, end)
	}
	return what, nil
}

// historyMessage is a history message, with the members used here.
type historyMessage struct {
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

// findRun finds a run in the history of its conversation, or the run that resumed it after a
// restart, whose id it then returns.
func findRun(run string, payload []byte) (id string, what runState, text string, end *wire.ChatEvent) {
	id = run
	var h struct {
		Messages []historyMessage `json:"messages"`
		InFlight *struct {
			RunID string `json:"runId"`
			Text  string `json:"text"`
		} `json:"inFlightRun"`
	}
	if json.Unmarshal(payload, &h) != nil {
		return id, runUnanswered, "", nil
	}
	var parts []string
	passed := false // something else was asked since: what a restart cut off is the answer to that
	for i := range h.Messages {
		m := &h.Messages[i]
		switch {
		case m.Key == id+":user":
			what = runUnanswered
		case what == runUnanswered && !passed && m.Origin.Tool == restartTool && strings.HasSuffix(m.Key, ":user"):
			id, parts, end = strings.TrimSuffix(m.Key, ":user"), nil, nil
		case what == runUnanswered && m.Role == "user":
			passed = true
		case m.Role == "assistant" && (m.Own.RunID == id || m.Key == id+":assistant"):
			what = runUnanswered
			if text := strings.TrimSpace(wire.ContentText(m.Content)); text != "" {
				parts = append(parts, text)
			}
			end = m.end()
		case m.Type == "run-failed-before-reply" && what == runUnanswered && end == nil && i > 0 &&
			h.Messages[i-1].Key == id+":user":
			end = &wire.ChatEvent{State: wire.ChatError, ErrorMessage: wire.ContentText(m.Content)}
		}
	}
	switch {
	case h.InFlight != nil && h.InFlight.RunID != "" && h.InFlight.RunID == id:
		return id, runActive, h.InFlight.Text, nil
	case end == nil:
		return id, what, "", nil
	}
	return id, runEnded, strings.Join(parts, "\n\n"), end
}

// end returns the end of a run whose last message this is; nil: it is not the last.
func (m *historyMessage) end() *wire.ChatEvent {
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
