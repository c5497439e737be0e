package eyeclaw

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
)

// ConnectorKind is the kind of bot that answers through Patchbay's own plugin for OpenClaw, whose
// code is in package connector. It speaks EyeClaw's protocol with additions that it announces when
// it subscribes:
//
//   - Its first message is hello, with the answers that it works on. A turn that is not among them
//     is asked again, or has failed; an answer that nobody waits for is cancelled, unless it was
//     cut off because the server ended.
//   - It numbers everything that belongs to an answer, and sends again what was not acknowledged.
//     A piece is acknowledged when it was emitted, and the end when that is safe from kill -9, so
//     that nothing is lost with the server.
//   - It gets pictures and functions with the question. It calls functions by messages.
//   - It answers several questions at a time.
//   - It answers each ping, so that its silence is noticed within seconds.
const ConnectorKind = "connector"

const (
	maxConnectorConcurrent = 8
	maxConnectorWaiting    = 32
	// maxCalls limits the calls of one turn. Agents make a few, in a loop they make any number.
	maxCalls = 64
	// callTimeout limits one call. The turn has limits of its own besides.
	callTimeout = 2 * time.Minute
	// listToolsTimeout limits how long a question waits for the list of tools.
	listToolsTimeout = 5 * time.Second
	// maxResult limits the result of a call, in bytes: it becomes part of the agent's context.
	maxResult = 64 << 10
	// maxTools limits the tools that are told with a question.
	maxTools = 512
	// maxAskedAgain limits how often a question is sent again: one that a slow line does not get
	// through before the connection counts as silent would take the bot's other answers with it
	// each time.
	maxAskedAgain = 2
	// quietPings is after how many unanswered pings an asker is told.
	quietPings = 2
	// silencePings is after how many unanswered pings a connector's socket is dropped.
	silencePings = 3
	// maxVersion limits the versions that a connector says, in bytes.
	maxVersion = 40
)

const (
	msgStopped = i18n.Message("the answer was stopped")

	errPlugin    = i18n.Message("An EyeClaw plugin has connected with the key of this bot, which Patchbay's own connector for OpenClaw answers. Install the connector, or make a bot of kind eyeclaw for the plugin.")
	errConnector = i18n.Message("Patchbay's connector for OpenClaw has connected with the token of this bot, which an EyeClaw plugin answers. Make a bot of kind connector for it.")
)

// hello is the part of a message that a connector begins with.
type hello struct {
	Version  lenientString   `json:"version"`
	OpenClaw lenientString   `json:"openclaw"`
	Sessions []lenientString `json:"sessions"`
}

// connectorParams is what a connector gets in addition.
type connectorParams struct {
	Images    []connectorImage    `json:"images,omitempty"`
	Functions []connectorFunction `json:"functions,omitempty"`
}

type connectorImage struct {
	MIME string `json:"mime"`
	Data string `json:"data"` // base64
}

// connectorFunction is a function that the agent may call in the turn.
type connectorFunction struct {
	Name        string  `json:"name"`
	Description string  `json:"description,omitempty"`
	Parameters  rawJSON `json:"parameters"`
	Device      bool    `json:"device,omitempty"` // a command of the asker's device
}

// callResult is the result of a call.
type callResult struct {
	Type      string `json:"type"` // call_result
	SessionID string `json:"session_id"`
	CallID    string `json:"call_id"`
	Content   string `json:"content"`
	IsError   bool   `json:"is_error,omitempty"`
}

// connectorTurn is what a turn of a connector has in addition. The fields are guarded by
// pluginBot.mu, except those that do not change after openTurn.
type connectorTurn struct {
	ctx    context.Context // ends with the turn
	cancel context.CancelFunc
	asked  *talk.Turn
	tools  toolbox.Tools // nil: none

	askedAgain int // how often the question was sent again
	received   int // messages of the answer
	taken      int // how many of them were emitted, and acknowledged
	functions  []connectorFunction
	calls      map[string]*callResult // by call id; nil while the call runs
	commands   []talk.Event           // for the device, not emitted yet
}

// isConnector reports whether the bot is answered by a connector.
func (h *pluginBot) isConnector() bool { return h.info.Kind == ConnectorKind }

// limits returns how many questions the bot's peer answers, and how many wait.
func (h *pluginBot) limits() (concurrent, waiting int) {
	if h.isConnector() {
		return maxConnectorConcurrent, maxConnectorWaiting
	}
	return maxConcurrent, maxWaiting
}

