// Package stream is a listener for recognisers that take "configuration, PCM, end" over a
// WebSocket: FunASR, Vosk, and the streaming server of sherpa-onnx. They answer while somebody
// speaks, so the transcripts before the final one are partial.
//
// Each utterance has a connection of its own. It is opened in the background: what is said
// meanwhile is kept, and sent when the connection stands.
package stream

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/voice/engine"
)

const (
	// maxMessage limits a message of the server, in bytes. Results have a few hundred, and those
	// with the times of each word some 10 KiB.
	maxMessage = 1 << 20
	// maxSamples is engine.MaxUtterance, in samples.
	maxSamples = int(engine.MaxUtterance * engine.Rate / time.Second)
	// pieceSamples is the sound in one message: 60 ms. FunASR recognises after chunk_interval
	// messages, which are chunk_size[1] × 60 ms of sound only if each has 60 ms
	// (FunASR runtime/docs/websocket_protocol.md).
	pieceSamples = 60 * engine.Rate / 1000
)

// limits are the times after which an engine has failed.
type limits struct {
	connect time.Duration // until the WebSocket stands
	write   time.Duration // of one message
	speech  time.Duration // without a message, until the end of the sound was sent
	result  time.Duration // without a message afterwards
	silence time.Duration // without a message afterwards, if that means that there is no more
	lost    time.Duration // to read why the server closed the connection, after a failed write
}

// defaultLimits let another engine take over within seconds. While somebody speaks, silence is
// normal: FunASR's offline mode answers only at the end.
var defaultLimits = limits{connect: 3 * time.Second, write: 3 * time.Second, speech: 2 * engine.MaxUtterance,
	result: 5 * time.Second, silence: 2 * time.Second, lost: 250 * time.Millisecond}

// listener implements [engine.Listener].
type listener struct {
	settings     Settings
	address      *url.URL
	header       http.Header
	subprotocols []string
	tls          *tls.Config // nil for ws
	dial         func(ctx context.Context, network, address string) (net.Conn, error)
	log          *slog.Logger
	limits       limits
}

// New returns an engine with a listener and no speaker. It does not connect. The error is that of
// [Settings.Validate].
func New(s Settings, o engine.Options) (engine.Engine, error) {
	l, err := newListener(s, o)
	if err != nil {
		return engine.Engine{}, err
	}
	return engine.Engine{Listener: l}, nil
}

func newListener(s Settings, o engine.Options) (*listener, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	address, err := parseURL(s.URL)
	if err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	l := &listener{settings: s, address: address, header: http.Header{}, dial: o.Dial, log: o.Logger,
		limits: defaultLimits}
	if s.ResultTimeout > 0 {
		l.limits.result = time.Duration(s.ResultTimeout)
	}
	if s.APIKey != "" {
		l.header.Set("Authorization", "Bearer "+s.APIKey)
	}
	for name, value := range s.Headers {
		l.header.Set(name, value)
	}
	if s.Dialect == FunASR {
		l.subprotocols = []string{funasrSubprotocol}
	}
	if address.Scheme == "wss" {
		l.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: address.Hostname(),
			InsecureSkipVerify: s.SkipTLSVerify} //nolint:gosec // a decision of the owner
	}
	return l, nil
}

// Listen implements [engine.Listener]. It does not wait for the connection.
func (l *listener) Listen(ctx context.Context, h engine.Hints) (engine.Utterance, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	u := &utterance{l: l, wire: l.newDialect(h), wake: make(chan struct{}, 1), news: make(chan struct{}, 1),
		done: make(chan struct{})}
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	go u.run()
	return u, nil
}

// host returns the host with its port.
func (l *listener) host() string {
	if l.address.Port() != "" {
		return l.address.Host
	}
	port := "80"
	if strings.EqualFold(l.address.Scheme, "wss") {
		port = "443"
	}
	return net.JoinHostPort(l.address.Hostname(), port)
}
