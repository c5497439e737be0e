// Package stdio bridges programs that start MCP servers and speak over standard input and output
// to a remote server: it forwards their messages to an endpoint over Streamable HTTP, and the
// server's messages back.
//
// If the server no longer knows a session, because it restarted without its memory, the bridge
// repeats the program's initialize; the program does not notice.
package stdio

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"patchbay/internal/jsonrpc"
)

// Options are what [Serve] needs.
type Options struct {
	// In receives messages from the program, one per line.
	In io.Reader
	// Out gets messages for it, one per line, and nothing else.
	Out io.Writer
	// URL is the server's address, http or https: its root, or the endpoint itself.
	URL string
	// Path is the path of the endpoint; empty means that of Learn. Query is added to its address.
	Path, Query string
	// Key is the API key, of scope Scope, which an error names.
	Key, Scope string
	// Logger reports errors to people; it must not write to Out.
	Logger *slog.Logger
	// Program is the program's name for the server's log; may be empty.
	Program string
}

// endpointPath is the path of the Learn endpoint.
const endpointPath = "/api/mcp"

const (
	// maxMessage limits a message of the program, to bound memory. The server accepts no larger
	// ones.
	maxMessage = 4 << 20
	// maxAnswer limits a message of the server, which may have the result of a tool server in it.
	maxAnswer = 12 << 20
	// maxPending limits concurrent requests, the same as the server's limit per session. Further
	// ones get an error.
	maxPending = 64
	// maxBatch limits the messages of a batch.
	maxBatch = 50
	// drainTimeout is how long running requests may take after the input has ended. Programs
	// kill the process soon after.
	drainTimeout = 5 * time.Second
	// endSessionTimeout limits ending the session at the server.
	endSessionTimeout = 2 * time.Second
)

// codeServer is the code of errors of this bridge.
const codeServer = -32000

// proxy forwards the messages of one program.
type proxy struct {
	Options
	endpoint string // its address
	client   *http.Client
	// retryTimeout is how long to retry an unreachable server.
	retryTimeout time.Duration

	ctx           context.Context
	cancel        context.CancelCauseFunc
	requests      sync.WaitGroup // running requests
	work          sync.WaitGroup // everything else
	stopListening context.CancelFunc

	writing  sync.Mutex
	renewing sync.Mutex

	mu                sync.Mutex
	session           session
	initializeMessage jsonrpc.Message // the program's initialize
	pending           map[string]*pendingRequest
	listening         bool // a notification stream was opened
}

// session identifies the session at the server.
type session struct{ id, version string }

// pendingRequest is a running request.
type pendingRequest struct {
	cancel    context.CancelFunc
	method    string
	version   string // of a sessionless message; else ""
	cancelled bool   // the program has cancelled it
}

// Serve forwards messages and returns nil when In ends; it also returns when ctx ends or Out
// fails. It returns an error at once for an invalid URL or key. When ctx ends it does not wait
// for In, whose reader continues until In yields or is closed.
func Serve(ctx context.Context, o Options) error {
	p, err := newProxy(ctx, o)
	if err != nil {
		return err
	}
	return p.serve()
}

func newProxy(ctx context.Context, o Options) (*proxy, error) {
	endpoint, err := endpointURL(o.URL, cmp.Or(o.Path, endpointPath))
	if err != nil {
		return nil, err
	}
	if o.Key == "" || strings.ContainsFunc(o.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("a key is needed, one word of plain letters, with scope " + cmp.Or(o.Scope, "learn"))
	}
	if o.Query != "" {
		endpoint += "?" + o.Query
	}
	p := &proxy{Options: o, endpoint: endpoint, client: newClient(), retryTimeout: retryTimeout,
		pending: map[string]*pendingRequest{}}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p, nil
}

