package cli

import (
	"strconv"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/sim"
)

// boardFigures are the figures of one board or many in the JSON output. Times are in milliseconds.
type boardFigures struct {
	Boards        int              `json:"boards"`
	Boots         int              `json:"boots"`
	CallHome      spread           `json:"call_home_ms"`
	Conversations int              `json:"conversations"`
	Hello         spread           `json:"hello_ms"`
	Answers       int              `json:"answers"`
	FirstSound    spread           `json:"first_sound_ms"`
	Sent          int              `json:"packets_sent"`
	Received      int              `json:"packets_received"`
	Unsent        int              `json:"packets_not_sent"`
	Dropped       int              `json:"packets_dropped"`
	Underruns     int              `json:"underruns"`
	UnderrunTime  float64          `json:"underruns_ms"`
	Interval      spread           `json:"interval_ms"`
	Jitter        spread           `json:"jitter_ms"`
	MaxAhead      float64          `json:"most_packets_ahead"`
	Calls         int              `json:"calls"`
	Photos        int              `json:"photos"`
	Notices       int              `json:"notifications"`
	Failed        int              `json:"failed"` // boards that did not start, and questions without an answer
	Violations    []boardViolation `json:"violations,omitempty"`
}

type boardViolation struct {
	Check string `json:"check,omitempty"`
	What  string `json:"what"`
	Times int    `json:"times"`
}

// spread holds percentiles: 50 %, 95 %, 99 % and the maximum.
type spread struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spreadOf(at func(part float64) time.Duration) spread {
	return spread{millis(at(.5)), millis(at(.95)), millis(at(.99)), millis(at(1))}
}

func spreadIn(list []time.Duration) spread {
	return spreadOf(func(part float64) time.Duration { return sim.Quantile(list, part) })
}

func figuresOf(t *sim.Total) boardFigures {
	f := boardFigures{
		Boards: t.Boards, Boots: t.Boots, CallHome: spreadIn(t.OTATimes), Conversations: t.Hellos,
		Hello: spreadIn(t.HelloTimes),
		Sent:  t.Sent, Received: t.Received, Unsent: t.SendDropped,
		Dropped:   t.DroppedState + t.DroppedQueue + t.DroppedReset,
		Underruns: t.Underruns, UnderrunTime: millis(t.UnderrunTime), Interval: spreadOf(t.Interval),
		Jitter: spreadOf(t.Jitter), MaxAhead: t.MaxAhead,
		Calls: t.Calls, Photos: t.Photos, Notices: t.Notifications,
	}
	for _, v := range t.Violations {
		f.Violations = append(f.Violations, boardViolation(v))
	}
	return f
}

const (
	msgRowBoards  = i18n.Message("boards")
	msgRowHome    = i18n.Message("configuration requests")
	msgRowHello   = i18n.Message("hellos")
	msgRowAnswers = i18n.Message("answers")
	msgRowSent    = i18n.Message("packets sent")
	msgRowCame    = i18n.Message("packets received")
	msgRowGap     = i18n.Message("between packets")
	msgRowJitter  = i18n.Message("jitter")
	msgRowCalls   = i18n.Message("calls")
	msgRowFailed  = i18n.Message("failed")

	msgSpread   = i18n.Message("p50 %s, p95 %s, p99 %s, max %s")
	msgUnsent   = i18n.Message("%d more could not be sent")
	msgDroppeds = i18n.Message("%d dropped, %d underruns")
	msgPhotosOf = i18n.Message("%d photos, %d notifications")
)

// figures prints the figures as a table.
func (sh *shell) figures(f *boardFigures) {
	ms := func(v float64) string { return took(time.Duration(v * float64(time.Millisecond))) }
	wide := func(s spread) string { return msgSpread.In(sh.lang, ms(s.P50), ms(s.P95), ms(s.P99), ms(s.Max)) }
	rows := [][]string{
		{msgRowHome.In(sh.lang), strconv.Itoa(f.Boots), wide(f.CallHome)},
		{msgRowHello.In(sh.lang), strconv.Itoa(f.Conversations), wide(f.Hello)},
		{msgRowAnswers.In(sh.lang), strconv.Itoa(f.Answers), wide(f.FirstSound)},
		{msgRowSent.In(sh.lang), strconv.Itoa(f.Sent), msgUnsent.In(sh.lang, f.Unsent)},
		{msgRowCame.In(sh.lang), strconv.Itoa(f.Received), msgDroppeds.In(sh.lang, f.Dropped, f.Underruns)},
	}
	if f.Received > 0 {
		rows = append(rows, []string{msgRowGap.In(sh.lang), "", wide(f.Interval)},
			[]string{msgRowJitter.In(sh.lang), "", wide(f.Jitter)})
	}
	rows = append(rows, []string{msgRowCalls.In(sh.lang), strconv.Itoa(f.Calls),
		msgPhotosOf.In(sh.lang, f.Photos, f.Notices)})
	if f.Boards > 1 {
		rows = append([][]string{{msgRowBoards.In(sh.lang), strconv.Itoa(f.Boards), ""}}, rows...)
		rows = append(rows, []string{msgRowFailed.In(sh.lang), strconv.Itoa(f.Failed), ""})
	}
	sh.grid("", rows)
}

// boardReport is the result of one board in the JSON output.
type boardReport struct {
	MAC    string       `json:"mac"`
	UUID   string       `json:"uuid"`
	Heard  string       `json:"heard,omitempty"` // speech recognised by the server
	Said   []string     `json:"said,omitempty"`
	Played float64      `json:"played_seconds,omitempty"`
	Saw    boardFigures `json:"report"`
	Checks []checkRow   `json:"checks,omitempty"`
}

// reported returns the result of the board.
func (b *desktopBoard) reported() boardReport {
	var t sim.Total
	t.Add(b.Report())
	r := boardReport{MAC: b.MAC(), UUID: b.UUID(), Saw: figuresOf(&t)}
	r.Saw.Answers = b.View().Answers
	return r
}

// report prints the result of the board; a is the answer to the only question, or nil.
func (b *desktopBoard) report(a *sim.Answer) error {
	r := b.reported()
	if a != nil {
		r.Heard, r.Said, r.Played = a.Transcript, a.Sentences, playedSeconds(*a)
		if a.FirstAudio > 0 {
			r.Saw.FirstSound = spreadIn([]time.Duration{a.FirstAudio})
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sh.result(r, func() {
		if b.cmd.Verbose {
			b.sh.figures(&r.Saw)
		}
	})
}
