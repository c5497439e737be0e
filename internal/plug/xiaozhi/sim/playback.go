package sim

import "time"

// pcmAhead is how many packets are decoded before they are due.
const pcmAhead = 2

// playback is what happens to audio in a board: a queue of packets, of which two are
// decoded in advance and one sounds. It is computed, so it costs no timer.
type playback struct {
	frame time.Duration
	cap   int
	ends  time.Time // when everything that was taken has sounded
}

// waiting is how many packets are still in the queue.
func (p *playback) waiting(now time.Time) int {
	left := p.ends.Sub(now)
	if left <= 0 {
		return 0
	}
	return max(0, int((left+p.frame-1)/p.frame)-1-pcmAhead)
}

// take is a packet that comes. It says whether there was room, and for how long
// there had been nothing to play.
func (p *playback) take(now time.Time) (ok bool, gap time.Duration) {
	if p.waiting(now) >= p.cap {
		return false, 0
	}
	if p.ends.Before(now) {
		if !p.ends.IsZero() {
			gap = now.Sub(p.ends)
		}
		p.ends = now
	}
	p.ends = p.ends.Add(p.frame)
	return true, gap
}

// reset throws away what has not sounded, and says how many packets that were.
func (p *playback) reset(now time.Time) int {
	left := p.ends.Sub(now)
	p.ends = time.Time{}
	if left <= 0 {
		return 0
	}
	return int((left + p.frame/2) / p.frame)
}

// The limits of what a server may do with its voice. All get the slack of the
// options.
const (
	startGap    = 20 * time.Millisecond  // between start and audio: the board needs it to get ready
	startGrace  = 5 * time.Millisecond   // what the network may take away of it
	sentenceGap = 200 * time.Millisecond // between a subtitle and its audio
	stopLate    = 400 * time.Millisecond // between the end of the sound and stop
	stopEarly   = 10 * time.Millisecond  // what stop may come too early
	abortAudio  = 100 * time.Millisecond // between an abort and the last audio
	abortStop   = 200 * time.Millisecond // between an abort and stop
	strayAudio  = 100 * time.Millisecond // datagrams may be overtaken by the stop
	burstWindow = 10 * time.Millisecond
	tightBurst  = 2   // packets within the window that boards with little memory survive
	tightQueue  = 3   // and how many may wait then
	intervals   = 201 // up to 200 ms, and longer
	headStart   = 3   // packets at the beginning of an answer that come at once
	// doubtsMost is in how many answers in a row something looks wrong, that a busy
	// machine can make look wrong once, before the server is blamed: it does the same in
	// each of them.
	doubtsMost = 3
)

// IntervalStep is the step in which [Report].Intervals counts.
const IntervalStep = time.Millisecond

// inspector looks at one conversation's voice as it comes: what a right server
// does, whatever the board makes of it.
type inspector struct {
	frame       time.Duration
	udp, steady bool
	tight       bool
	ahead       int
	allowance   time.Duration        // Options.Slack
	held        func() time.Duration // Options.Held
	heldAt      time.Duration        // when the answer began
	report      *Report
	violate     func(check, format string, args ...any)
	open        bool // between start and stop
	startAt     time.Time
	stopAt      time.Time
	sentenceAt  time.Time // of a subtitle whose audio has not come
	abortedAt   time.Time // of an abort that was not stopped yet
	aborted     bool      // this answer
	ends        time.Time // when everything that came has sounded
	last        time.Time // when the last packet came
	burst       int
	burstAt     time.Time
	soundedTo   int // packets of this answer

	// In how many answers in a row the first packet came too early, and too many packets
	// at once; and whether they did in this one.
	early, crowds int
	crowded       bool
}

// slack is what is added to limits: what the options say, and for how long the board
// itself stood still since the answer began.
func (i *inspector) slack() time.Duration { return i.allowance + i.still() }

// still is for how long the board itself stood still since the answer began.
func (i *inspector) still() time.Duration {
	if i.held == nil {
		return 0
	}
	return i.held() - i.heldAt
}

// start is a tts start.
func (i *inspector) start(now time.Time) {
	if i.held != nil {
		i.heldAt = i.held()
	}
	switch {
	case !i.abortedAt.IsZero():
		i.violate("C9", "there is a start after an abort, and no stop in between")
	case i.open:
		i.violate("C6", "there is a start, and no stop since the one before")
	}
	if !i.crowded {
		i.crowds = 0
	}
	i.crowded = false
	i.open, i.startAt, i.sentenceAt = true, now, time.Time{}
	i.ends, i.last, i.soundedTo = time.Time{}, time.Time{}, 0
	i.abortedAt, i.aborted = time.Time{}, false
}

