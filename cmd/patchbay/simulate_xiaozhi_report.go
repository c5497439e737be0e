package main

import (
	"strconv"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/talk"
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

var (
	sayRowBoards  = talk.Say{Zh: "设备", En: "boards"}
	sayRowHome    = talk.Say{Zh: "上线请求", En: "calls home"}
	sayRowHello   = talk.Say{Zh: "会话握手", En: "hellos"}
	sayRowAnswers = talk.Say{Zh: "回答", En: "answers"}
	sayRowSent    = talk.Say{Zh: "发出的包", En: "packets sent"}
	sayRowCame    = talk.Say{Zh: "收到的包", En: "packets received"}
	sayRowGap     = talk.Say{Zh: "包间隔", En: "between packets"}
	sayRowJitter  = talk.Say{Zh: "抖动", En: "jitter"}
	sayRowCalls   = talk.Say{Zh: "被调用", En: "calls"}
	sayRowFailed  = talk.Say{Zh: "失败", En: "failed"}

	saySpread   = talk.Say{Zh: "p50 %s，p95 %s，p99 %s，最大 %s", En: "p50 %s, p95 %s, p99 %s, max %s"}
	sayUnsent   = talk.Say{Zh: "另有 %d 个未能发出", En: "%d more could not be sent"}
	sayDroppeds = talk.Say{Zh: "丢弃 %d 个，断音 %d 次", En: "%d dropped, %d times nothing to play"}
	sayPhotosOf = talk.Say{Zh: "照片 %d 张，通知 %d 条", En: "%d photos, %d notifications"}
)

// figures prints the figures as a table.
func (sh *shell) figures(f *boardFigures) {
	ms := func(v float64) string { return took(time.Duration(v * float64(time.Millisecond))) }
	wide := func(s spread) string { return saySpread.In(sh.lang, ms(s.P50), ms(s.P95), ms(s.P99), ms(s.Max)) }
	rows := [][]string{
		{sayRowHome.In(sh.lang), strconv.Itoa(f.Boots), wide(f.CallHome)},
		{sayRowHello.In(sh.lang), strconv.Itoa(f.Conversations), wide(f.Hello)},
		{sayRowAnswers.In(sh.lang), strconv.Itoa(f.Answers), wide(f.FirstSound)},
		{sayRowSent.In(sh.lang), strconv.Itoa(f.Sent), sayUnsent.In(sh.lang, f.Unsent)},
		{sayRowCame.In(sh.lang), strconv.Itoa(f.Received), sayDroppeds.In(sh.lang, f.Dropped, f.Underruns)},
	}
	if f.Received > 0 {
		rows = append(rows, []string{sayRowGap.In(sh.lang), "", wide(f.Interval)},
			[]string{sayRowJitter.In(sh.lang), "", wide(f.Jitter)})
	}
	rows = append(rows, []string{sayRowCalls.In(sh.lang), strconv.Itoa(f.Calls),
		sayPhotosOf.In(sh.lang, f.Photos, f.Notices)})
	if f.Boards > 1 {
		rows = append([][]string{{sayRowBoards.In(sh.lang), strconv.Itoa(f.Boards), ""}}, rows...)
		rows = append(rows, []string{sayRowFailed.In(sh.lang), strconv.Itoa(f.Failed), ""})
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
