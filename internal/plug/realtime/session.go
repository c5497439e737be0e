package realtime

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/netx"
	"patchbay/internal/talk"
	"patchbay/internal/toolbox"
	"patchbay/internal/voice/realtime"
)

// errRest ends a session that nobody needs at the moment.
var errRest = errors.New("the session rests")

// maxEarly limits the events of an answer that wait for its turn, which begins at once.
const maxEarly = 256

// pieceSamples is the most sound in one event: 200 ms.
const pieceSamples = talk.HearingRate / 5

// retryDelays are the pauses before a session that could not be opened is tried again, while nobody
// asks.
var retryDelays = netx.Backoff{First: time.Second, Max: 30 * time.Second, Jitter: netx.HalfJitter}

// run has a session while one is wanted.
func (c *conversation) run() {
	defer close(c.done)
	retry := retryDelays
	for c.ctx.Err() == nil {
		if !c.await() {
			return
		}
		s, err := c.connect()
		if err != nil {
			c.lost(err, false)
			if netx.WaitUnless(c.ctx, c.wake, retry.Next()); c.isAsked() {
				signal(c.wake)
			}
			continue
		}
		retry = retryDelays
		err = s.serve(c.ctx)
		s.conn.Close()
		if !errors.Is(err, errRest) {
			c.lost(errLost(err), true)
		}
	}
}

// await waits until a session is wanted. It returns false at the end of the conversation.
func (c *conversation) await() bool {
	for {
		c.mu.Lock()
		wanted := c.wanted
		c.mu.Unlock()
		if wanted {
			return c.ctx.Err() == nil
		}
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			return false
		}
	}
}

func (c *conversation) isAsked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asking != nil
}

// lost handles the loss of a session, or that there is none. An exchange that has not begun is
// asked once more in the next one, if the lost one stood.
func (c *conversation) lost(err error, stood bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	c.bot.log.Debug("realtime: a session is lost", "host", c.bot.options.URL.Host, "error", err)
	if x := c.asking; x != nil && (!stood || !x.retry()) {
		x.fail(err)
		c.wanted = false
	}
}

// session is a connection to the service.
type session struct {
	c      *conversation
	bot    *Bot
	conn   *realtime.Conn
	config realtime.Session
	plain  realtime.Session // without the manner, for a service that refuses it
	agreed bool             // the service has accepted the configuration
	up     *realtime.Upsampler
	born   time.Time
}

// connect opens a session, and tells it what was said before.
func (c *conversation) connect() (*session, error) {
	c.mu.Lock()
	b := c.bot
	c.renew = false
	before := c.recent()
	turn, has, known := c.turn, c.wants, c.hasTurns
	c.mu.Unlock()
	if !known {
		has = terms{b.functions(c.ctx, turn), mannerOf(turn)}
	}
	s := &session{c: c, bot: b, plain: b.settings.session(b.options.Spelling), born: time.Now(),
		up: realtime.NewUpsampler(b.options.Spelling)}
	s.plain.Silent, s.plain.Tools = c.silent, has.tools
	if c.silent {
		s.plain.Detection = ""
	}
	told := ""
	if b.options.Spelling == realtime.Qwen {
		told = transcript(turn, before) // its sessions take no messages of the bot
	}
	s.plain.Instructions = b.instructions(turn.Lang, len(has.tools) > 0, has.manner.Language, told)
	if base, _, _ := strings.Cut(has.manner.Language, "-"); len(base) == 2 && b.options.Spelling == realtime.OpenAI {
		s.plain.Language = base // ISO 639-1 (API reference, session.audio.input.transcription.language)
	}
	s.config = s.plain
	s.config.Voice = cmp.Or(has.manner.Voice, s.plain.Voice)
	if speed := has.manner.Speed; speed != 0 {
		s.config.Speed = min(max(speed, minSpeed), maxSpeed)
	}
	conn, err := realtime.Open(c.ctx, b.options, &s.config)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outbox, c.unsent, c.has = nil, 0, has
	if c.hasTurns { // one may have come while the session was opened
		c.renew = c.bot != b || !reflect.DeepEqual(c.wants, c.has)
	}
	for _, m := range before {
		switch {
		case told != "":
		case m.Role == talk.RolePerson:
			c.outbox = append(c.outbox, realtime.PersonSaid(m.Text))
		default:
			c.outbox = append(c.outbox, realtime.BotSaid(b.options.Spelling, m.Text))
		}
	}
	if c.asking != nil {
		c.asking.queue()
	}
	return s, nil
}

// transcript returns earlier messages as text.
func transcript(turn *talk.Turn, before []talk.Message) string {
	var out strings.Builder
	for _, m := range before {
		who := msgYou
		if m.Role == talk.RolePerson {
			who = msgPerson
		}
		out.WriteString(who.In(turn.Lang) + ": " + strings.Join(strings.Fields(m.Text), " ") + "\n")
	}
	return out.String()
}

