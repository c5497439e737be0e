// Package sim simulates Rokid glasses and the Lingzhu cloud behind them. It posts turns to an
// agent's address as the platform does, reads the answer as the platform does, and reports where
// the answer violates the platform's rules. It is for tests, for the demo and for trying out a
// server.
//
// Behaviour of the platform, from request logs (a production log of 2026-02-27 in
// sengmitnick/eyeclaw at 9fa98ce; skill/extension/logs in jiehui87/lingzhu-skill at 055da8f):
//
//   - One POST is one turn, and contains nothing of earlier turns.
//   - message_id is the time at which the wearer opened the agent, in milliseconds since 1970. It
//     is the same for all turns until the wearer opens the agent again, also for the photo that
//     answers take_photo.
//   - user_id is the wearer's account and never changes. agent_id is the platform's own id of the
//     agent, not the agent id in the platform's form.
//   - The Accept header is */*.
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
	// userAgent is the platform's User-Agent (logs).
	userAgent = "ReactorNetty/1.1.13"
	// defaultTimeout is the longest reported timeout of the platform
	// (neochou/rokid-lingzhu-openclaw at b6070b0, CHANGELOG.md: "~30-60s").
	defaultTimeout = time.Minute
	// closeGrace is how long a server may take to close a stream after done.
	closeGrace = 2 * time.Second
	// maxStream limits an answer, in bytes. A long one has some hundred KiB.
	maxStream = 4 << 20
	// maxErrorBody limits how much of an HTTP error's body is kept, in bytes.
	maxErrorBody = 4 << 10
)

// Options describe a pair of glasses and the agent that its wearer opened. URL is required. Empty
// fields get invented values.
type Options struct {
	// URL is the address of the handler, such as http://127.0.0.1:3000/sse/rokid.
	URL string
	// Key is the agent's AK. If it is empty, no Authorization header is sent.
	Key string
	// UserID is the wearer's id: 32 upper-case hex digits.
	UserID string
	// AgentID is the platform's id of the agent: 32 lower-case hex digits. With a bot number,
	// requests are like those in the documentation's examples.
	AgentID string

	// Metadata that the glasses send.
	Lang                string // "zh-CN"
	Location            string
	Latitude, Longitude string
	Weather             string
	Battery             string // in percent, without the sign
	RunningApp          string // empty in the logs
	CompanyID           int    // 1 in the logs

	// Client sends the requests. The default client sends no Accept-Encoding and follows no
	// redirect.
	Client *http.Client
	// Timeout limits a whole answer; 0 means a minute.
	Timeout time.Duration
	// ServeImages serves photos from a small server on 127.0.0.1, as the platform sends addresses.
	// Otherwise they are sent as data: URIs.
	ServeImages bool
	// KeepRaw keeps the answers as received.
	KeepRaw bool
}

// Glasses are one pair of glasses. The fields may be changed while no request runs; the methods may
// be used from several goroutines.
type Glasses struct {
	Options
	ownTransport *http.Transport // of the default client

	mu      sync.Mutex
	session int64 // message_id
	images  *imageServer
}

// New returns glasses with an open session.
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

// randomHex returns 32 lower-case hex digits.
func randomHex() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // it never fails
	return hex.EncodeToString(b[:])
}

// Close stops the server of the photos and closes idle connections of the default client.
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

// NewSession opens the agent again and returns the message_id of the following turns, which no
// earlier session of these glasses had.
func (g *Glasses) NewSession() (messageID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.session = max(g.session+1, time.Now().UnixMilli())
	return strconv.FormatInt(g.session, 10)
}

// MessageID returns the id of the current session.
func (g *Glasses) MessageID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strconv.FormatInt(g.session, 10)
}

// Ask sends a text to the agent and reads the answer. See [Glasses.Post] for each and for the
// error.
func (g *Glasses) Ask(ctx context.Context, text string, each func(Event)) (Answer, error) {
	return g.Post(ctx, g.body(message{Role: "user", Type: "text", Text: &text}), each)
}

// Photo sends a photo, encoded as WebP, PNG, JPEG or GIF, without text, as when the agent has asked
// for one.
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

// PhotoURL is like Photo for a photo at an address.
func (g *Glasses) PhotoURL(ctx context.Context, address string, each func(Event)) (Answer, error) {
	return g.Post(ctx, g.body(message{Role: "user", Type: "image", ImageURL: &address}), each)
}

// StatusError is a response that is not a stream.
type StatusError struct {
	Code int    // HTTP status
	Body string // the first 4 KiB
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("HTTP status %d: %s", e.Code, e.Body)
}

var (
	errTimeout   = errors.New("the platform gave up")
	errNotClosed = errors.New("the stream stays open after done")
)

// Post sends a body unchanged and reads the answer. It calls each, which may be nil, for every
// event as it arrives, on this goroutine.
//
// It returns an error if there is no stream: a *[StatusError] or an earlier error; and if ctx has
// ended, together with what had arrived by then. Problems of a stream, its end included, are
// violations of the answer.
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
