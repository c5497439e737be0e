// Package remote calls the MCP tools of XiaoZhi voice boards. A board is an MCP server with quirks,
// and a [Client] is the MCP client of one board, independent of the transport.
//
// General MCP clients do not work with the firmware's quirks (xiaozhi-esp32 main/mcp_server.cc and
// main/mcp_server.h; package wire names the revision):
//
//   - Ids must be whole numbers below 2³¹. Requests with other ids, or with null for an object,
//     get no response (McpServer::ParseMessage).
//   - There is no cancellation and no progress. One loop handles one request after the other,
//     and a photo takes half a minute (McpServer::DoToolCall).
//   - Before firmware 2.5, errors have no code, and their messages are not escaped: the
//     response may be invalid JSON (McpServer::ReplyError).
//   - User-only tools can be called without having been listed. The caller has to restrict
//     calls (McpServer::DoToolCall).
//   - Images have a format of their own (McpTool::Call).
//
// So there is one request at a time. A caller that gives up returns at once, but the next request
// waits until the board has answered or the timeout is over.
package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/tool"
)

const (
	// DefaultTimeout is the timeout of a call.
	DefaultTimeout = 30 * time.Second
	// DefaultPhotoTimeout is the timeout of a call that takes a photo: the board uploads it, waits
	// up to 30 s for the response (wire.VisionTimeout), and does nothing else meanwhile.
	DefaultPhotoTimeout = 45 * time.Second
	// maxMessage limits a message of a board, in bytes. Firmware cannot send more than 64 KiB
	// (wire.MaxText); programs that stand in for boards can.
	maxMessage = 1 << 20
)

// Errors of [Client.Start], [Client.Refresh] and [Client.Ping].
var (
	// ErrSilent reports that the board did not answer in time.
	ErrSilent = errors.New("the board does not answer")
	// ErrClosed reports that the client was closed, since the connection has ended.
	ErrClosed = errors.New("the connection has ended")
)

// Options configure a client. Only Send is required.
type Options struct {
	// Send sends the payload of a message of type mcp, a JSON object, to the board. It must return
	// within some seconds, be safe for concurrent use, also just after Close, and may keep the
	// payload.
	Send func(payload []byte) error
	// OnNotification, if not nil, is called for each notification of the board: with the method and
	// the params, which are JSON or nil. It is called by the goroutine that calls HandleMessage,
	// and so must not wait for a response of the board.
	OnNotification func(method string, params json.RawMessage)

	Timeout      time.Duration // of a call, from its sending; [DefaultTimeout] if 0
	PhotoTimeout time.Duration // of a call that takes a photo; [DefaultPhotoTimeout] if 0

	// Firmware is the version from the OTA request, for boards that do not report it in initialize;
	// may be empty.
	Firmware string
	// Build is the hash of the firmware from the OTA request; may be empty.
	Build string
	// Known is the catalog of an earlier client of the same board, or zero. Its tools can be called
	// before Start. If build and first page of the list are unchanged, the other pages are not
	// listed.
	Known Catalog

	// Logger may be nil.
	Logger *slog.Logger
}

// Client is the MCP client of one board, for one connection. It implements [tool.Provider]. Its
// methods are safe for concurrent use.
type Client struct {
	opt        Options
	log        *slog.Logger
	notifyRate *rate.Limiter

	mu      sync.Mutex
	closed  error // the reason; nil while it is open
	catalog Catalog
	listed  bool // the catalog was listed on this connection

	initialized lastInitialize

	lastID   int64
	busy     bool         // a request has the turn
	inFlight *sentRequest // the unanswered request; nil if none
	waiting  []chan error // requests that wait for the turn, in order
}

// New makes a client. It sends nothing before Start. Close must be called when the connection ends.
func New(opt Options) *Client {
	if opt.Timeout <= 0 {
		opt.Timeout = DefaultTimeout
	}
	if opt.PhotoTimeout <= 0 {
		opt.PhotoTimeout = DefaultPhotoTimeout
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Client{opt: opt, log: opt.Logger, catalog: opt.Known,
		notifyRate: rate.NewLimiter(rate.Every(notifyEvery), notifyBurst)}
}

// Close closes the client because the connection has ended; err is the reason and may be nil. All
// waiting requests fail. Further calls do nothing.
func (c *Client) Close(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return
	}
	c.closed = ErrClosed
	if err != nil {
		c.closed = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	if c.inFlight != nil {
		c.finish(c.inFlight, answer{failure: c.closed})
	}
	for _, w := range c.waiting {
		w <- &unsentError{c.closed}
	}
	c.waiting = nil
}

// Catalog returns what is known about the board, for the client of its next connection. It must not
// be changed.
func (c *Client) Catalog() Catalog {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.catalog
}

// ShareTools replaces the client's tools by an equal list that is shared with other boards. It does
// nothing if the lists differ.
func (c *Client) ShareTools(tools []tool.Tool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sameTools(c.catalog.Tools, tools) {
		c.catalog.Tools = tools
	}
}

// message is a JSON-RPC message of a board.
type message struct {
	id     int64 // 0 if absent or not one of ours
	method string
	params json.RawMessage
	result json.RawMessage // nil if absent
	err    json.RawMessage // nil if absent
}

// HandleMessage handles the payload of a message of type mcp. It drops what is neither the response
// to the current request nor a notification.
func (c *Client) HandleMessage(payload []byte) {
	m, ok := readMessage(payload)
	if !ok {
		c.log.Debug("a board sent something that is no JSON-RPC", "bytes", len(payload))
		return
	}
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return
	}
	r := c.inFlight
	fits := r != nil && m.id == r.id && (m.method == "" || m.result != nil || m.err != nil)
	if fits {
		c.finish(r, answer{result: m.result, err: m.err})
	}
	c.mu.Unlock()
	switch {
	case fits:
	case m.method == "":
		c.log.Debug("a board answered what nobody waits for any more", "id", m.id)
	case c.opt.OnNotification != nil:
		c.opt.OnNotification(m.method, m.params)
	}
}

// readMessage parses a message, including one with an unescaped error message.
func readMessage(payload []byte) (m message, ok bool) {
	if len(payload) > maxMessage {
		return m, false
	}
	if utf8.Valid(payload) {
		payload = bytes.Clone(payload)
	} else {
		payload = bytes.ToValidUTF8(payload, []byte("\ufffd"))
	}
	if !jsonrpc.Valid(payload) {
		whole := append(append([]byte(`{"type":"mcp","payload":`), payload...), '}')
		mended, err := wire.Parse(whole)
		if err != nil || mended.Type != wire.TypeMCP || mended.Payload == nil {
			return m, false
		}
		payload = mended.Payload
	}
	in := jsonrpc.Scan(payload)
	for in.Next() {
		value := in.Value
		if string(value) == "null" {
			continue
		}
		switch string(in.Key) {
		case "id":
			m.id = readID(value)
		case "method":
			m.method = jsonrpc.Text(value)
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			m.err = value
		}
	}
	return m, m.id != 0 || m.method != ""
}

// readID parses an id of ours: a positive whole number, also as a string or with a fraction of
// zero. Otherwise it returns 0.
func readID(value []byte) int64 {
	text := string(value)
	if value[0] == '"' {
		text = jsonrpc.Text(value)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(1 <= f && f <= wire.MaxID) || f != float64(int64(f)) {
		return 0
	}
	return int64(f)
}
