// Package stdio lets programs that start their MCP servers themselves, and speak
// with them over standard input and output, use one that is elsewhere: it carries
// their messages to a door over Streamable HTTP, and back what the door says.
//
// A session that the server does not know any more, since it was started anew
// without its memory, is begun again with what the program said at first, which
// does not notice.
package stdio

import (
	"bufio"
	"bytes"
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
	// In is where messages of the program come from, one per line.
	In io.Reader
	// Out takes messages for it, one per line, and nothing else.
	Out io.Writer
	// URL is where the server is, http or https: its root, or the door itself.
	URL string
	// Key opens the door.
	Key string
	// Logger tells people what is wrong; it must not write to Out.
	Logger *slog.Logger
	// Program is who carries the messages, for the server's log; it may be empty.
	Program string
}

// doorPath is where Learn's door is at a server.
const doorPath = "/api/mcp"

const (
	// maxMessage bounds a message, in both directions, so that a mad side does not
	// take the memory of the machine. The server takes no larger ones.
	maxMessage = 4 << 20
	// maxAsked bounds the requests that run at a time; the server allows a session
	// as many. One more is answered with an error.
	maxAsked = 64
	// maxBatch bounds the messages of a line.
	maxBatch = 50
	// linger is how long requests that run when the input ends may still take.
	// Programs wait little longer before they use force.
	linger = 5 * time.Second
	// farewell bounds how long it may take to end the session at the server.
	farewell = 2 * time.Second
)

// codeServer is the code of errors that are not the server's but ours.
const codeServer = -32000

// proxy carries messages for one program.
type proxy struct {
	Options
	door   string // its address
	client *http.Client
	// patience is how long a server that cannot be reached is waited for.
	patience time.Duration

	ctx    context.Context
	cancel context.CancelCauseFunc
	asking sync.WaitGroup // requests
	work   sync.WaitGroup // everything else
	deaf   context.CancelFunc

	writing  sync.Mutex
	renewing sync.Mutex

	mu      sync.Mutex
	session session
	hello   jsonrpc.Message // what the program began with
	asked   map[string]*asked
	hears   bool // there is, or was, a stream of notices
}

// session is what the server knows the program by.
type session struct{ id, version string }

// asked is a request on its way.
type asked struct {
	cancel  context.CancelFunc
	method  string
	version string // of a message that stands for itself; else ""
	gone    bool   // the program wants no answer any more
}

// Serve carries messages until In ends, and returns nil then, or until ctx ends or
// Out fails. It returns an error at once if the URL or the key cannot be. When ctx
// ends it does not wait for In, whose reader goes on until In yields or is closed.
func Serve(ctx context.Context, o Options) error {
	p, err := newProxy(ctx, o)
	if err != nil {
		return err
	}
	return p.serve()
}

