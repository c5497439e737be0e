package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/coder/websocket"

	"patchbay/internal/netx"
)

// inbound has the fields of a server's frame that the plugin reads.
type inbound struct {
	Type       string `json:"type"`
	Identifier string `json:"identifier"`
	Message    *struct {
		Type     string `json:"type"`
		Command  string `json:"command"`
		Sequence *int   `json:"sequence"`
		Params   struct {
			Message string `json:"message"`
		} `json:"params"`
		Metadata json.RawMessage `json:"metadata"`
	} `json:"message"`
}

// receive handles one frame. It ignores frames that it cannot parse.
func (p *Plugin) receive(ctx, sctx context.Context, data []byte, pings *sync.WaitGroup) {
	var f struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &f) != nil {
		return
	}
	switch f.Type {
	case "welcome":
		p.send(command{Command: "subscribe", Identifier: p.ident})
		return
	case "ping", "pong":
		return
	case "confirm_subscription":
		p.notify(Notice{Kind: Subscribed})
		pings.Go(func() { p.pingServer(sctx) })
		return
	case "reject_subscription":
		p.notify(Notice{Kind: Rejected})
		return
	}
	var in inbound
	if json.Unmarshal(data, &in) != nil || in.Identifier == "" || in.Message == nil {
		return
	}
	switch m := in.Message; m.Type {
	case "chunk_received":
		if m.Sequence != nil {
			p.mu.Lock()
			p.acked[*m.Sequence] = true
			p.mu.Unlock()
		}
	case "execute_command", "chat":
		text := m.Params.Message
		if text == "" {
			text = m.Command
		}
		if text != "" {
			p.chats.Go(func() { p.chat(ctx, text, m.Metadata) })
		}
	}
}

// chat asks upstream and forwards the answer. It continues when the socket closes.
func (p *Plugin) chat(ctx context.Context, text string, metadata json.RawMessage) {
	var about struct {
		Session *string `json:"session_id"`
		User    string  `json:"openclaw_session_id"`
	}
	_ = json.Unmarshal(metadata, &about) // missing fields stay empty, as in the plugin
	if about.User == "" {
		about.User = "bot_" + p.opt.BotID
	}
	c := Chat{Message: text, User: about.User, Metadata: metadata}
	if about.Session != nil {
		c.SessionID = *about.Session
	}
	p.mu.Lock()
	p.sequence, p.sent = 0, 0
	clear(p.acked)
	p.mu.Unlock()
	p.notify(Notice{Kind: Asked, Detail: c.SessionID})

	err := p.opt.Upstream(ctx, c, func(s string) { p.sendPiece(about.Session, s) })
	switch {
	case ctx.Err() != nil:
		return // the process ends without sending anything
	case err != nil:
		p.sendMessage(struct {
			Type    string  `json:"type"`
			Error   string  `json:"error"`
			Session *string `json:"session_id,omitempty"`
		}{"stream_error", err.Error(), about.Session})
		p.notify(Notice{Kind: Failed, Detail: err.Error()})
	default:
		took := p.awaitAcks(ctx)
		p.finish(about.Session)
		p.notify(Notice{Kind: Answered, Detail: c.SessionID, After: took})
	}
}

// sendPiece numbers, collects and sends one piece. The plugin ignores empty pieces, but not
// whitespace.
func (p *Plugin) sendPiece(session *string, text string) {
	if text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := p.sequence
	p.sequence++
	p.sent++
	p.collected.WriteString(text)
	p.sendMessageLocked(struct {
		Type     string  `json:"type"`
		Content  string  `json:"content"`
		Session  *string `json:"session_id,omitempty"`
		Sequence int     `json:"sequence"`
	}{"stream_chunk", text, session, seq})
}

func (p *Plugin) awaitAcks(ctx context.Context) time.Duration {
	begin := time.Now()
	for {
		p.mu.Lock()
		missing := len(p.acked) < p.sent
		p.mu.Unlock()
		took := time.Since(begin)
		if !missing || took >= p.scaled(ackTimeout) || netx.Wait(ctx, p.scaled(ackPollInterval)) != nil {
			return took
		}
	}
}

// finish sends the end and the summary of all collected text together.
func (p *Plugin) finish(session *string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendMessageLocked(struct {
		Type    string  `json:"type"`
		Session *string `json:"session_id,omitempty"`
	}{"stream_end", session})
	text := p.collected.String()
	p.sendMessageLocked(struct {
		Type    string  `json:"type"`
		Session *string `json:"session_id,omitempty"`
		Content string  `json:"total_content"`
		Chunks  int     `json:"total_chunks"`
		Hash    string  `json:"content_hash"`
	}{"stream_summary", session, text, p.sequence, Hash(text)})
	p.collected.Reset()
	p.sequence = 0
}

func (p *Plugin) pingServer(sctx context.Context) {
	for netx.Wait(sctx, p.scaled(pingInterval)) == nil {
		p.sendMessage(struct {
			Action    string `json:"action"`
			Timestamp string `json:"timestamp"`
		}{"ping", time.Now().UTC().Format("2006-01-02T15:04:05.000Z")})
	}
}

// command is a frame of the client. Data is JSON in a string.
type command struct {
	Command    string `json:"command"`
	Identifier string `json:"identifier"`
	Data       string `json:"data,omitempty"`
}

func (p *Plugin) sendMessage(v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendMessageLocked(v)
}

func (p *Plugin) sendMessageLocked(v any) {
	p.sendLocked(command{"message", p.ident, stringify(v)})
}

func (p *Plugin) send(c command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendLocked(c)
}

// sendLocked queues a frame for the open socket, and drops it if there is none. It never waits. The
// caller holds p.mu, so that frames leave in the order of their creation.
func (p *Plugin) sendLocked(c command) {
	l := p.conn
	if l == nil {
		return
	}
	frame := stringify(c)
	if l.bytes += len(frame); l.bytes > maxBuffer {
		p.conn, l.frames, l.full = nil, nil, true
	} else {
		l.frames = append(l.frames, frame)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// openConn is an open socket with its queue of frames. Plugin.mu guards all fields but ws and wake.
type openConn struct {
	ws     *websocket.Conn
	wake   chan struct{}
	frames []string
	bytes  int
	full   bool
}

// write writes the queued frames until the socket ends.
func (p *Plugin) write(ctx context.Context, l *openConn) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		p.mu.Lock()
		frames, over := l.frames, l.full
		l.frames, l.bytes = nil, 0
		p.mu.Unlock()
		for _, f := range frames {
			if err := l.ws.Write(ctx, websocket.MessageText, []byte(f)); err != nil {
				over = true
				break
			}
		}
		if over {
			_ = l.ws.CloseNow() // the reader notices and reconnects
			return
		}
	}
}

// stringify encodes like JSON.stringify, which does not escape <, > and &.
func stringify(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // the values are this package's own structs
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Hash returns the plugin's content_hash: 31·h + c over UTF-16 code units in 32 bits, in hex with a
// sign (hashCode in sdk/src/websocket-client.ts).
func Hash(s string) string {
	var h int32
	for _, c := range utf16.Encode([]rune(s)) {
		h = h<<5 - h + int32(c)
	}
	return strconv.FormatInt(int64(h), 16)
}
