package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/config"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines"
)

// voice returns who answers people who talk to a board.
func (v *voiceBoards) voice(c *config.Config) (xiaozhi.Voice, error) {
	switch c.XiaoZhi.Voice {
	case "off":
		return nil, nil
	case "repeat":
		return xiaozhi.EchoVoice{}, nil
	}
	links, err := speechEngines(c.Speech, engine.Options{Logger: v.log})
	if err != nil {
		return nil, err
	}
	if len(links) == 0 {
		return xiaozhi.EchoVoice{}, nil
	}
	v.observe(links)
	chain := &engine.Chain{Links: links}
	return xiaozhi.Dialogue{Engines: func(store.Device) *engine.Chain { return chain }}, nil
}

// speechEngines returns the engines of the configuration. Their addresses are the operator's, so
// any is allowed.
func speechEngines(s config.Speech, o engine.Options) (links []engine.Link, err error) {
	add := func(name string, settings engines.Settings) {
		if settings.Address == "" || err != nil {
			return
		}
		settings.ListenModel, settings.SpeakModel, settings.Voice, settings.Format =
			s.ListenModel, s.SpeakModel, s.Voice, s.Format
		e, openErr := engines.Open(settings, o)
		if openErr != nil {
			err = fmt.Errorf("%s: %w", name, openErr)
			return
		}
		links = append(links, engine.Link{Name: name, Engine: e, Circuit: new(engine.Circuit)})
	}
	add("speech.url", engines.Settings{Address: s.URL, Key: s.Key, NoSpeaking: s.SpeakURL != ""})
	add("speech.speak_url", engines.Settings{Address: s.SpeakURL, Key: s.SpeakKey, NoListening: true})
	return links, err
}

// checkSpeech checks the speech engines.
func (e *examination) checkSpeech(ctx context.Context) {
	links, err := speechEngines(e.settings.Speech, engine.Options{})
	if err != nil {
		e.Error(engines.CheckName.With("speech.url"), err, engines.AdviceAddress.With("speech.url"))
		return
	}
	for _, l := range links {
		engines.Check(ctx, e.Report, l.Name, l.Engine)
	}
}

// observe counts and logs the failures of engines.
func (v *voiceBoards) observe(links []engine.Link) {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_speech_failures_total",
		Help: "Failures of speech engines, by what they should do and why."}, []string{"engine", "stage", "class"})
	if v.reg != nil {
		v.reg.MustRegister(failures)
	}
	for i := range links {
		name := links[i].Name
		links[i].OnFailure = func(stage string, err *engine.Error) {
			failures.WithLabelValues(name, stage, string(err.Class)).Inc()
			v.log.Warn("a speech engine failed", "engine", name, "stage", stage, "error", err,
				"retry_after", err.RetryAfter.Round(time.Second))
		}
	}
}