func newProxy(ctx context.Context, o Options) (*proxy, error) {
	door, err := doorOf(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Key == "" || strings.ContainsFunc(o.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("a key is needed, one word of plain letters, with scope learn")
	}
	p := &proxy{Options: o, door: door, client: newClient(), patience: patience, asked: map[string]*asked{}}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p, nil
}

// doorOf is the address of the door at a server.
func doorOf(text string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", errors.New("the server's address must be like https://board.example or http://localhost:8787")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "", errors.New("the server's address must have no password, no ? and no #")
	}
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), doorPath) {
		u = u.JoinPath(doorPath)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func (p *proxy) serve() error {
	lines := make(chan line)
	go p.read(lines) // it ends with In, for which nobody can wait
	var err error
	for open := true; open && p.ctx.Err() == nil; {
		select {
		case l, more := <-lines:
			if open = more; more && l.err != nil {
				err, open = fmt.Errorf("read messages: %w", l.err), false
			} else if more {
				p.line(l)
			}
		case <-p.ctx.Done():
		}
	}
	p.finish()
	if cause := context.Cause(p.ctx); err == nil && !errors.Is(cause, errFinished) {
		err = cause
	}
	return err
}

var errFinished = errors.New("the input has ended")

// finish lets requests that run come to their end, says goodbye and waits for
// everything.
func (p *proxy) finish() {
	p.mu.Lock()
	if p.deaf != nil {
		p.deaf()
	}
	for _, a := range p.asked {
		if a.method == "subscriptions/listen" { // it has no end of its own
			a.gone = true
			a.cancel()
		}
	}
	p.mu.Unlock()
	limit := time.AfterFunc(linger, func() { p.cancel(errFinished) })
	p.asking.Wait()
	limit.Stop()
	p.endSession()
	p.cancel(errFinished)
	p.work.Wait()
	p.client.CloseIdleConnections()
}

// line is what came in one line.
type line struct {
	text []byte
	huge bool // it was too long, and is not here
	err  error
}

// read reads lines until there are none, or nobody wants them.
func (p *proxy) read(lines chan<- line) {
	defer close(lines)
	in := bufio.NewReaderSize(p.In, 64<<10)
	for {
		text, huge, err := readLine(in, maxMessage)
		if err == io.EOF {
			return
		}
		select {
		case lines <- line{text, huge, err}:
		case <-p.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// readLine reads a line, without its end. Of one that is longer than most, only
// that it was is returned. The error is io.EOF when there is no line any more.
func readLine(r *bufio.Reader, most int) (text []byte, huge bool, err error) {
	begun := false
	for {
		part, err := r.ReadSlice('\n')
		begun = begun || len(part) > 0
		if err == nil {
			part = part[:len(part)-1]
		}
		if len(text)+len(part) > most+1 { // one more, for a carriage return
			text, huge = nil, true
		}
		if !huge {
			text = append(text, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && (err != io.EOF || !begun):
			return nil, false, err
		}
		text = bytes.TrimSuffix(text, []byte("\r"))
		if len(text) > most {
			text, huge = nil, true
		}
		return text, huge, nil
	}
}

// line takes a line of the program's.
func (p *proxy) line(l line) {
	text := bytes.TrimSpace(l.text)
	switch {
	case l.huge:
		p.refuse(nil, jsonrpc.InvalidRequest, fmt.Sprintf("a message may have %d MiB", maxMessage>>20))
	case len(text) == 0:
	case text[0] == '[' && json.Valid(text):
		// One revision has batches; each message of one is answered on its own.
		parts := jsonrpc.Elements(text)
		if len(parts) == 0 || len(parts) > maxBatch {
			p.refuse(nil, jsonrpc.InvalidRequest, fmt.Sprintf("a batch has 1 to %d messages", maxBatch))
			return
		}
		for _, part := range parts {
			p.message(part)
		}
	default:
		p.message(text)
	}
}

// message takes a message of the program's. What has no answer is carried to the
// server before the next message is looked at, and so is the first request; the
// others run beside each other.
func (p *proxy) message(text []byte) {
	m, err := jsonrpc.Parse(text)
	switch {
	case errors.Is(err, jsonrpc.ErrSyntax):
		p.refuse(nil, jsonrpc.ParseError, err.Error())
	case err != nil:
		p.refuse(m.ID, jsonrpc.InvalidRequest, err.Error())
	case m.Method == "notifications/cancelled" && m.Notice():
		p.cancelled(&m)
	case !m.Call():
		p.tell(&m)
		if m.Method == "notifications/initialized" {
			p.hear()
		}
	case m.Method == "initialize":
		p.write(p.initialize(&m))
	default:
		p.ask(&m)
	}
}

// refuse answers what is not carried to the server.
func (p *proxy) refuse(id json.RawMessage, code int, text string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	p.write(jsonrpc.AppendError(nil, id, &jsonrpc.Error{Code: code, Message: text}))
}

// write gives the program a message.
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

// ask lets the server answer a request.
func (p *proxy) ask(m *jsonrpc.Message) {
	ctx, cancel := context.WithCancel(p.ctx)
	a := &asked{cancel: cancel, method: m.Method, version: standsAlone(m)}
	p.mu.Lock()
	trouble := ""
	switch {
	case len(p.asked) >= maxAsked:
		trouble = "too many requests are running"
	case p.asked[string(m.ID)] != nil:
		trouble = "a request with this id is running already"
	default:
		p.asked[string(m.ID)] = a
	}
	p.mu.Unlock()
	if trouble != "" {
		cancel()
		p.refuse(m.ID, jsonrpc.InvalidRequest, trouble)
		return
	}
	p.asking.Go(func() {
		defer cancel()
		answer := p.fetch(ctx, m)
		// The request is over before its answer is out: the program may use the id
		// again as soon as it has that.
		p.mu.Lock()
		delete(p.asked, string(m.ID))
		gone := a.gone
		p.mu.Unlock()
		if !gone {
			p.write(answer)
		}
	})
}

// cancelled takes back a request. The server is told, and then hung up on, in
// case it was told before it had the request itself.
func (p *proxy) cancelled(m *jsonrpc.Message) {
	id := json.RawMessage(nil)
	for in := jsonrpc.Scan(m.Params); in.Next(); {
		if string(in.Key) == "requestId" {
			id = in.Value
		}
	}
	p.mu.Lock()
	a := p.asked[string(id)]
	if a != nil {
		a.gone = true
	}
	p.mu.Unlock()
	if a == nil {
		return // it is answered already
	}
	if a.version != "" { // without sessions, hanging up is all there is
		a.cancel()
		return
	}
	p.work.Go(func() {
		defer a.cancel()
		ctx, cancel := context.WithTimeout(p.ctx, farewell)
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
