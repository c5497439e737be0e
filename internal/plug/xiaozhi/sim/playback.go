package sim

import "time"

// pcmAhead is how many packets are decoded before they are due (xiaozhi-esp32
// main/audio/audio_service.h, MAX_PLAYBACK_TASKS_IN_QUEUE).
const pcmAhead = 2

// playback models the playback of a board: a queue of packets, of which two are decoded in advance
// and one plays. It is computed from times, so it needs no timer.
type playback struct {
	frame time.Duration
	cap   int
	ends  time.Time // when everything accepted so far has played
}

// waiting returns the number of packets in the queue.
func (p *playback) waiting(now time.Time) int {
	left := p.ends.Sub(now)
	if left <= 0 {
		return 0
	}
	return max(0, int((left+p.frame-1)/p.frame)-1-pcmAhead)
}

// take accepts a packet. ok reports whether there was room; gap is how long there had been nothing
// to play.
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

// reset clears what has not played, and returns the number of packets.
func (p *playback) reset(now time.Time) int {
	left := p.ends.Sub(now)
	p.ends = time.Time{}
	if left <= 0 {
		return 0
	}
	return int((left + p.frame/2) / p.frame)
}

// Limits for the server's audio, which are this package's. Options.Slack is added to all of them.
const (
	startGap    = 20 * time.Millisecond  // from tts/start to the first audio: the board needs it
	startGrace  = 5 * time.Millisecond   // tolerance of startGap, for network jitter
	sentenceGap = 200 * time.Millisecond // from a subtitle to its audio
	stopLate    = 400 * time.Millisecond // from the end of the audio to tts/stop
	stopEarly   = 10 * time.Millisecond  // how early tts/stop may come
	abortAudio  = 100 * time.Millisecond // from an abort to the last audio
	abortStop   = 200 * time.Millisecond // from an abort to tts/stop
	strayAudio  = 100 * time.Millisecond // datagrams may arrive after tts/stop
	burstWindow = 10 * time.Millisecond
	tightBurst  = 2   // packets in burstWindow that boards with little memory survive
	tightQueue  = 3   // packets that may be queued at that moment
	intervals   = 201 // steps up to 200 ms, and one for longer intervals
	headStart   = 3   // packets at the beginning of an answer, which arrive at once
	// maxDoubts is after how many suspicious answers in a row the server is blamed. A busy machine
	// can make one answer look wrong; a faulty server does it each time.
	maxDoubts = 3
	// doubtStall is how long the process did not run for one more of them. A process that often
	// waits for the processor also reads late when nothing shows that it did not run.
	doubtStall = 250 * time.Millisecond
)

// IntervalStep is the step of the histogram [Report].Intervals.
const IntervalStep = time.Millisecond

// inspector checks the audio of one conversation at its arrival, whatever the board does with it.
type inspector struct {
	frame          time.Duration
	udp, steady    bool
	tight          bool
	ahead          int
	allowance      time.Duration        // Options.Slack
	stalledTime    func() time.Duration // Options.Stalled
	stalledAtStart time.Duration        // stalledTime at the answer's tts/start
	report         *Report
	violate        func(check, format string, args ...any)
	open           bool // between tts/start and tts/stop
	startAt        time.Time
	stopAt         time.Time
	sentenceAt     time.Time     // of a subtitle whose audio has not arrived
	abortedAt      time.Time     // of an abort without a tts/stop yet
	stalledAtAbort time.Duration // stalledTime at that moment
	soundAfter     time.Duration // from the abort to the last audio since
	aborted        bool          // the current answer was aborted
	ends           time.Time     // when everything received has played
	last           time.Time     // arrival of the last packet
	burst          int
	burstAt        time.Time
	packets        int // packets of the current answer

	// Number of answers in a row whose first packet came too early, and that had too large a burst;
	// and whether the current answer had one.
	earlyAnswers, burstAnswers int
	burstSeen                  bool
}

// slack returns the tolerance for limits: Options.Slack, and the time that the process did not run
// since the answer began.
func (i *inspector) slack() time.Duration { return i.allowance + i.stalled() }

// stalled returns the time that the process did not run since the answer began.
func (i *inspector) stalled() time.Duration {
	if i.stalledTime == nil {
		return 0
	}
	return i.stalledTime() - i.stalledAtStart
}

// sinceAbort returns the time since the abort in which the process ran.
func (i *inspector) sinceAbort(now time.Time) time.Duration {
	d := now.Sub(i.abortedAt)
	if i.stalledTime != nil {
		d -= i.stalledTime() - i.stalledAtAbort
	}
	return max(d, 0)
}

