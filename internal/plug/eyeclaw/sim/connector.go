package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/netx"
)

// The times of our own plugin for OpenClaw (eyeclaw/connector/plugin/link.js).
const (
	connectorFirstBackoff = 500 * time.Millisecond
	connectorMaxBackoff   = 30 * time.Second
	// connectorStale is how long a server may be silent; its pings are more frequent.
	connectorStale = 10 * time.Second
)

// connectorWrite limits one write of a simulated connector: what a server does not read is sent
// again over the next connection.
const connectorWrite = 10 * time.Second

// Connector simulates Patchbay's own plugin for OpenClaw (package eyeclaw/connector), whose agent
// is a function. It keeps what the server has not acknowledged, and sends it again over the next
// connection.
type Connector struct {
	opt       ConnectorOptions
	address   string
	token     string
	questions sync.WaitGroup

	// mu guards what the plugin's single JavaScript thread owns, also while something is sent, so
	// that pieces are sent in their order.
	mu   sync.Mutex
	ws   *websocket.Conn      // nil while the server has not confirmed a connection
	open map[string]*Question // by session id
}

// ConnectorOptions configure a connector. Connection and Agent are required.
type ConnectorOptions struct {
	// Connection is the plugin's only setting, as it is printed: http://KEY@HOST:PORT.
	Connection string
	// Agent answers a question. Its context ends when the answer is not wanted any more. Several
	// questions are answered at a time.
	Agent func(ctx context.Context, q *Question) error
	// Joined, if not nil, is called whenever the server has confirmed a connection. It must not
	// wait.
	Joined func()
}

// Question is a question to the agent.
type Question struct {
	Message      string
	Conversation string     // name of its session in OpenClaw
	Pictures     int        // how many came with it
	Functions    []Function // that the agent may call

	c      *Connector
	id     string
	cancel context.CancelFunc

	// Guarded by Connector.mu.
	outbox []numbered // not acknowledged
	next   int        // sequence
	calls  map[string]*functionCall
}

// Function is a tool of Patchbay's, or a command of the asker's device.
type Function struct {
	Name   string `json:"name"`
	Device bool   `json:"device"`
}

// numbered is a message that belongs to an answer.
type numbered struct {
	Type     string `json:"type"`
	Content  string `json:"content,omitempty"`
	Error    string `json:"error,omitempty"`
	Session  string `json:"session_id"`
	Sequence int    `json:"sequence"`
}

// functionCall is a call without a result yet. Its channel has room for the result.
type functionCall struct {
	Type      string          `json:"type"`
	Session   string          `json:"session_id"`
	ID        string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	result    chan functionResult
}

type functionResult struct {
	content string
	failed  bool
}

// connectorIdentifier announces our own plugin (link.js).
const connectorIdentifier = `{"channel":"BotChannel","connector":1}`

// NewConnector returns a connector, which does nothing until [Connector.Run].
func NewConnector(opt ConnectorOptions) (*Connector, error) {
	u, err := url.Parse(opt.Connection)
	if err != nil || u.User == nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the connection does not have the form https://KEY@HOST") // without the key in it
	}
	token := u.User.Username()
	u.User, u.Path = nil, strings.TrimRight(u.Path, "/")+"/cable"
	u.Scheme = "ws" + strings.TrimPrefix(u.Scheme, "http")
	return &Connector{opt: opt, address: u.String(), token: token, open: map[string]*Question{}}, nil
}

// Run connects, answers and connects again until ctx ends. Then it waits for its goroutines and
// returns ctx's error.
func (c *Connector) Run(ctx context.Context) error {
	defer c.questions.Wait()
	backoff := netx.Backoff{First: connectorFirstBackoff, Max: connectorMaxBackoff,
		Jitter: netx.Jitter{From: 0.75, To: 1.25}}
	for {
		if c.session(ctx) {
			backoff.Reset()
		}
		if netx.Wait(ctx, backoff.Next()) != nil {
			return ctx.Err()
		}
	}
}

// Drop cuts the connection, as a lost network does.
func (c *Connector) Drop() {
	c.mu.Lock()
	ws := c.ws
	c.ws = nil
	c.mu.Unlock()
	if ws != nil {
		_ = ws.CloseNow()
	}
}

// session runs one connection. It reports whether the server has confirmed it.
func (c *Connector) session(ctx context.Context) (joined bool) {
	dialing, cancel := context.WithTimeout(ctx, connectorStale)
	defer cancel()
	ws, _, err := websocket.Dial(dialing, c.address, &websocket.DialOptions{
		Subprotocols: []string{"actioncable-v1-json"},
		HTTPHeader:   http.Header{"Authorization": {"Bearer " + c.token}},
	})
	if err != nil {
		return false
	}
	ws.SetReadLimit(maxFrame)
	defer func() {
		c.mu.Lock()
		c.ws = nil
		c.mu.Unlock()
		_ = ws.CloseNow()
	}()
	for {
		waiting, cancel := context.WithTimeout(ctx, connectorStale)
		_, data, err := ws.Read(waiting)
		cancel()
		if err != nil {
			return joined
		}
		var f struct {
			Type    string            `json:"type"`
			Message *connectorMessage `json:"message"`
		}
		if json.Unmarshal(data, &f) != nil && f.Type != "ping" { // whose message is a number
			continue
		}
		switch f.Type {
		case "welcome":
			c.write(ctx, ws, command{Command: "subscribe", Identifier: connectorIdentifier})
		case "ping":
			c.write(ctx, ws, message(map[string]string{"type": "pong"}))
		case "confirm_subscription":
			joined = true
			c.confirmed(ctx, ws)
		case "":
			if f.Message != nil {
				c.handle(ctx, f.Message)
			}
		}
	}
}

