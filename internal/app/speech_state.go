package app

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/control"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines"
)

// speechMetrics count and time what engines do.
type speechMetrics struct {
	failures *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// newSpeechMetrics registers the metrics; reg may be nil.
func newSpeechMetrics(reg prometheus.Registerer) speechMetrics {
	m := speechMetrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_speech_failures_total",
			Help: "Failures of speech engines, by what they should do and why."}, []string{"engine", "stage", "class"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "patchbay_speech_seconds",
			Help:    "How long speech engines took: from the end of speech to its text, and from a sentence to its sound.",
			Buckets: []float64{.05, .1, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 8}}, []string{"engine", "stage"}),
	}
	if reg != nil {
		reg.MustRegister(m.failures, m.seconds)
	}
	return m
}

// speechState is what is known of an engine since the start, or since its settings changed.
type speechState struct {
	mu       sync.Mutex
	listen   time.Duration // of the last results, averaged; 0: none yet
	speak    time.Duration
	last     *engine.Error
	failedAt time.Time
}

// succeeded notes how long a result took.
func (s *speechState) succeeded(stage string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	average := &s.listen
	if stage == engine.StageSpeak {
		average = &s.speak
	}
	if *average == 0 {
		*average = took
	}
	*average += (took - *average) / 8 // the last results count most
}

func (s *speechState) failed(err *engine.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.failedAt = err, time.Now()
}

// health returns the state of an engine for people.
func (e *speechEngine) health() (h control.EngineHealth) {
	if e.err != nil {
		return control.EngineHealth{State: control.EngineBroken, Problem: engines.Explain(e.err), Cause: e.err.Error()}
	}
	last, until, refused := e.link.Circuit.State()
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	h.ListenMS, h.SpeakMS = e.state.listen.Milliseconds(), e.state.speak.Milliseconds()
	if e.state.last != nil {
		h.Problem, h.Cause, h.FailedAt = engines.Explain(e.state.last), e.state.last.Err.Error(), e.state.failedAt
	}
	switch {
	case refused:
		h.State = control.EngineRefused
	case !until.IsZero():
		h.State, h.Until = control.EnginePaused, until
	case last != nil:
		h.State = control.EngineFailing
	case h.ListenMS > 0 || h.SpeakMS > 0:
		h.State = control.EngineReady
	default:
		h.State = control.EngineUnused
	}
	return h
}