// start handles tts/start.
func (i *inspector) start(now time.Time) {
	if i.stalledTime != nil {
		i.stalledAtStart = i.stalledTime()
	}
	switch {
	case !i.abortedAt.IsZero():
		i.violate("C9", "there is a start after an abort, and no stop in between")
	case i.open:
		i.violate("C6", "there is a start, and no stop since the one before")
	}
	if !i.burstSeen {
		i.burstAnswers = 0
	}
	i.burstSeen = false
	i.open, i.startAt, i.sentenceAt = true, now, time.Time{}
	i.ends, i.last, i.packets = time.Time{}, time.Time{}, 0
	i.abortedAt, i.aborted = time.Time{}, false
}

// sentence handles a subtitle.
func (i *inspector) sentence(now time.Time) { i.sentenceAt = now }

// stop handles tts/stop.
func (i *inspector) stop(now time.Time) {
	switch {
	case !i.abortedAt.IsZero():
		if len(i.report.Aborts) < maxAborts {
			i.report.Aborts = append(i.report.Aborts, Abort{Sound: i.soundAfter, Stop: i.sinceAbort(now)})
		}
		if late := now.Sub(i.abortedAt); late > abortStop+i.slack() {
			i.violate("C9", "the stop comes %v after the abort", late.Round(time.Millisecond))
		}
	case i.open && !i.aborted && i.packets > 0:
		if d := now.Sub(i.ends); d < -stopEarly-i.slack() {
			i.violate("C8", "the stop comes %v before the sound ends", (-d).Round(time.Millisecond))
		} else if d > stopLate+i.slack() {
			i.violate("C8", "the stop comes %v after the sound ended", d.Round(time.Millisecond))
		}
	}
	i.open, i.stopAt = false, now
	i.abortedAt, i.aborted = time.Time{}, false
}

// abort notes that the board aborted the answer.
func (i *inspector) abort(now time.Time) {
	if !i.open {
		return
	}
	i.abortedAt, i.aborted, i.soundAfter = now, true, 0
	if i.stalledTime != nil {
		i.stalledAtAbort = i.stalledTime()
	}
}

// audio checks a packet of a given duration.
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
	case !i.abortedAt.IsZero():
		i.soundAfter = i.sinceAbort(now)
	}
	switch {
	case !i.abortedAt.IsZero() && now.Sub(i.abortedAt) > abortAudio+i.slack():
		i.violate("C9", "there is audio %v after an abort", now.Sub(i.abortedAt).Round(time.Millisecond))
		return
	case i.packets == 0 && i.tooEarly(now):
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

// tooEarly reports whether the first packet of an answer came before the board was ready.
func (i *inspector) tooEarly(now time.Time) bool {
	if now.Sub(i.startAt) >= startGap-startGrace-i.stalled() {
		i.earlyAnswers = 0
		return false
	}
	i.earlyAnswers++
	return i.certain(i.earlyAnswers)
}

// certain reports whether the server is to blame after a number of suspicious answers in a row: a
// busy machine may read packets at once that were sent one by one.
func (i *inspector) certain(answers int) bool {
	doubts := maxDoubts
	if i.stalledTime != nil {
		doubts += int(i.stalledTime() / doubtStall)
	}
	return i.allowance == 0 || answers >= doubts
}

// pace checks the arrival time of a packet.
func (i *inspector) pace(now time.Time, sounds time.Duration) {
	if i.ends.Before(now) {
		if i.packets > 0 && i.steady && !i.aborted && now.Sub(i.ends) > i.slack() {
			i.violate("C7", "there is nothing to play for %v", now.Sub(i.ends).Round(time.Millisecond))
		}
		i.ends = now
	}
	i.ends = i.ends.Add(sounds)
	i.packets++
	ahead := float64(i.ends.Sub(now))/float64(i.frame) - 1
	i.report.MaxAhead = max(i.report.MaxAhead, ahead)
	if ahead > float64(i.ahead)+0.5+float64(i.slack())/float64(i.frame) {
		i.violate("C7", "the server is %.1f packets ahead of what is due", ahead)
	}
	if i.tight && i.burst > tightBurst && ahead >= tightQueue {
		if !i.burstSeen {
			i.burstSeen = true
			i.burstAnswers++
		}
		if i.certain(i.burstAnswers) {
			i.violate("C7", "%d packets within %v with %.0f waiting: a board with little memory crashes", i.burst,
				burstWindow, ahead)
		}
	}
}

// count updates the interval histogram and the burst counter.
func (i *inspector) count(now time.Time) {
	if now.Sub(i.burstAt) > burstWindow {
		i.burst, i.burstAt = 0, now
	}
	i.burst++
	i.report.MaxBurst = max(i.report.MaxBurst, i.burst)
	if i.report.Intervals == nil {
		i.report.Intervals = make([]int, intervals)
	}
	if i.packets >= headStart {
		i.report.Intervals[min(intervals-1, int(now.Sub(i.last)/IntervalStep))]++
	}
	i.last = now
}

// over handles the end of the conversation.
func (i *inspector) over() {
	if i.open && !i.aborted {
		i.violate("C6", "the conversation ends between start and stop")
	}
}
