package xiaozhi

import (
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/tool"
	"patchbay/internal/voice/pace"
)

type metrics struct {
	boards        *prometheus.GaugeVec
	conversations prometheus.Gauge
	listeners     prometheus.Gauge
	hello         prometheus.Histogram
	calls         prometheus.Histogram
	refused       *prometheus.CounterVec
	pushes        *prometheus.CounterVec
	packets       *prometheus.CounterVec
	timers        *prometheus.CounterVec
	queued        prometheus.Counter
	malformed     prometheus.Counter
	events        prometheus.Counter
	unsent        prometheus.Counter
	late, gaps    prometheus.Counter
	answers       *prometheus.CounterVec
	stages        *prometheus.HistogramVec
	drafts        *prometheus.CounterVec
	phrases       *prometheus.CounterVec
	recordings    *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help string, label ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, label)
	}
	m := &metrics{
		boards: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "patchbay_xiaozhi_boards",
			Help: "Voice boards that are connected, by how."}, []string{"via"}),
		conversations: prometheus.NewGauge(prometheus.GaugeOpts{Name: "patchbay_xiaozhi_conversations",
			Help: "Conversations with voice boards that go on."}),
		listeners: prometheus.NewGauge(prometheus.GaugeOpts{Name: "patchbay_xiaozhi_listeners",
			Help: "Owners who listen to what their boards hear."}),
		hello: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "patchbay_xiaozhi_hello_seconds",
			Help:    "From a board's connection, or its hello over MQTT, to the answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		calls: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "patchbay_xiaozhi_call_seconds", Help: "Calls of voice boards' own tools, with the wait for others.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
		refused: counters("patchbay_xiaozhi_refused_total", "Connections of voice boards that were refused, by why.",
			"reason"),
		pushes: counters("patchbay_xiaozhi_pushes_total",
			"What was pushed to voice boards, by kind and how it ended.", "kind", "outcome"),
		timers: counters("patchbay_xiaozhi_timers_total",
			"Timers of voice boards that were due, by whether they rang, wait for the board, or failed.", "outcome"),
		packets: counters("patchbay_xiaozhi_packets_total",
			"Packets of sound, from boards and to them, by what became of them; counted when conversations and answers end.", "way", "outcome"),
		queued:    counter("patchbay_xiaozhi_queued_pushes_total", "Pushes that wait, or waited, for a board to wake."),
		malformed: counter("patchbay_xiaozhi_malformed_messages_total", "Messages of voice boards that mean nothing."),
		events:    counter("patchbay_xiaozhi_notifications_total", "What voice boards told on their own."),
		unsent: counter("patchbay_xiaozhi_unsent_packets_total",
			"Packets for boards on MQTT that could not be sent."),
		late: counter("patchbay_xiaozhi_late_packets_total",
			"Packets that were sent to boards 20 ms after their time or later."),
		gaps: counter("patchbay_xiaozhi_gaps_total",
			"Times that a board had nothing to play in the middle of an answer."),
		answers: counters("patchbay_xiaozhi_answers_total",
			"Answers and sounds that were played on boards, by how they ended.", "outcome"),
	}
	m.stages = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "patchbay_xiaozhi_voice_seconds",
		Help:    "From the end of a question to a stage of its answer: transcript, first_sentence, first_sound.",
		Buckets: prometheus.ExponentialBuckets(0.025, 1.6, 16),
	}, []string{"stage"})
	m.drafts = counters("patchbay_xiaozhi_early_answers_total",
		"Answers that a bot began before the person had finished: used, or revised because they went on.", "outcome")
	m.phrases = counters("patchbay_xiaozhi_phrases_total",
		"Phrases that boards say again and again, by whether their sound was kept: hit or miss.", "outcome")
	m.recordings = counters("patchbay_xiaozhi_recordings_total",
		"Recorded turns of voice boards: kept, dropped because too many waited for the database, or without a record of the turn (no_turn).", "outcome")
	if reg != nil {
		reg.MustRegister(m.boards, m.conversations, m.listeners, m.hello, m.calls, m.refused, m.pushes, m.timers,
			m.drafts, m.phrases, m.packets, m.queued, m.malformed, m.events, m.unsent, m.late, m.gaps, m.answers,
			m.stages, m.recordings)
	}
	return m
}

// recordPush counts a push.
func (m *metrics) recordPush(kind string, err error) {
	outcome := "done"
	if err != nil {
		outcome = string(tool.AsError(err).Code)
		if err == errNoConversation {
			outcome = "asleep"
		}
	}
	m.pushes.WithLabelValues(kind, outcome).Inc()
}

// recordPlayed counts a playback.
func (m *metrics) recordPlayed(s pace.Stats, aborted bool) {
	outcome := "whole"
	if aborted {
		outcome = "aborted"
	}
	m.answers.WithLabelValues(outcome).Inc()
	m.packets.WithLabelValues("down", "sent").Add(float64(s.Frames))
	m.late.Add(float64(s.Late))
	m.gaps.Add(float64(s.Gaps))
}

// recordReceived counts the packets received in a conversation that has ended.
func (m *metrics) recordReceived(c *conversationStats) {
	m.packets.WithLabelValues("up", "taken").Add(float64(max(0, c.Up.Packets-c.Up.Dropped)))
	m.packets.WithLabelValues("up", "dropped").Add(float64(c.Up.Dropped))
	m.packets.WithLabelValues("up", "malformed").Add(float64(c.Up.Malformed))
	m.packets.WithLabelValues("up", "missing").Add(float64(max(0, c.Up.Missing)))
}
