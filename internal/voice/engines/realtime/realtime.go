// Package realtime is a listener and a speaker for realtime speech services: the transcription
// sessions of OpenAI, and Qwen-ASR and Qwen-TTS of Alibaba. Package
// patchbay/internal/voice/realtime has their events.
//
// Each utterance and each answer has a session of its own. Transcripts before the final one are
// partial.
package realtime

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"golang.org/x/text/language"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/realtime"
)

const (
	// pieceSamples is the sound in one event: 100 ms.
	pieceSamples = engine.Rate / 10
	// minSamples is how much sound a session gets at least. OpenAI refuses less than 100 ms (error
	// input_audio_buffer_commit_empty).
	minSamples = engine.Rate / 10
)

// limits are the times after which a service has failed.
type limits struct {
	connect time.Duration // until the WebSocket stands
	speech  time.Duration // until the end of the sound was sent
	result  time.Duration // without an event afterwards
	lost    time.Duration // to read why the service closed the connection, after a failed write
}

var defaultLimits = limits{connect: 3 * time.Second, speech: 2 * engine.MaxUtterance, result: 5 * time.Second,
	lost: 250 * time.Millisecond}

// service is a configured service.
type service struct {
	settings Settings
	options  realtime.Options
	log      *slog.Logger
	limits   limits
}

// New returns an engine. It does not connect. The error is that of [Settings.Validate].
func New(s Settings, o engine.Options) (engine.Engine, error) {
	v, err := newService(s, o)
	if err != nil {
		return engine.Engine{}, err
	}
	return v.engine(), nil
}

func newService(s Settings, o engine.Options) (*service, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	u, err := realtime.ParseURL(s.URL)
	if err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	v := &service{settings: s, log: o.Logger, limits: defaultLimits, options: realtime.Options{URL: u,
		Spelling: s.spelling(u), Key: s.APIKey, Headers: s.Headers, Dial: o.Dial}}
	if s.ResultTimeout > 0 {
		v.limits.result = time.Duration(s.ResultTimeout)
	}
	return v, nil
}

// engine returns the engine. Services like OpenAI's speak in conversations only.
func (v *service) engine() engine.Engine {
	e := engine.Engine{Listener: engine.ListenLive(v.listen)}
	if v.options.Spelling == realtime.Qwen {
		e.Speaker = engine.SpeakLive(v.speak)
	}
	return e
}

// open opens a session for a purpose.
func (v *service) open(ctx context.Context, model string, s *realtime.Session) (*realtime.Conn, error) {
	o := v.options
	o.Purpose, o.Model, o.Timeout = s.Purpose, model, v.limits.connect
	return realtime.Open(ctx, o, s)
}

// failed returns the error of a session for the engine's user, and logs it.
func (v *service) failed(ctx context.Context, stage string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	e := engine.AsError(err)
	v.log.Debug("realtime: the engine failed", "host", v.options.URL.Host, "stage", stage, "error", e)
	return e
}

var errSilent = engine.Errorf(engine.Timeout, "the service sent no result in time")

// language returns the language of an utterance or answer as a code of two or three letters, or "".
func (v *service) language(chosen string) string {
	tag, err := language.Parse(cmp.Or(chosen, v.settings.Language))
	if err != nil || tag == language.Und {
		return ""
	}
	base, _ := tag.Base()
	return base.String()
}