// endpointURL returns the address of the endpoint with a path at a server.
func endpointURL(text, path string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", errors.New("the server's address must be like https://board.example or http://localhost:8787")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "", errors.New("the server's address must have no password, no ? and no #")
	}
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), path) {
		u = u.JoinPath(path)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func (p *proxy) serve() error {
	lines := make(chan line)
	go p.read(lines) // ends with In; it cannot be interrupted
	var err error
	for open := true; open && p.ctx.Err() == nil; {
		select {
		case l, more := <-lines:
			if open = more; more && l.err != nil {
				err, open = fmt.Errorf("read messages: %w", l.err), false
			} else if more {
				p.handleLine(l)
			}
		case <-p.ctx.Done():
		}
	}
	p.finish()
	if cause := context.Cause(p.ctx); err == nil && !errors.Is(cause, errInputEnded) {
		err = cause
	}
	return err
}

var errInputEnded = errors.New("the input has ended")

// finish waits for running requests, ends the session, and waits for all goroutines.
func (p *proxy) finish() {
	p.mu.Lock()
	if p.stopListening != nil {
		p.stopListening()
	}
	for _, a := range p.pending {
		if a.method == "subscriptions/listen" { // it never ends by itself
			a.cancelled = true
			a.cancel()
		}
	}
	p.mu.Unlock()
	limit := time.AfterFunc(drainTimeout, func() { p.cancel(errInputEnded) })
	p.requests.Wait()
	limit.Stop()
	p.endSession()
	p.cancel(errInputEnded)
	p.work.Wait()
	p.client.CloseIdleConnections()
}

// line is one line of input.
type line struct {
	text     []byte
	tooLarge bool // it exceeded the limit and was dropped
	err      error
}

// read reads lines until In ends or the proxy stops.
func (p *proxy) read(lines chan<- line) {
	defer close(lines)
	in := bufio.NewReaderSize(p.In, 64<<10)
	for {
		text, tooLarge, err := readLine(in, maxMessage)
		if err == io.EOF {
			return
		}
		select {
		case lines <- line{text, tooLarge, err}:
		case <-p.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// readLine reads a line without its end. For a line longer than limit it returns only tooLarge.
// The error is io.EOF at the end.
func readLine(r *bufio.Reader, limit int) (text []byte, tooLarge bool, err error) {
	begun := false
	for {
		part, err := r.ReadSlice('\n')
		begun = begun || len(part) > 0
		if err == nil {
			part = part[:len(part)-1]
		}
		if len(text)+len(part) > limit+1 { // one more, for a carriage return
			text, tooLarge = nil, true
		}
		if !tooLarge {
			text = append(text, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && (err != io.EOF || !begun):
			return nil, false, err
		}
		text = bytes.TrimSuffix(text, []byte("\r"))
		if len(text) > limit {
			text, tooLarge = nil, true
		}
		return text, tooLarge, nil
	}
}

// handleLine handles a line of the program.
func (p *proxy) handleLine(l line) {
	text := bytes.TrimSpace(l.text)
	switch {
	case l.tooLarge:
		p.refuse(nil, jsonrpc.InvalidRequest, fmt.Sprintf("a message may have %d MiB", maxMessage>>20))
	case len(text) == 0:
	case text[0] == '[' && json.Valid(text):
		// Revision 2025-03-26 has batches (basic/transports); each message is answered separately.
		parts := jsonrpc.Elements(text)
		if len(parts) == 0 || len(parts) > maxBatch {
			p.refuse(nil, jsonrpc.InvalidRequest, fmt.Sprintf("a batch has 1 to %d messages", maxBatch))
			return
		}
		for _, part := range parts {
			p.handleMessage(part)
		}
	default:
		p.handleMessage(text)
	}
}

// handleMessage handles a message of the program. Notifications, responses and the first request
// are sent before the next message is read; other requests run concurrently.
func (p *proxy) handleMessage(text []byte) {
	m, err := jsonrpc.Parse(text)
	switch {
	case errors.Is(err, jsonrpc.ErrSyntax):
		p.refuse(nil, jsonrpc.ParseError, err.Error())
	case err != nil:
		p.refuse(m.ID, jsonrpc.InvalidRequest, err.Error())
	case m.Method == "notifications/cancelled" && m.IsNotification():
		p.handleCancel(&m)
	case !m.IsRequest():
		p.sendNotification(&m)
		if m.Method == "notifications/initialized" {
			p.startListening()
		}
	case m.Method == "initialize":
		p.write(p.initialize(&m))
	default:
		p.handleRequest(&m)
	}
}

// refuse answers a message that is not forwarded.
func (p *proxy) refuse(id json.RawMessage, code int, text string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	p.write(jsonrpc.AppendError(nil, id, &jsonrpc.Error{Code: code, Message: text}))
}

// write sends the program a message.
func (p *proxy) write(msg []byte) {
	if bytes.ContainsAny(msg, "\r\n") {
		var w bytes.Buffer
		if err := json.Compact(&w, msg); err != nil {
			p.Logger.Error("the server said something that is no message")
			return
		}
		msg = w.Bytes()
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	if _, err := p.Out.Write(append(msg[:len(msg):len(msg)], '\n')); err != nil {
		p.cancel(fmt.Errorf("write a message: %w", err))
	}
}

// handleRequest forwards a request and writes its response.
func (p *proxy) handleRequest(m *jsonrpc.Message) {
	ctx, cancel := context.WithCancel(p.ctx)
	a := &pendingRequest{cancel: cancel, method: m.Method, version: statelessVersion(m)}
	p.mu.Lock()
	problem := ""
	switch {
	case len(p.pending) >= maxPending:
		problem = "too many requests are running"
	case p.pending[string(m.ID)] != nil:
		problem = "a request with this id is running already"
	default:
		p.pending[string(m.ID)] = a
	}
	p.mu.Unlock()
	if problem != "" {
		cancel()
		p.refuse(m.ID, jsonrpc.InvalidRequest, problem)
		return
	}
	p.requests.Go(func() {
		defer cancel()
		answer := p.callServer(ctx, m)
		// The request is unregistered before its response is written: the program may then reuse
		// the id at once.
		p.mu.Lock()
		delete(p.pending, string(m.ID))
		gone := a.cancelled
		p.mu.Unlock()
		if !gone {
			p.write(answer)
		}
	})
}

// handleCancel cancels a request. It notifies the server and then disconnects, in case the
// notification arrives before the request.
func (p *proxy) handleCancel(m *jsonrpc.Message) {
	id := json.RawMessage(nil)
	for in := jsonrpc.Scan(m.Params); in.Next(); {
		if string(in.Key) == "requestId" {
			id = in.Value
		}
	}
	p.mu.Lock()
	a := p.pending[string(id)]
	if a != nil {
		a.cancelled = true
	}
	p.mu.Unlock()
	if a == nil {
		return // already answered
	}
	if a.version != "" { // without sessions, disconnecting is the cancellation (2026-07-28 basic/patterns/cancellation)
		a.cancel()
		return
	}
	p.work.Go(func() {
		defer a.cancel()
		ctx, cancel := context.WithTimeout(p.ctx, endSessionTimeout)
		defer cancel()
		resp, err := p.post(ctx, p.current(), m)
		if err == nil {
			resp.Body.Close()
		}
	})
}

func (p *proxy) current() session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session
}
