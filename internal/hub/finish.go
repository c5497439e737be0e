package hub

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/store"
)

// writeTimeout limits how long the end of an answer waits for the database. After that the asker is
// released, and the log has what is still to be written.
const writeTimeout = 20 * time.Second

// pushTimeout limits the delivery of a late answer.
const pushTimeout = 30 * time.Second

// finish stores a trace and an exchange, and that earlier answers were delivered. The error is
// [errNotSaved].
func (h *Hub) finish(tr store.Trace, e *store.Exchange, heard []store.Exchange) error {
	h.metrics.turn(tr)
	err := h.turnJournal.save(&turnEnd{Trace: &tr, Exchange: e, Delivered: turnIDs(heard)})
	h.records.notify()
	if tr.Outcome == outcomeFailed {
		h.Logger.Info("a turn failed", "turn", tr.Turn, "bot", tr.Bot, "channel", tr.Channel, "code", tr.Code,
			"cause", tr.Cause)
	}
	return err
}

func turnIDs(list []store.Exchange) (turns []string) {
	for _, e := range list {
		turns = append(turns, e.Turn)
	}
	return turns
}

// SaveFailing reports whether the end of the last turn could not be stored, neither in the database
// nor on the disk.
func (h *Hub) SaveFailing() bool { return h.turnJournal.failing() }

// ResetSaveFailing records that storing works again. Otherwise only the next turn would show it,
// and an instance that is not ready may get none.
func (h *Hub) ResetSaveFailing() { h.turnJournal.saveFailed.Store(false) }

// markDelivered records that late answers were delivered.
func (h *Hub) markDelivered(ctx context.Context, late []store.Exchange) {
	for _, x := range late {
		if err := h.Store.Conversations.MarkDelivered(ctx, x.Turn); err != nil {
			h.Logger.Error("a late answer may be told twice", "turn", x.Turn, "error", err)
		}
	}
}

// pushLate delivers a late answer if its channel supports that.
func (h *Hub) pushLate(bot store.Bot, l Late) {
	h.metrics.late.Inc()
	h.mu.Lock()
	push := h.push[l.Turn.Channel]
	h.mu.Unlock()
	if push == nil {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, pushTimeout)
	defer cancel()
	if err := push(ctx, bot, l); err != nil {
		h.Logger.Info("a late answer waits for the next turn", "turn", l.Turn.ID, "bot", bot.Number, "reason", err)
		return
	}
	if err := h.Store.Conversations.MarkDelivered(context.WithoutCancel(ctx), l.Turn.ID); err != nil {
		h.Logger.Error("a late answer may be told twice", "turn", l.Turn.ID, "error", err)
	}
}

type metrics struct {
	turns   *prometheus.CounterVec
	refused *prometheus.CounterVec
	pieces  prometheus.Counter
	first   *prometheus.HistogramVec
	total   *prometheus.HistogramVec
	late    prometheus.Counter
	called  *prometheus.CounterVec
	took    *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer, running func() float64) metrics {
	seconds := []float64{.05, .1, .25, .5, 1, 2, 5, 10, 20, 40, 60, 120}
	m := metrics{
		turns: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_turns_total",
			Help: "Turns that ended, as their asker saw it."}, []string{"channel", "kind", "outcome", "code"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_turns_refused_total",
			Help: "Turns that were not begun."}, []string{"channel", "code"}),
		pieces: prometheus.NewCounter(prometheus.CounterOpts{Name: "patchbay_pieces_total",
			Help: "Pieces of answers."}),
		first: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "patchbay_turn_first_piece_seconds",
			Help: "Time to the first piece of an answer.", Buckets: seconds}, []string{"kind"}),
		total: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "patchbay_turn_seconds",
			Help: "Time to the end of an answer.", Buckets: seconds}, []string{"kind"}),
		late: prometheus.NewCounter(prometheus.CounterOpts{Name: "patchbay_late_answers_total",
			Help: "Answers that came when their asker had gone."}),
	}
	m.called = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_calls_total",
		Help: "Calls of tools that ended."}, []string{"channel", "kind", "outcome", "code"})
	m.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "patchbay_call_seconds",
		Help: "Time that calls of tools took.", Buckets: append([]float64{.0001, .001, .01}, seconds...)},
		[]string{"kind"})
	reg.MustRegister(m.called, m.took)
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_turns_running",
		Help: "Turns that are being answered, those that nobody waits for any more too."}, running))
	reg.MustRegister(m.turns, m.refused, m.pieces, m.first, m.total, m.late)
	return m
}

func (m *metrics) turn(tr store.Trace) {
	m.turns.WithLabelValues(tr.Channel, tr.Kind, tr.Outcome, tr.Code).Inc()
	m.pieces.Add(float64(tr.Pieces))
	if tr.First > 0 {
		m.first.WithLabelValues(tr.Kind).Observe(tr.First.Seconds())
	}
	m.total.WithLabelValues(tr.Kind).Observe(tr.Total.Seconds())
}

func (m *metrics) call(c store.Call, kind string) {
	m.called.WithLabelValues(c.Channel, kind, c.Outcome, c.Code).Inc()
	if c.Outcome != callRefused {
		m.took.WithLabelValues(kind).Observe(c.Took.Seconds())
	}
}