// sentence is a subtitle.
func (i *inspector) sentence(now time.Time) { i.sentenceAt = now }

// stop is a tts stop.
func (i *inspector) stop(now time.Time) {
	switch {
	case !i.abortedAt.IsZero():
		if late := now.Sub(i.abortedAt); late > abortStop+i.slack() {
			i.violate("C9", "the stop comes %v after the abort", late.Round(time.Millisecond))
		}
	case i.open && !i.aborted && i.soundedTo > 0:
		if d := now.Sub(i.ends); d < -stopEarly-i.slack() {
			i.violate("C8", "the stop comes %v before the sound ends", (-d).Round(time.Millisecond))
		} else if d > stopLate+i.slack() {
			i.violate("C8", "the stop comes %v after the sound ended", d.Round(time.Millisecond))
		}
	}
	i.open, i.stopAt = false, now
	i.abortedAt, i.aborted = time.Time{}, false
}

// abort is somebody who wants quiet while the server speaks.
func (i *inspector) abort(now time.Time) {
	if i.open {
		i.abortedAt, i.aborted = now, true
	}
}

// audio is a packet that sounds so long.
func (i *inspector) audio(now time.Time, sounds time.Duration) {
	i.count(now)
	if sounds > i.frame {
		i.violate("C4", "a packet of %v, and %v were agreed upon", sounds, i.frame)
	}
	switch {
	case !i.open:
		if !i.udp || i.stopAt.IsZero() || now.Sub(i.stopAt) > strayAudio+i.slack() {
			i.violate("C6", "there is audio outside of start and stop")
		}
		return
	case !i.abortedAt.IsZero() && now.Sub(i.abortedAt) > abortAudio+i.slack():
		i.violate("C9", "there is audio %v after an abort", now.Sub(i.abortedAt).Round(time.Millisecond))
		return
	case i.soundedTo == 0 && i.tooEarly(now):
		i.violate("C6", "the first audio comes %v after start", now.Sub(i.startAt).Round(time.Millisecond))
	}
	if !i.sentenceAt.IsZero() {
		if d := now.Sub(i.sentenceAt); d > sentenceGap+i.slack() {
			i.violate("C6", "a sentence comes %v before its audio", d.Round(time.Millisecond))
		}
		i.sentenceAt = time.Time{}
	}
	i.pace(now, sounds)
}

// tooEarly says whether the first packet of an answer comes before the board is ready.
func (i *inspector) tooEarly(now time.Time) bool {
	if now.Sub(i.startAt) >= startGap-startGrace-i.still() {
		i.early = 0
		return false
	}
	i.early++
	return i.certain(i.early)
}

// certain says whether the server is to blame for what looked wrong in so many answers
// in a row: on a busy machine, what came one by one may be taken at once.
func (i *inspector) certain(answers int) bool { return i.allowance == 0 || answers >= doubtsMost }

// pace looks at when a packet comes.
func (i *inspector) pace(now time.Time, sounds time.Duration) {
	if i.ends.Before(now) {
		if i.soundedTo > 0 && i.steady && !i.aborted && now.Sub(i.ends) > i.slack() {
			i.violate("C7", "there is nothing to play for %v", now.Sub(i.ends).Round(time.Millisecond))
		}
		i.ends = now
	}
	i.ends = i.ends.Add(sounds)
	i.soundedTo++
	ahead := float64(i.ends.Sub(now))/float64(i.frame) - 1
	i.report.MaxAhead = max(i.report.MaxAhead, ahead)
	if ahead > float64(i.ahead)+0.5+float64(i.slack())/float64(i.frame) {
		i.violate("C7", "the server is %.1f packets ahead of what is due", ahead)
	}
	if i.tight && i.burst > tightBurst && ahead >= tightQueue {
		if !i.crowded {
			i.crowded = true
			i.crowds++
		}
		if i.certain(i.crowds) {
			i.violate("C7", "%d packets within %v with %.0f waiting: a board with little memory crashes", i.burst, burstWindow, ahead)
		}
	}
}

// count counts intervals and bursts.
func (i *inspector) count(now time.Time) {
	if now.Sub(i.burstAt) > burstWindow {
		i.burst, i.burstAt = 0, now
	}
	i.burst++
	i.report.MaxBurst = max(i.report.MaxBurst, i.burst)
	if i.report.Intervals == nil {
		i.report.Intervals = make([]int, intervals)
	}
	if i.soundedTo >= headStart {
		i.report.Intervals[min(intervals-1, int(now.Sub(i.last)/IntervalStep))]++
	}
	i.last = now
}

// over is the end of the conversation.
func (i *inspector) over() {
	if i.open && !i.aborted {
		i.violate("C6", "the conversation ends between start and stop")
	}
}
