// Package volcengine is a speech engine with the services of Volcengine (Doubao): recognition while
// somebody speaks, and speech while the text is written (volcengine.com/docs/6561/1354869 and
// 6561/1329505).
//
// An utterance has a connection of its own. Speech is a session; its connection serves one session
// after another and waits between them.
package volcengine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
	"patchbay/internal/voice/engines/volcengine/wire"
)

const (
	// connectTime limits how long a connection takes, and startTime the wait for the beginning of
	// a session.
	connectTime = 3 * time.Second
	startTime   = 3 * time.Second
)

// Paths of the services. That of recognition answers when a text has changed.
const (
	listenPath = "/api/v3/sauc/bigmodel_async"
	speakPath  = "/api/v3/tts/bidirection"
)

// client is what listening and speaking share.
type client struct {
	settings      Settings
	secrets       []string
	listen, speak socket.Server
	log           *slog.Logger
	speaking      socket.Pool
}

// New returns an engine. It does not connect. The error is that of [Settings.Validate].
func New(s Settings, o engine.Options) (engine.Engine, error) {
	if err := s.Validate(); err != nil {
		return engine.Engine{}, err
	}
	o = o.WithDefaults()
	c := &client{settings: s, log: o.Logger, secrets: []string{s.AccessKey, s.AppKey}}
	for _, of := range []struct {
		server         *socket.Server
		path, resource string
	}{
		{&c.listen, listenPath, orDefault(s.ListenModel, DefaultListenModel)},
		{&c.speak, speakPath, orDefault(s.SpeakModel, DefaultSpeakModel)},
	} {
		address, err := s.address(of.path)
		if err != nil {
			return engine.Engine{}, err
		}
		*of.server = socket.Server{URL: address, Dial: o.Dial, Timeout: connectTime, Secrets: c.secrets,
			Header: http.Header{"X-Api-App-Key": {s.AppKey}, "X-Api-Resource-Id": {of.resource},
				"User-Agent": {"patchbay"}}}
		if s.AccessKey != "" {
			of.server.Header.Set("X-Api-Access-Key", s.AccessKey)
		}
	}
	// Has the last event of a session tell what is billed (volcengine.com/docs/6561/1329505).
	c.speak.Header.Set("X-Control-Require-Usage-Tokens-Return", "*")
	c.speaking.Open = c.connect
	return engine.Engine{Listener: engine.ListenLive(c.recognise), Speaker: newSpeaker(c),
		Release: c.speaking.Close}, nil
}

// open opens a connection with an id of its own.
func open(ctx context.Context, s socket.Server) (*socket.Conn, error) {
	s.Header = s.Header.Clone()
	s.Header.Set("X-Api-Connect-Id", newID())
	return s.Open(ctx)
}

// newID returns a random UUID (RFC 9562, 5.4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// message returns a frame as a message.
func message(f wire.Frame) socket.Message { return socket.Message{Binary: true, Data: f.Append(nil)} }

// parse parses a message. The error of a frame with an error is its own.
func (c *client) parse(m socket.Message) (wire.Frame, error) {
	if !m.Binary {
		return wire.Frame{}, engine.Errorf(engine.Broken, "a message of the service is no frame")
	}
	f, err := wire.Parse(m.Data)
	if err != nil {
		return f, engine.Errorf(engine.Broken, "a message of the service: %w", err)
	}
	if f.Type == wire.ErrorResponse {
		return f, c.failure(f.Code, f.Payload)
	}
	return f, nil
}

// Codes (volcengine.com/docs/6561/1354869, error codes).
const (
	codeOK        = 20000000
	codeSilence   = 20000003
	codeNoSpeech  = 1013
	codeNoPacket  = 45000081 // the client sent nothing in time
	codeBusy      = 55000031
	clientFailure = 45 // the first two digits
)

// failure is the error with a code. Its text is what the service says.
func (c *client) failure(code uint32, payload []byte) *engine.Error {
	text := engine.Quote(payload, c.secrets...)
	class := engine.Broken
	switch {
	case code == codeBusy:
		class = engine.Busy
	case code == codeNoPacket:
		class = engine.Timeout
	case strings.Contains(strings.ToLower(text), "quota"):
		class = engine.Quota
	case code/1000000 == clientFailure:
		class = engine.Input
	}
	return engine.Errorf(class, "code %d: %s", code, text)
}

// failed logs an error, unless the use was broken off. The service's log id helps its support.
func (c *client) failed(ctx context.Context, conn *socket.Conn, err error) {
	if ctx.Err() != nil {
		return
	}
	var header http.Header
	if conn != nil {
		header = conn.Header
	} else if e, ok := errors.AsType[*socket.StatusError](err); ok {
		header = e.Header
	}
	c.log.Debug("volcengine: the engine failed", "host", c.speak.URL.Host, "log_id", header.Get("X-Tt-Logid"),
		"error", err)
}
