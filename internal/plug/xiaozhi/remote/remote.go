// Package remote calls the tools of XiaoZhi voice boards. A board is an MCP server
// of a kind of its own, and a [Client] is what speaks with one board, whatever
// carries the messages.
//
// Firmware has habits that general clients of MCP do not survive:
//
//   - Ids must be whole numbers below 2³¹. Requests with other ids, or with null
//     where an object belongs, get no answer at all.
//   - There is no cancellation and no progress. Everything is done by one loop, one
//     thing after the other, and a photo takes half a minute.
//   - Before firmware 2.5, errors have no code, and their texts are not escaped: the
//     message need not be JSON.
//   - Tools for people can be called without having been listed. Whoever calls has
//     to know what it must not call.
//   - Pictures come in a form that is not MCP's.
//
// So there is one request at a time. A caller who gives up is free at once; the
// board is not, and the next request waits until it has answered or its time is up.
package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/tool"
)

const (
	// DefaultTimeout is how long a board may take for a call.
	DefaultTimeout = 30 * time.Second
	// DefaultPhotoTimeout is the same for photos: the board uploads one, waits up to
	// 30 s for what is seen in it, and does nothing else meanwhile.
	DefaultPhotoTimeout = 45 * time.Second
	// maxHeard bounds a message of a board, in bytes. Firmware cannot send more than
	// 64 KiB; programs that pretend to be boards can.
	maxHeard = 1 << 20
)

// What a caller may want to know about an error of [Client.Start], [Client.Refresh]
// and [Client.Alive].
var (
	// ErrSilent says that the board did not answer in time.
	ErrSilent = errors.New("the board does not answer")
	// ErrClosed says that the client was closed, since the board is gone.
	ErrClosed = errors.New("the connection has ended")
)

// Options describe a client. Only Send is required.
type Options struct {
	// Send sends the payload of one message of type mcp, which is a JSON object, to
	// the board. It must return within some seconds, may be called by several
	// goroutines, also just after Close, and may keep the payload.
	Send func(payload []byte) error
	// Event, if not nil, is told what the board says on its own: the method and the
	// params, which are JSON or nil. It is called by the goroutine that calls Heard,
	// and so must not wait for an answer of the board.
	Event func(method string, params json.RawMessage)

	Timeout      time.Duration // of a call, from when it is sent; [DefaultTimeout] if 0
	PhotoTimeout time.Duration // of a call that takes a picture; [DefaultPhotoTimeout] if 0

	// Firmware is the version that the board has told elsewhere, for boards that do
	// not tell it here; it may be empty.
	Firmware string
	// Build is the hash of the firmware that the board has told elsewhere; it may be empty.
	Build string
	// Known is what an earlier client found out about the same board; the zero value
	// if nothing. Its tools can be called before Start. As long as the board has the same
	// build, and the first page of the list is the same, the other pages are not listed.
	Known Catalog

	// Logger may be nil.
	Logger *slog.Logger
}

// Client speaks with one board for as long as the connection lasts. Its methods may
// be called by many goroutines. It is a [tool.Provider].
type Client struct {
	opt Options
	log *slog.Logger

	mu      sync.Mutex
	closed  error // why; nil as long as it is not
	catalog Catalog
	listed  bool // by this client, since the last time that it turned out to be wrong
	lastID  int64
	busy    bool         // somebody has the turn
	running *request     // what the board has not answered yet; nil if nothing
	waiting []chan error // for the turn, first come first
}

// New makes a client. Nothing is sent before Start. Close it when the connection
// ends.
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
	return &Client{opt: opt, log: opt.Logger, catalog: opt.Known}
}

// Close says that the connection to the board has ended, and why; err may be nil.
// Whoever waits for something is told. Only the first Close counts.
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
	if c.running != nil {
		c.finish(c.running, answer{fail: c.closed})
	}
	for _, w := range c.waiting {
		w <- &unsentError{c.closed}
	}
	c.waiting = nil
}

// Tools are the board's tools in its order. They must not be changed.
func (c *Client) Tools() []tool.Tool { return slices.Clone(c.Catalog().Tools) }

// Catalog is what is known about the board, for the client of its next connection.
// It must not be changed.
func (c *Client) Catalog() Catalog {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.catalog
}

// Share has the client keep a list of tools that is shared with other boards instead
// of one of its own, if both are the same.
func (c *Client) Share(tools []tool.Tool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sameTools(c.catalog.Tools, tools) {
		c.catalog.Tools = tools
	}
}

// message is a message of a board, as far as it can be understood.
type message struct {
	id     int64 // 0 if there is none
	method string
	params json.RawMessage
	result json.RawMessage // nil if there is none
	err    json.RawMessage // the same
}

// Heard takes the payload of a message of type mcp from the board. What is no
// answer to the running request, and no event, is dropped.
func (c *Client) Heard(payload []byte) {
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
	r := c.running
	fits := r != nil && m.id == r.id && (m.method == "" || m.result != nil || m.err != nil)
	if fits {
		c.finish(r, answer{result: m.result, err: m.err})
	}
	c.mu.Unlock()
	switch {
	case fits:
	case m.method == "":
		c.log.Debug("a board answered what nobody waits for any more", "id", m.id)
	case c.opt.Event != nil:
		c.opt.Event(m.method, m.params)
	}
}

// readMessage reads a message, also one in which the text of an error is not
// escaped.
func readMessage(payload []byte) (m message, ok bool) {
	if len(payload) > maxHeard {
		return m, false
	}
	if utf8.Valid(payload) {
		payload = bytes.Clone(payload)
	} else {
		payload = bytes.ToValidUTF8(payload, []byte("\ufffd"))
	}
	if !json.Valid(payload) {
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

// readID reads an id that is one of ours: a positive number, even if somebody made
// a text or a fraction of it. It is 0 otherwise.
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
