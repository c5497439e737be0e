// Package stream is a listener for recognisers that take "configuration, PCM, end" over a
// WebSocket: FunASR, Vosk, and the streaming server of sherpa-onnx. They answer while somebody
// speaks, so the transcripts before the final one are partial.
//
// Each utterance has a connection of its own. It is opened in the background: what is said
// meanwhile is kept, and sent when the connection stands.
package stream

import (
	"log/slog"
	"net/http"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
)

// pieceSamples is the sound in one message: 60 ms. FunASR recognises after chunk_interval
// messages, which are chunk_size[1] × 60 ms of sound only if each has 60 ms
// (FunASR runtime/docs/websocket_protocol.md).
const pieceSamples = 60 * engine.Rate / 1000

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

// listener recognises utterances.
type listener struct {
	settings Settings
	server   socket.Server
	log      *slog.Logger
	limits   limits
}

// New returns an engine with a listener and no speaker. It does not connect. The error is that of
// [Settings.Validate].
func New(s Settings, o engine.Options) (engine.Engine, error) {
	l, err := newListener(s, o)
	if err != nil {
		return engine.Engine{}, err
	}
	return engine.Engine{Listener: engine.ListenLive(l.recognise)}, nil
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
	l := &listener{settings: s, log: o.Logger, limits: defaultLimits,
		server: socket.Server{URL: address, Header: http.Header{}, SkipTLSVerify: s.SkipTLSVerify, Dial: o.Dial}}
	if s.ResultTimeout > 0 {
		l.limits.result = time.Duration(s.ResultTimeout)
	}
	if s.APIKey != "" {
		l.server.Header.Set("Authorization", "Bearer "+s.APIKey)
	}
	for name, value := range s.Headers {
		l.server.Header.Set(name, value)
	}
	if s.Dialect == FunASR {
		l.server.Subprotocols = []string{funasrSubprotocol}
	}
	return l, nil
}