// accepts reports whether what has subscribed is what the bot is answered by.
func (h *pluginBot) accepts(ch channelIdentifier) bool {
	switch announced := ch.Connector > 0; {
	case announced == h.isConnector():
		return true
	case announced:
		h.recordError(errConnector.With())
	default:
		h.recordError(errPlugin.With())
	}
	return false
}

// prepare completes a turn before it is sent for the first time.
func (h *pluginBot) prepare(ctx context.Context, t *turn) {
	x := &t.connector
	x.ctx, x.cancel = context.WithCancel(ctx)
	if !h.isConnector() {
		return
	}
	for _, d := range toolbox.DeviceFunctions {
		if x.asked.Can(d.Name) {
			x.functions = append(x.functions, connectorFunction{d.Name, d.Description, d.Parameters, true})
		}
	}
	if h.s.opt.Tools == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listToolsTimeout)
	defer cancel()
	tools, err := h.s.opt.Tools(ctx, h.info.Number)
	var list []toolbox.Named
	if err == nil && tools != nil {
		x.tools = tools
		list, err = tools.List(ctx, x.asked)
	}
	if err != nil && ctx.Err() == nil {
		h.s.log.WarnContext(ctx, "cable: the list of tools is not to be had, so the agent is asked without",
			"bot", h.info.Number, "turn", t.id, "error", err)
	}
	for i := range list {
		schema, err := toolbox.Parameters(list[i].Input)
		if _, device := toolbox.FindDeviceFunction(list[i].Name); err != nil || device || len(x.functions) >= maxTools {
			continue
		}
		x.functions = append(x.functions, connectorFunction{Name: list[i].Name,
			Description: strings.TrimSpace(list[i].Description), Parameters: schema})
	}
}

// params returns what a connector gets with a question.
func (x *connectorTurn) params() (p connectorParams) {
	for _, im := range x.asked.Images() {
		p.Images = append(p.Images, connectorImage{im.MIME, base64.StdEncoding.EncodeToString(im.Data)})
	}
	p.Functions = x.functions
	return p
}

// sessionName returns the name of the conversation in OpenClaw. Every asker has one for each of
// their conversations.
func (h *pluginBot) sessionName(asked *talk.Turn) string {
	channel := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(asked.Channel))
	return fmt.Sprintf("patchbay-%d-%s-%s", h.info.Number, channel, shortHash(asked.ConversationKey()))
}

// onHello compares the turns that a connector works on with those that somebody waits for.
func (h *pluginBot) onHello(c *conn, ident rawJSON, m hello) {
	var unwanted []string
	h.mu.Lock()
	c.version, c.openClaw = truncate(string(m.Version), maxVersion), truncate(string(m.OpenClaw), maxVersion)
	for _, id := range m.Sessions {
		if h.turns[string(id)] == nil && !h.retired && !h.unfinished[string(id)] {
			unwanted = append(unwanted, string(id))
		}
	}
	for id, t := range h.turns {
		if t.conn != nil || !t.sent || t.isDone() {
			continue
		}
		switch {
		case slices.Contains(m.Sessions, lenientString(id)):
			t.conn, t.disconnectedAt = c, time.Time{}
		default:
			t.connector.restarted(t)
		}
		t.notify()
	}
	h.mu.Unlock()
	for _, id := range unwanted {
		if !h.adopt(c, id) {
			c.reply(ident, cancelMessage{"cancel", id})
		}
	}
}

// onCall starts a call of a function, or sends the result again if it was called before.
func (h *pluginBot) onCall(c *conn, m *message) (dropped string) {
	t, isNew, dropped := h.noteCall(c, m)
	if !isNew {
		return dropped
	}
	name, args := string(m.Name), slices.Clone(m.Arguments)
	result := &callResult{Type: "call_result", SessionID: t.id, CallID: string(m.CallID)}
	h.s.start(func() {
		result.Content, result.IsError = h.call(t, name, args)
		h.mu.Lock()
		defer h.mu.Unlock()
		t.connector.calls[result.CallID] = result
		t.reply(*result)
	})
	return ""
}