// connectorMessage has the fields of a server's message that the plugin reads.
type connectorMessage struct {
	Type      string `json:"type"`
	SessionID string `json:"session_id"`
	Sequence  int    `json:"sequence"`
	CallID    string `json:"call_id"`
	Content   string `json:"content"`
	IsError   bool   `json:"is_error"`
	Params    struct {
		Message   string            `json:"message"`
		Images    []json.RawMessage `json:"images"`
		Functions []Function        `json:"functions"`
	} `json:"params"`
	Metadata struct {
		SessionID    string `json:"session_id"`
		Conversation string `json:"openclaw_session_id"`
	} `json:"metadata"`
}

func message(v any) command { return command{"message", connectorIdentifier, stringify(v)} }

func (c *Connector) write(ctx context.Context, ws *websocket.Conn, m command) {
	ctx, cancel := context.WithTimeout(ctx, connectorWrite)
	defer cancel()
	if ws.Write(ctx, websocket.MessageText, []byte(stringify(m))) != nil {
		_ = ws.CloseNow() // the reader notices and connects again
	}
}

// confirmed says hello, and sends again what the last connection may have lost.
func (c *Connector) confirmed(ctx context.Context, ws *websocket.Conn) {
	c.mu.Lock()
	sessions := []string{}
	for id := range c.open {
		sessions = append(sessions, id)
	}
	c.write(ctx, ws, message(map[string]any{"type": "hello", "version": "0.0.0", "openclaw": "simulated",
		"sessions": sessions}))
	for _, q := range c.open {
		q.resend(ctx, ws)
	}
	c.ws = ws
	c.mu.Unlock()
	if c.opt.Joined != nil {
		c.opt.Joined()
	}
}

// send sends a message if there is a connection. Who needs it to arrive sends it again. The caller
// holds mu.
func (c *Connector) send(ctx context.Context, v any) {
	if c.ws != nil {
		c.write(ctx, c.ws, message(v))
	}
}

func (c *Connector) handle(ctx context.Context, m *connectorMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Type == "execute_command" {
		if c.open[m.Metadata.SessionID] == nil { // or the same question is sent again
			q := &Question{Message: m.Params.Message, Conversation: m.Metadata.Conversation,
				Pictures: len(m.Params.Images), Functions: m.Params.Functions,
				c: c, id: m.Metadata.SessionID, calls: map[string]*functionCall{}}
			var running context.Context
			running, q.cancel = context.WithCancel(ctx)
			c.open[q.id] = q
			c.questions.Go(func() { q.run(ctx, running) })
		}
		return
	}
	q := c.open[m.SessionID]
	if q == nil {
		return
	}
	switch m.Type {
	case "cancel":
		q.cancel()
	case "chunk_received":
		if q.acknowledged(m.Sequence) {
			delete(c.open, q.id)
		}
	case "call_result":
		q.settle(m)
	}
}

// run has the agent answer.
func (q *Question) run(ctx, running context.Context) {
	defer q.cancel()
	end := numbered{Type: "stream_end"}
	if err := q.c.opt.Agent(running, q); err != nil {
		end = numbered{Type: "stream_error", Error: err.Error()}
	}
	q.post(ctx, end)
}

// Say adds a piece to the answer.
func (q *Question) Say(ctx context.Context, piece string) {
	q.post(ctx, numbered{Type: "stream_chunk", Content: piece})
}

func (q *Question) post(ctx context.Context, m numbered) {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	m.Session, m.Sequence = q.id, q.next
	q.next++
	q.outbox = append(q.outbox, m)
	q.c.send(ctx, m)
}

// Call calls a function and returns its result, and whether it has failed.
func (q *Question) Call(ctx context.Context, name string, args any) (content string, failed bool, err error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return "", false, err
	}
	q.c.mu.Lock()
	f := &functionCall{Type: "call", Session: q.id, ID: strconv.Itoa(q.next) + "-" + strconv.Itoa(len(q.calls)),
		Name: name, Arguments: raw, result: make(chan functionResult, 1)}
	q.calls[f.ID] = f
	q.c.send(ctx, f)
	q.c.mu.Unlock()
	select {
	case r := <-f.result:
		return r.content, r.failed, nil
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
}

// settle gives a call its result. A result that comes twice is dropped. The
// caller holds mu.
func (q *Question) settle(m *connectorMessage) {
	if f := q.calls[m.CallID]; f != nil && f.result != nil {
		f.result <- functionResult{m.Content, m.IsError}
		q.calls[m.CallID] = &functionCall{} // its id is not given again
	}
}

// acknowledged forgets what the server has, and reports whether that is the whole answer. The
// caller holds mu.
func (q *Question) acknowledged(sequence int) (whole bool) {
	for len(q.outbox) > 0 && q.outbox[0].Sequence <= sequence {
		whole = q.outbox[0].Type != "stream_chunk"
		q.outbox = q.outbox[1:]
	}
	return whole
}

// resend sends again what was not acknowledged, and the calls without a result. The
// caller holds mu.
func (q *Question) resend(ctx context.Context, ws *websocket.Conn) {
	for _, m := range q.outbox {
		q.c.write(ctx, ws, message(m))
	}
	for _, f := range q.calls {
		if f.result != nil {
			q.c.write(ctx, ws, message(f))
		}
	}
}
