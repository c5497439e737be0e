package app

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/control"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines"
)

// speechMetrics count and time what engines do.
type speechMetrics struct {
	failures          *prometheus.CounterVec
	seconds           *prometheus.HistogramVec
	heard, characters *prometheus.CounterVec
	refusals          *prometheus.CounterVec
}

// newSpeechMetrics registers the metrics; reg may be nil.
func newSpeechMetrics(reg prometheus.Registerer) speechMetrics {
	m := speechMetrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_speech_failures_total",
			Help: "Failures of speech engines, by what they should do and why."}, []string{"engine", "stage", "class"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "patchbay_speech_seconds",
			Help:    "How long speech engines took: from the end of speech to its text, and from a sentence to its sound.",
			Buckets: []float64{.05, .1, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 8}}, []string{"engine", "stage"}),
		heard: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_speech_heard_seconds_total",
			Help: "Sound of boards that speech engines got."}, []string{"engine"}),
		characters: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_speech_characters_total",
			Help: "Characters that speech engines got to speak on boards."}, []string{"engine"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_speech_refusals_total",
			Help: "What was said to boards, or was to be said by them, when a limit of the day was reached."},
			[]string{"limit"}),
	}
	if reg != nil {
		reg.MustRegister(m.failures, m.seconds, m.heard, m.characters, m.refusals)
	}
	return m
}

// maxTimes is how many uses of an engine count for its percentiles.
const maxTimes = 100

// lastTimes are how long the last uses of an engine took. The zero value is ready.
type lastTimes struct {
	times []time.Duration
	next  int // where the next one goes, once there are maxTimes
}

func (l *lastTimes) add(took time.Duration) {
	if len(l.times) < maxTimes {
		l.times = append(l.times, took)
		return
	}
	l.times[l.next] = took
	l.next = (l.next + 1) % maxTimes
}

// percentiles returns the median and the 95th percentile, in milliseconds; 0: there are no uses.
func (l *lastTimes) percentiles() (median, p95 int64) {
	n := len(l.times)
	if n == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(l.times))
	at := func(share float64) int64 { return max(sorted[int(share*float64(n-1)+0.5)].Milliseconds(), 1) }
	return at(0.5), at(0.95)
}

// speechState is what is known of an engine since the start, or since its settings changed.
type speechState struct {
	mu       sync.Mutex
	listen   lastTimes
	speak    lastTimes
	last     *engine.Error
	failedAt time.Time
}

// succeeded notes how long a result took.
func (s *speechState) succeeded(stage string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stage == engine.StageSpeak {
		s.speak.add(took)
	} else {
		s.listen.add(took)
	}
}

func (s *speechState) failed(err *engine.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.failedAt = err, time.Now()
}

// spent returns the setting whose limit of the day is reached, or "".
func (e *speechEngine) spent() string {
	switch spent := e.link.Spent; {
	case spent == nil:
	case e.link.Listener != nil && spent(engine.StageListen) != nil:
		return dailyMinutes
	case e.link.Speaker != nil && spent(engine.StageSpeak) != nil:
		return dailyCharacters
	}
	return ""
}

// health returns the state of an engine for people.
func (e *speechEngine) health() (h control.EngineHealth) {
	if e.err != nil {
		return control.EngineHealth{State: control.EngineBroken, Problem: engines.Explain(e.err), Cause: e.err.Error()}
	}
	last, until, refused := e.link.Circuit.State()
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	h.ListenMS, h.ListenP95MS = e.state.listen.percentiles()
	h.SpeakMS, h.SpeakP95MS = e.state.speak.percentiles()
	if e.state.last != nil {
		h.Problem, h.Cause, h.FailedAt = engines.Explain(e.state.last), e.state.last.Err.Error(), e.state.failedAt
	}
	switch {
	case refused:
		h.State = control.EngineRefused
	case !until.IsZero():
		h.State, h.Until = control.EnginePaused, until
	case e.spent() != "":
		h.State = control.EngineSpent
	case last != nil:
		h.State = control.EngineFailing
	case h.ListenMS > 0 || h.SpeakMS > 0:
		h.State = control.EngineReady
	default:
		h.State = control.EngineUnused
	}
	return h
}
