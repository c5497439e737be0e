package xiaozhi

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice/pace"
)

// Priority orders what a conversation plays. A sound that gives way goes on later, where it was.
type Priority int

// The priorities, lowest first.
const (
	Music  Priority = iota // gives way to everything, at once
	Notice                 // waits for the end of a sentence, and for a person who speaks
	Answer                 // what the person asked for
	Alarm                  // interrupts everything
)

const (
	// maxSounds limits the sounds that wait in a conversation: each has an open engine or file.
	maxSounds = 16
	// noticeQuiet is how long a person must have said nothing before a notice or music begins by
	// itself: the microphone of most boards is closed while they speak.
	noticeQuiet = 1500 * time.Millisecond
	// musicQuiet is the same for music that the person has interrupted, to say something.
	musicQuiet = 8 * time.Second
	// stallLimit is how long an answer may be without sound before a notice plays: it waits for its
	// bot or a tool, perhaps for the one that gave the notice.
	stallLimit = 500 * time.Millisecond
)

var (
	errPlaylistFull = errors.New("too many sounds wait already")
	errOtherMusic   = errors.New("other music plays")
)

// playlist has the sounds of a conversation, and decides which one plays. It is the [pace.Source]
// of a round: the sounds between a tts/start and its tts/stop.
//
// Each sound is read by the goroutine that called [Conversation.Play], one packet ahead. The
// goroutine of [Conversation.playRounds] plays them, and ends when there are none.
type playlist struct {
	changed chan struct{} // has a token after a change that a waiting reader must see

	mu      sync.Mutex
	sounds  []*sound      // in the order in which they came
	last    *sound        // the one whose packet was returned last
	text    string        // of that packet; empty: none begins
	buffer  []byte        // that packet
	asked   int           // answers that are being made, whose sound may not be there yet
	running bool          // playRounds runs
	idle    chan struct{} // closed when it has ended
	unsent  *sound        // whose packet is about to be sent; nil: it was
	inRound bool
	held    bool // music waits for the end of an answer, or for silence
	paused  bool // music waits until somebody lets it go on
}

// sound is one sound of a playlist. All fields but the channels are guarded by its mu.
type sound struct {
	priority Priority
	cancel   context.CancelCauseFunc // ends the reading
	packet   []byte                  // the next one; nil: not read yet
	text     string                  // that begins with it
	title    string                  // the last text
	begun    bool                    // a packet was played
	playedAt time.Time               // when the last one was
	ended    bool
	err      error
	stats    pace.Stats
	record   *soundFile    // of the packets that were sent
	taken    chan struct{} // has a token when packet was taken
	done     chan struct{} // closed when it has ended, and its end has been played
}

// Play plays src with a priority, and waits until it is over. generation is that of
// [Conversation.Generation] before src was prepared: if somebody interrupted since then, src is not
// played. The error is [pace.ErrAborted] if it was interrupted or stopped, or that of ctx, of the
// conversation's end, or of src. It always closes src.
func (c *Conversation) Play(ctx context.Context, p Priority, generation uint64, src pace.Source) (pace.Stats, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	s := &sound{priority: p, cancel: cancel, taken: make(chan struct{}, 1), done: make(chan struct{})}
	if r, ok := src.(recordedSource); ok {
		s.record = r.recording()
	}
	err := c.enqueue(s, generation)
	if err != nil {
		closeSource(src)
		return pace.Stats{}, err
	}
	c.list.read(ctx, s, src)
	closeSource(src)
	<-s.done
	return s.stats, s.err
}

// enqueue adds a sound, and starts the goroutine that plays.
func (c *Conversation) enqueue(s *sound, generation uint64) error {
	l := &c.list
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.ending.Load() || generation != c.player.Generation():
		return pace.ErrAborted
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case len(l.sounds) >= maxSounds:
		return errPlaylistFull
	}
	if !l.running {
		idle := make(chan struct{})
		if !c.board.boards.spawn(func() { defer close(idle); c.playRounds() }) {
			return errServerStopping
		}
		l.running, l.idle = true, idle
	}
	if s.priority == Music {
		for _, old := range l.sounds {
			if old.priority == Music {
				l.endLocked(old, errOtherMusic)
			}
		}
		l.settleIdle()
		// An answer that is prepared comes first.
		l.held = l.asked > 0 ||
			slices.ContainsFunc(l.sounds, func(s *sound) bool { return !s.ended && s.priority == Answer })
		l.paused = false
	}
	l.sounds = append(l.sounds, s)
	signal(l.changed)
	return nil
}

// expectAnswer has music that begins from now on wait for an answer, which may not be among the
// sounds yet. The returned function notes that its bot, or its sound, has ended.
func (l *playlist) expectAnswer() (ended func()) {
	count := func(n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asked += n
		signal(l.changed)
	}
	count(1)
	return sync.OnceFunc(func() { count(-1) })
}