// functions returns the functions that the model may call in a turn.
func (b *Bot) functions(ctx context.Context, turn *talk.Turn) (out []realtime.Function) {
	if b.toolbox == nil || !b.settings.tools() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := b.toolbox.List(ctx, turn)
	if err != nil {
		b.log.WarnContext(ctx, "the list of tools is not to be had, so the model is asked without", "error", err)
		return nil
	}
	for _, t := range list {
		parameters, err := toolbox.Parameters(t.Input)
		if err != nil || !toolbox.FunctionName.MatchString(t.Name) || len(out) == maxTools {
			b.log.DebugContext(ctx, "a tool is not offered to the model", "tool", t.Name, "error", err)
			continue
		}
		out = append(out, realtime.Function{Name: t.Name, Description: toolbox.Clip(t.Description, maxDescription),
			Parameters: parameters})
	}
	return out
}

// serve sends and receives until the session ends. The error is errRest if that was decided here.
func (s *session) serve(ctx context.Context) error {
	c := s.c
	timer := time.NewTimer(s.bot.limits.idle)
	defer timer.Stop()
	for {
		if err := s.send(ctx); err != nil {
			return err
		}
		left, over := s.left()
		if over {
			return errRest
		}
		timer.Reset(left)
		select {
		case m := <-s.conn.Messages():
			e, err := realtime.Decode(m.Data)
			if err != nil {
				return err
			}
			s.onEvent(&e)
		case <-s.conn.Done():
			return s.conn.Err()
		case <-c.wake:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isOutdated reports whether the next question goes to another session. Requires mu.
func (c *conversation) isOutdated() bool {
	return c.renew && (c.asking == nil || !c.asking.begun)
}

// left returns when to look again whether the session may end, and whether it ends now: nobody has
// spoken for a while, it is old, or the bot has other settings. While an exchange runs it does not.
func (s *session) left() (left time.Duration, over bool) {
	c, l := s.c, s.bot.limits
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking != nil && (c.asking.begun || !c.renew) {
		return l.idle, false
	}
	idle, age := l.idle-time.Since(c.used), l.age-time.Since(s.born)
	switch {
	case c.isOutdated() || age <= 0:
		return 0, true
	case idle <= 0:
		c.wanted = false
		return 0, true
	}
	return min(idle, age), false
}

// send sends what is queued: what the person said, and then events.
func (s *session) send(ctx context.Context) error {
	c := s.c
	for {
		c.mu.Lock()
		if c.isOutdated() { // it may have come with the question that is in the outbox
			c.mu.Unlock()
			return errRest
		}
		said, last := c.said[c.unsent:], false
		if len(said) > pieceSamples {
			said = said[:pieceSamples]
		}
		c.unsent += len(said)
		var events []any
		if c.unsent == len(c.said) {
			events, c.outbox, last = c.outbox, nil, true
		}
		said = append([]int16(nil), said...)
		c.mu.Unlock()
		if out := s.up.Convert(said, len(events) > 0); len(out) > 0 {
			if err := s.conn.Send(ctx, realtime.AppendAudio(out)); err != nil {
				return err
			}
		}
		c.mu.Lock()
		c.sent += len(said)
		c.mu.Unlock()
		if err := s.conn.Send(ctx, events...); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

// onEvent handles an event, or passes it to the exchange.
func (s *session) onEvent(e *realtime.Event) {
	c := s.c
	c.mu.Lock()
	x, hear := c.asking, c.hear
	if e.Type == realtime.AudioText && !c.silent {
		c.spoken += utf8.RuneCountInString(e.Text)
	}
	switch {
	case e.Type == realtime.SpeechStarted || e.Type == realtime.SpeechStopped:
		c.early = nil
	case x == nil && s.config.AnswersUnasked(s.bot.options.Spelling) && len(c.early) < maxEarly:
		c.early = append(c.early, *e)
	}
	c.mu.Unlock()
	switch e.Type {
	case realtime.SpeechStarted, realtime.SpeechStopped:
		if hear != nil {
			hear(map[string]talk.Hearing{realtime.SpeechStarted: talk.SpeechBegan,
				realtime.SpeechStopped: talk.SpeechEnded}[e.Type])
		}
		return
	case realtime.ResponseDone:
		s.bot.onUsage(e.Usage)
	case realtime.SessionUpdated:
		s.agreed = true
	case realtime.Failed:
		if s.refused() {
			return
		}
		s.bot.log.Info("the realtime service reports an error", "host", s.bot.options.URL.Host, "error", e.Err)
	}
	if x != nil {
		x.take(s, e)
	}
}

// refused configures the session without the voice and the speed of the board, if an error is about
// those: boards have names of voices of speech engines too. It reports whether it did.
func (s *session) refused() bool {
	if s.agreed || s.config.Voice == s.plain.Voice && s.config.Speed == s.plain.Speed {
		return false
	}
	s.bot.log.Warn("the realtime service refuses the voice or speed of a board, so it has those of the bot",
		"host", s.bot.options.URL.Host, "voice", s.config.Voice, "speed", s.config.Speed)
	s.config = s.plain
	return s.conn.Send(s.c.ctx, s.config.Update(s.bot.options.Spelling)) == nil
}
