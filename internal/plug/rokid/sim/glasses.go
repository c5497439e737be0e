// Package sim is a stand-in for Rokid glasses and for the Lingzhu cloud behind
// them: it posts turns to an agent's address as the platform does, reads the
// answer as the platform does, and says where the answer breaks the platform's
// rules. It is there for tests, for the demo and for trying a server out.
//
// What the platform does, seen in its traffic:
//
//   - One POST is one turn, and carries nothing of the turns before.
//   - message_id is the moment at which the wearer opened the agent, in
//     milliseconds. It is the same for all turns until the wearer opens it again,
//     for the photo that answers take_photo too.
//   - user_id is the wearer's account, the same for ever; agent_id is the
//     platform's own id of the agent, not what its form calls the agent's id.
//   - It accepts anything, as far as the Accept header goes.
package sim

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// userAgent is what the platform calls itself.
	userAgent = "ReactorNetty/1.1.13"
	// defaultTimeout is the longest time after which the platform was reported to
	// give up.
	defaultTimeout = time.Minute
	// closeGrace is how long a server may take to close a stream after done.
	closeGrace = 2 * time.Second
	// maxStream bounds an answer, in bytes. A long one has some hundred KiB.
	maxStream = 4 << 20
	// maxErrorBody bounds what is kept of the body of an HTTP error.
	maxErrorBody = 4 << 10
)

// Options describe a pair of glasses, and the agent that its wearer opened. Only
// URL is required. What is left empty gets an invented value.
type Options struct {
	// URL is the full address of the handler, such as
	// http://127.0.0.1:3000/sse/rokid.
	URL string
	// Key is the agent's AK. Without one there is no Authorization header.
	Key string
	// UserID is the wearer: 32 upper-case hex digits.
	UserID string
	// AgentID is the agent at the platform: 32 lower-case hex digits. With a bot's
	// number in it the glasses behave as the documents' examples.
	AgentID string

	// What the glasses tell about themselves.
	Lang                string // "zh-CN"
	Location            string
	Latitude, Longitude string
	Weather             string
	Battery             string // in percent, without the sign
	RunningApp          string // stays empty
	CompanyID           int    // 1

	// Client carries the requests. The default one sends no Accept-Encoding, as the
	// platform, and follows no redirect.
	Client *http.Client
	// Timeout is for a whole answer; 0 means a minute.
	Timeout time.Duration
	// ServeImages has photos fetched from a small server on 127.0.0.1. Otherwise
	// they are sent as data: addresses. The platform offers addresses.
	ServeImages bool
	// KeepRaw keeps the answers as they came.
	KeepRaw bool
}

// Glasses are one pair of glasses. The fields may be changed while nothing is
// asked; its methods may be used from several goroutines.
type Glasses struct {
	Options
	ownTransport *http.Transport // of the default client

	mu      sync.Mutex
	session int64 // message_id
	images  *imageServer
}