// signal puts a token into a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a token already
	}
}

// read reads a sound until it ends.
func (l *playlist) read(ctx context.Context, s *sound, src pace.Source) {
	texts, _ := src.(pace.TextSource)
	for {
		packet, err := src.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			} else if errors.Is(err, io.EOF) {
				err = nil
			}
			l.end(s, err)
			return
		}
		text := ""
		if texts != nil {
			if t, begins := texts.Text(); begins {
				text = t
			}
		}
		l.mu.Lock()
		s.packet, s.text = packet, text
		l.mu.Unlock()
		signal(l.changed)
		select {
		case <-s.taken:
		case <-ctx.Done():
			l.end(s, context.Cause(ctx))
			return
		}
	}
}

func (l *playlist) end(s *sound, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(s, err)
	l.settleIdle()
}

// endLocked marks a sound as ended, unless it is. Requires mu.
func (l *playlist) endLocked(s *sound, err error) {
	if s.ended {
		return
	}
	s.ended, s.err, s.packet = true, err, nil
	s.cancel(err)
	if s.priority == Answer && err == nil {
		l.held = false // the music goes on after the answer
	}
	signal(l.changed)
}

// settleIdle completes the sounds that have ended, unless a round does it. Requires mu.
func (l *playlist) settleIdle() {
	if !l.inRound {
		l.settle(nil)
	}
}

// settle completes the sounds that have ended, except one. Requires mu.
func (l *playlist) settle(except *sound) {
	l.sounds = slices.DeleteFunc(l.sounds, func(s *sound) bool {
		if !s.ended || s == except {
			return false
		}
		close(s.done)
		return true
	})
}

// Next implements [pace.Source]. It returns the next packet of the sound whose turn it is, and
// io.EOF if none can play now.
func (l *playlist) Next(ctx context.Context) ([]byte, error) {
	for {
		l.mu.Lock()
		l.settle(l.last)
		s, wait := l.choose(time.Now())
		switch {
		case s != nil && s.packet != nil:
			defer l.mu.Unlock()
			return l.take(s), nil
		case s == nil && !l.expectsMore():
			l.mu.Unlock()
			return nil, io.EOF
		}
		l.mu.Unlock()
		if netx.WaitUnless(ctx, l.changed, wait); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// take takes the packet of a sound. Requires mu.
func (l *playlist) take(s *sound) []byte {
	l.buffer = append(l.buffer[:0], s.packet...) // the reader reuses the packet
	l.text = s.text
	switch {
	case s.text != "":
		s.title = s.text
		s.stats.Texts++
	case s != l.last && s.priority == Music:
		l.text = s.title // once more, after something else was shown
	}
	l.last, s.begun, s.playedAt, s.packet, l.unsent = s, true, time.Now(), nil, s
	s.taken <- struct{}{}
	return l.buffer
}

// Text implements [pace.TextSource]. It is called when a packet is sent.
func (l *playlist) Text() (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unsent != nil {
		l.unsent.stats.Frames++
		l.unsent = nil
	}
	return l.text, l.text != ""
}

// choose returns the sound whose turn it is: one that has begun, or whose first packet is there. If
// that has no packet, or there is none, the choice may change after wait. Requires mu.
func (l *playlist) choose(now time.Time) (s *sound, wait time.Duration) {
	var first [Alarm + 1]*sound // of each priority
	for _, s := range l.sounds {
		other := first[s.priority]
		if !s.ended && (s.begun || s.packet != nil) && (other == nil || s.begun && !other.begun) {
			first[s.priority] = s
		}
	}
	if l.held || l.paused {
		first[Music] = nil
	}
	answer, notice := first[Answer], first[Notice]
	switch {
	case first[Alarm] != nil:
		return first[Alarm], time.Hour
	case notice != nil && (notice.begun || answer == nil):
		return notice, time.Hour
	case answer == nil:
		return first[Music], time.Hour
	case notice == nil || !answer.begun || answer.packet != nil && answer.text == "":
		return answer, time.Hour
	case answer.packet != nil: // its next sentence
		return notice, time.Hour
	}
	if wait = stallLimit - now.Sub(answer.playedAt); wait > 0 {
		return answer, wait
	}
	return notice, time.Hour
}

// expectsMore reports whether the round goes on although nothing can play at the moment. Requires
// mu.
func (l *playlist) expectsMore() bool {
	return slices.ContainsFunc(l.sounds, func(s *sound) bool { return !s.ended && s.priority >= Answer })
}

// playRounds plays the sounds of the list until there are none.
func (c *Conversation) playRounds() {
	for {
		generation, ok := c.awaitRound()
		if !ok {
			return
		}
		stats, err := c.playRound(generation)
		c.addPlayed(stats, errors.Is(err, pace.ErrAborted))
		c.endRound(stats, err)
	}
}

// awaitRound waits until a round can begin, and returns its generation. It returns false if there
// is nothing to play.
func (c *Conversation) awaitRound() (generation uint64, ok bool) {
	l := &c.list
	for {
		l.mu.Lock()
		if len(l.sounds) == 0 {
			l.running = false
			l.mu.Unlock()
			return 0, false
		}
		wait := l.startsIn(c.quietFor(time.Now()))
		l.inRound = wait <= 0
		generation = c.player.Generation()
		l.mu.Unlock()
		if wait <= 0 {
			return generation, true
		}
		// When the conversation ends, so do all sounds, by and by.
		netx.WaitUnless(context.Background(), l.changed, wait)
	}
}

// startsIn returns when a round may begin by itself, if nothing changes, after the person has been
// quiet for so long. Requires mu.
func (l *playlist) startsIn(quiet time.Duration) time.Duration {
	wait := time.Hour
	for _, s := range l.sounds {
		needed := noticeQuiet
		switch {
		case s.ended, s.priority < Answer && s.packet == nil, s.priority == Music && (l.paused || l.asked > 0):
			continue
		case s.priority >= Answer:
			return 0
		case s.priority == Music && l.held:
			needed = musicQuiet
			l.held = quiet < needed
		}
		wait = min(wait, needed-quiet)
	}
	return wait
}

// playRound sends tts/start, the sounds, and tts/stop.
func (c *Conversation) playRound(generation uint64) (pace.Stats, error) {
	if err := c.sendSpeakState(true); err != nil {
		c.setSpeaking(false)
		return pace.Stats{}, err
	}
	stats, err := c.player.Play(c.ctx, generation, &c.list, pace.Hooks{
		Send: c.sendAudio, Text: c.ShowText, NotBefore: time.Now().Add(c.lead()),
	})
	// After an abort too: the board stays in the speaking state until tts/stop (xiaozhi-esp32
	// main/application.cc, Application::AbortSpeaking).
	return stats, errors.Join(err, c.sendSpeakState(false))
}

// sendAudio sends a packet, unless it is one of a [textSource].
func (c *Conversation) sendAudio(packet []byte, at time.Duration) error {
	if len(packet) == 0 {
		return nil
	}
	if err := c.transport.Audio(packet, at); err != nil {
		return err
	}
	c.list.sent().add(packet)
	if own := c.own.Load(); own != nil {
		own.play(packet, time.Now())
	}
	return nil
}

// sent returns where the packet that was just sent is recorded: that of the last sound.
func (l *playlist) sent() *soundFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return nil
	}
	return l.last.record
}

