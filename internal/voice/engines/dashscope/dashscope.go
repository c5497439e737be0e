// Package dashscope is a speech engine with the tasks of Alibaba Cloud Model Studio: Paraformer,
// Fun-ASR and Gummy listen, CosyVoice speaks.
//
// A task is an utterance or a speech. It runs on a WebSocket, which serves one task after another
// and waits between them, so that the next one need not wait for a connection.
package dashscope

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
)

// connectTime limits how long a connection takes.
const connectTime = 3 * time.Second

// client is what listening and speaking share.
type client struct {
	settings            Settings
	host                string
	log                 *slog.Logger
	listening, speaking socket.Pool
}

// New returns an engine. It does not connect. The error is that of [Settings.Validate].
func New(s Settings, o engine.Options) (engine.Engine, error) {
	if err := s.Validate(); err != nil {
		return engine.Engine{}, err
	}
	address, err := s.address()
	if err != nil {
		return engine.Engine{}, err
	}
	o = o.WithDefaults()
	server := &socket.Server{URL: address, Dial: o.Dial, Timeout: connectTime, Secrets: []string{s.APIKey},
		Header: http.Header{"Authorization": {"Bearer " + s.APIKey}, "User-Agent": {"patchbay"}}}
	c := &client{settings: s, host: address.Host, log: o.Logger}
	// Nothing says that a connection may change between recognition and speech.
	c.listening.Open, c.speaking.Open = server.Open, server.Open
	format := engine.PCM
	if s.Format == Opus {
		format = engine.OggOpus
	}
	return engine.Engine{Listener: &listener{c}, Speaker: &speaker{c, format}, Release: func() {
		c.listening.Close()
		c.speaking.Close()
	}}, nil
}

// failed logs an error, unless the use was broken off.
func (c *client) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		c.log.Debug("dashscope: the engine failed", "host", c.host, "error", err)
	}
}