// New makes glasses, and opens a session.
func New(opt Options) *Glasses {
	fill(&opt.UserID, strings.ToUpper(randomHex()))
	fill(&opt.AgentID, randomHex())
	fill(&opt.Lang, "zh-CN")
	fill(&opt.Location, "杭州市西湖区")
	fill(&opt.Latitude, "30.25")
	fill(&opt.Longitude, "120.13")
	fill(&opt.Weather, "今天:晴 12~20℃\n明天:多云\n后天:小雨")
	fill(&opt.Battery, "28")
	if opt.CompanyID == 0 {
		opt.CompanyID = 1
	}
	if opt.Timeout <= 0 {
		opt.Timeout = defaultTimeout
	}
	g := &Glasses{Options: opt}
	if g.Client == nil {
		g.ownTransport = http.DefaultTransport.(*http.Transport).Clone()
		g.ownTransport.DisableCompression = true
		g.Client = &http.Client{
			Transport:     g.ownTransport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	g.NewSession()
	return g
}

func fill(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

// randomHex is 32 lower-case hex digits.
func randomHex() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // it never fails
	return hex.EncodeToString(b[:])
}

// Close ends what the glasses have running: the server of their photos and idle
// connections of the default client.
func (g *Glasses) Close() {
	g.mu.Lock()
	images := g.images
	g.images = nil
	g.mu.Unlock()
	if images != nil {
		images.close()
	}
	if g.ownTransport != nil {
		g.ownTransport.CloseIdleConnections()
	}
}

// NewSession opens the agent anew and returns the message_id of the turns to
// come, which no earlier session of these glasses had.
func (g *Glasses) NewSession() (messageID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.session = max(g.session+1, time.Now().UnixMilli())
	return strconv.FormatInt(g.session, 10)
}

// MessageID is the id of the present session.
func (g *Glasses) MessageID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strconv.FormatInt(g.session, 10)
}

// Ask says something to the agent and reads its answer. See [Glasses.Post] for
// each and for the error.
func (g *Glasses) Ask(ctx context.Context, text string, each func(Event)) (Answer, error) {
	return g.Post(ctx, g.body(message{Role: "user", Type: "text", Text: &text}), each)
}

// Photo sends a photo, encoded as WebP, PNG, JPEG or GIF, as it is taken when
// the agent asks for one: without a word.
func (g *Glasses) Photo(ctx context.Context, data []byte, each func(Event)) (Answer, error) {
	if !g.ServeImages {
		return g.PhotoURL(ctx, dataURI(data), each)
	}
	address, err := g.serveImage(data)
	if err != nil {
		return Answer{}, err
	}
	return g.PhotoURL(ctx, address, each)
}

// PhotoURL is Photo for one that can be found at an address.
func (g *Glasses) PhotoURL(ctx context.Context, address string, each func(Event)) (Answer, error) {
	return g.Post(ctx, g.body(message{Role: "user", Type: "image", ImageURL: &address}), each)
}

// StatusError is an answer that is no stream.
type StatusError struct {
	Code int    // of HTTP
	Body string // its first 4 KiB
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("HTTP status %d: %s", e.Code, e.Body)
}

var (
	errTimeout   = errors.New("the platform gave up")
	errNotClosed = errors.New("the stream stays open after done")
)

// Post sends a body as it is and reads the answer to it. The function each,
// which may be nil, is called for every event when it comes, from this goroutine.
//
// There is an error if no stream came: a *[StatusError], or what went wrong
// before; and if ctx ended, with what had come by then. Whatever is wrong with a
// stream, its end included, is among the answer's violations.
func (g *Glasses) Post(ctx context.Context, body []byte, each func(Event)) (Answer, error) {
	stream, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(g.Timeout, func() { cancel(errTimeout) }).Stop()

	r := newReader(body, each, func() *time.Timer {
		return time.AfterFunc(closeGrace, func() { cancel(errNotClosed) })
	})
	defer r.stop()
	resp, err := g.send(stream, body)
	if err != nil {
		if ctx.Err() == nil && context.Cause(stream) != nil {
			err = fmt.Errorf("no answer within %v: %w", g.Timeout, context.Cause(stream))
		}
		return r.answer, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		return r.answer, &StatusError{resp.StatusCode, strings.TrimSpace(string(text))}
	}
	r.checkContentType(resp.Header.Get("Content-Type"))
	err = r.read(resp.Body, g.KeepRaw)
	switch cause := context.Cause(stream); {
	case ctx.Err() != nil:
		r.checkStream()
		return r.answer, context.Cause(ctx)
	case err == nil:
	case errors.Is(cause, errTimeout):
		r.violation("no end within %v", g.Timeout)
	case cause != nil:
		r.violation("%v", cause)
	default:
		r.violation("the stream broke: %v", err)
	}
	r.checkStream()
	return r.answer, nil
}

func (g *Glasses) send(ctx context.Context, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if g.Key != "" {
		req.Header.Set("Authorization", "Bearer "+g.Key)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "*/*")
	req.Header.Set("Traceparent", "00-"+randomHex()+"-"+randomHex()[:16]+"-01")
	return g.Client.Do(req)
}