// endRound completes the sounds that have ended. If the board could not be reached, all end.
func (c *Conversation) endRound(stats pace.Stats, err error) {
	l := &c.list
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sounds {
		if err != nil && !errors.Is(err, pace.ErrAborted) {
			if s.err == nil {
				s.err = err
			}
			l.endLocked(s, err)
		}
		if s.ended { // what happened meanwhile is counted for the sounds at the end of the round
			frames, texts := s.stats.Frames, s.stats.Texts
			s.stats = stats
			s.stats.Frames, s.stats.Texts = frames, texts
		}
	}
	l.inRound, l.last, l.unsent = false, nil, nil
	l.settle(nil)
}

// interrupt ends all sounds at once. Music only waits, unless all is set.
func (c *Conversation) interrupt(all bool) (playing bool) {
	l := &c.list
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sounds {
		if s.priority > Music || all {
			l.endLocked(s, pace.ErrAborted)
		}
	}
	l.held = true
	l.settleIdle()
	return c.player.Abort()
}

// quietFor returns how long the person has not spoken.
func (c *Conversation) quietFor(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mode == wire.ModeManual && c.listening { // the button is pressed
		return 0
	}
	return now.Sub(c.heardAt)
}

// hasMusic reports whether music plays, or waits to go on.
func (c *Conversation) hasMusic() bool {
	c.list.mu.Lock()
	defer c.list.mu.Unlock()
	return c.list.music() != nil
}

// musicStatus returns whether music plays at the moment, and whether it will go on by itself.
func (c *Conversation) musicStatus() (plays, goesOn bool) {
	l := &c.list
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.music()
	return s != nil && l.inRound && l.last == s && !l.held, s != nil && !l.paused
}

// music returns the music that plays, or waits to; nil if there is none. Requires mu.
func (l *playlist) music() *sound {
	for _, s := range l.sounds {
		if s.priority == Music && !s.ended {
			return s
		}
	}
	return nil
}

// pauseMusic pauses the music, or lets it go on. It returns false if there is none.
func (c *Conversation) pauseMusic(pause bool) bool {
	l := &c.list
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.music() == nil {
		return false
	}
	l.paused, l.held = pause, false
	signal(l.changed)
	return true
}