// noteCall records a call, and reports whether it is a new one that has to be carried out.
func (h *pluginBot) noteCall(c *conn, m *message) (t *turn, isNew bool, dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := string(m.CallID)
	t, dropped = h.find(c, string(m.SessionID))
	if t == nil || id == "" || len(id) > maxID {
		return nil, false, orDefault(dropped, dropMalformed)
	}
	x := &t.connector
	if result, known := x.calls[id]; known {
		if result != nil {
			t.reply(*result)
		}
		return t, false, ""
	}
	if len(x.calls) >= maxCalls {
		t.reply(callResult{Type: "call_result", SessionID: t.id, CallID: id, IsError: true,
			Content: "Error: too many calls for one answer. Answer with what you have."})
		return t, false, ""
	}
	if x.calls == nil {
		x.calls = map[string]*callResult{}
	}
	x.calls[id] = nil
	return t, true, ""
}

// reply sends a message to where the turn runs. If the socket is lost, the connector sends again
// what it answers. The caller holds pluginBot.mu, so it does not wait.
func (t *turn) reply(r any) {
	if c := t.conn; c != nil && c.ident != nil {
		select {
		case c.out <- outbound{frame: messageFrame(c.ident, r)}:
		default:
			c.requestClose(closeRestart) // it does not read; it comes over the next one
		}
	}
}

// call calls a function and returns the result for the agent.
func (h *pluginBot) call(t *turn, name string, args rawJSON) (content string, failed bool) {
	x := &t.connector
	i := slices.IndexFunc(x.functions, func(f connectorFunction) bool { return f.Name == name })
	if i < 0 {
		return toolbox.UnknownFunction, true
	}
	object, err := toolbox.Arguments(string(args))
	if err != nil {
		return toolbox.NotJSON, true
	}
	if x.asked.Commit != nil {
		if err := x.asked.Commit(x.ctx); err != nil {
			return "Error: " + err.Error(), true
		}
	}
	if x.functions[i].Device {
		return h.command(t, name, object)
	}
	ctx, cancel := context.WithTimeout(x.ctx, callTimeout)
	defer cancel()
	result, err := x.tools.Call(ctx, x.asked, name, json.RawMessage(object), func(tool.Progress) {})
	if err == nil {
		return toolbox.ResultText(result, maxResult)
	}
	if f, ok := errors.AsType[*tool.Error](err); ok {
		return "Error: " + f.Error(), true
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return toolbox.OutOfTime, true
	}
	h.s.log.Warn("cable: a call failed", "bot", h.info.Number, "turn", t.id, "tool", name, "error", err)
	return "Error: the call failed.", true
}

// command queues a command for the asker's device.
func (h *pluginBot) command(t *turn, name, object string) (content string, failed bool) {
	d, _ := toolbox.FindDeviceFunction(name)
	var args map[string]any
	decoder := json.NewDecoder(strings.NewReader(object))
	decoder.UseNumber()
	if err := decoder.Decode(&args); err != nil {
		return toolbox.NotJSON, true
	}
	event, err := d.Event(args)
	if err != nil {
		return "Error: " + err.Error(), true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.connector.commands = append(t.connector.commands, event)
	t.notify()
	return toolbox.SentToDevice, false
}

// isSilent reports whether a connector has not answered the last pings.
func (c *conn) isSilent() bool {
	return c.bot.isConnector() && c.silentFor() > (silencePings+1)*c.s.opt.Timings.Ping
}

// handleConnector handles the messages that only a connector sends, or that mean more if it sends
// them. It returns false for others.
func (c *conn) handleConnector(ident rawJSON, m *message) bool {
	switch m.Type {
	case "hello":
		c.bot.onHello(c, ident, m.hello)
	case "call":
		c.recordUnmatched(c.bot.onCall(c, m))
	case "stream_chunk", "stream_end", "stream_error":
		c.handleNumbered(ident, m)
	default:
		return false
	}
	return true
}

// interruptedByAsker is a connector's error of an answer that a new question of the same
// conversation has ended.
const interruptedByAsker = "interrupted"

// connectorQuestion returns a question for a connector.
func (h *pluginBot) connectorQuestion(t *turn) commandMessage {
	asked := t.connector.asked
	return commandMessage{
		Type: "execute_command", Command: "chat",
		Params: commandParams{Message: asked.Text(), connectorParams: t.connector.params()},
		Metadata: commandMetadata{
			Source: asked.Channel, AgentID: asked.AgentID, UserID: asked.UserID, OriginalMetadata: rawJSON("{}"),
			SessionID: t.id, OpenClawSession: h.sessionName(asked), TraceID: "trace_" + shortHash(t.id),
		},
		Timestamp: timestamp(),
	}
}
