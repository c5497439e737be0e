package xiaozhi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
	"patchbay/internal/voice"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/pace"
	"patchbay/internal/voice/spoken"
)

const (
	// maxSaid limits a text to say, in runes: some three minutes of speech.
	maxSaid = 1000
	// priorityAlarm is the value of the argument priority that interrupts everything.
	priorityAlarm = "alarm"
	// priorityIdle is the value that says nothing during a conversation, reasonTalking why in
	// results.
	priorityIdle  = "idle"
	reasonTalking = "conversation"
	// reasonLimit is why a text is shown instead of spoken, in results: a limit of speech is
	// reached.
	reasonLimit = "limit"
)

// until returns how long a push waits for a board that is asleep.
func (a *toolArgs) until(now time.Time) time.Time {
	latest := now.Add(laterTTL)
	if a.Until.IsZero() || a.Until.After(latest) {
		return latest
	}
	return a.Until
}

// errNoEngine means that nothing can speak. The text may be shown instead.
var errNoEngine = errors.New("no speech engine is set up")

// engines returns the engines that speak for a board; nil if none can.
func (h *Boards) engines(ctx context.Context, d store.Device) *engine.Chain {
	v, ok := h.Voice.(speaks)
	if !ok {
		return nil
	}
	s := h.VoiceSettings(ctx, d)
	chain := s.chain(v.engines(d))
	if !chain.CanSpeak() {
		return nil
	}
	return chain
}

// say speaks a text, in the conversation, or else as a notification. It fails with
// errNoConversation if the board must wake, or be in a conversation, first.
func (b *Board) say(ctx context.Context, a toolArgs) (*tool.Result, error) {
	b.mu.Lock()
	d := b.device
	b.mu.Unlock()
	chain := b.boards.engines(ctx, d)
	if chain == nil {
		return b.cannotSay(ctx, a, errNoEngine)
	}
	if refusal := chain.Refusal(ctx); refusal != nil {
		return b.cannotSay(ctx, a, refusal)
	}
	l, c := b.connection(), b.conversation()
	if l == nil || c == nil && !b.canNotify(l) {
		return nil, errNoConversation
	}
	out := notificationAudio
	if c != nil {
		out = c.output
	}
	src, err := b.speech(ctx, chain, a, out)
	if err != nil {
		return b.cannotSay(ctx, a, err)
	}
	if c == nil {
		defer src.Close() //nolint:errcheck // it was only read from
		clip, err := encodeClip(ctx, src)
		if err != nil {
			return b.cannotSay(ctx, a, err)
		}
		return b.notify(ctx, l, clip)
	}
	p := Notice
	if a.Priority == priorityAlarm {
		p = Alarm
	}
	stats, err := c.Play(ctx, p, c.Generation(), src)
	switch {
	case err == nil, errors.Is(err, pace.ErrAborted):
		return spokenResult(time.Duration(stats.Frames)*c.Frame(), err != nil), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case c.ctx.Err() != nil && stats.Frames == 0:
		return b.say(ctx, a) // the conversation ended before
	case c.ctx.Err() != nil:
		return nil, tool.Fail(tool.Lost, "The conversation ended before the text did.", err)
	}
	return b.cannotSay(ctx, a, err)
}

// talkingResult is the result of a text that is not said because somebody talks with the board.
func talkingResult() *tool.Result {
	res := tool.JSON(map[string]any{"spoken": false, "reason": reasonTalking})
	res.Content = tool.Text("Somebody talks with the board, so it is not said.").Content
	return res
}

func spokenResult(length time.Duration, interrupted bool) *tool.Result {
	res := tool.JSON(map[string]any{"spoken": !interrupted, "interrupted": interrupted, "seconds": length.Seconds()})
	words := fmt.Sprintf("Spoken: %.1f s.", length.Seconds())
	if interrupted {
		words = fmt.Sprintf("Somebody stopped it after %.1f s.", length.Seconds())
	}
	res.Content = tool.Text(words).Content
	return res
}

// Texts about what cannot be spoken.
const (
	toldNoEngine = "This server has no speech engine"
	toldShown    = ". The board shows the text instead."
)

// cannotSay shows what cannot be spoken. A text that a limit of speech leaves to be shown has a
// result; everything else is an error for the caller.
func (b *Board) cannotSay(ctx context.Context, a toolArgs, err error) (*tool.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, errPlaylistFull) {
		return nil, tool.Fail(tool.Busy, "Too much waits to be played already.", err)
	}
	e := engine.AsError(err)
	text := "The speech engine cannot speak at the moment: " + e.In(i18n.English)
	if errors.Is(err, errNoEngine) {
		text = toldNoEngine
	} else if e.Class == engine.Spent {
		text = "The text is not spoken: " + e.In(i18n.English)
	}
	shown := []rune(a.Text)
	shown = shown[:min(len(shown), maxShown)]
	if _, err := b.execute(ctx, ToolShow, toolArgs{Text: string(shown)}); err != nil {
		return nil, tool.Fail(tool.Failed, text+".", err)
	}
	text += toldShown
	if e.Class != engine.Spent {
		return nil, tool.Fail(tool.Failed, text, err)
	}
	res := tool.JSON(map[string]any{"spoken": false, "shown": true, "reason": reasonLimit})
	res.Content = tool.Text(text).Content
	return res, nil
}

// speech returns the sound of a text.
func (b *Board) speech(ctx context.Context, chain *engine.Chain, a toolArgs, out wire.Audio) (*spokenText, error) {
	b.mu.Lock()
	d := b.device
	b.mu.Unlock()
	s := &spokenText{boards: b.boards, out: out, fed: make(chan struct{})}
	ctx, s.cancel = context.WithCancel(ctx)
	set := b.boards.VoiceSettings(ctx, d)
	manner := set.manner()
	manner.Voice = cmp.Or(a.Voice, manner.Voice)
	s.speech = chain.Speak(ctx, manner)
	pieces := spoken.Pieces(a.Text, i18n.ParseLang(set.Language, b.boards.Lang))
	if !b.boards.spawn(func() { s.feed(pieces) }) {
		s.cancel()
		s.speech.Close()
		return nil, errServerStopping
	}
	return s, nil
}

// spokenText is the sound of a whole text: one clip after the other. It is used by one goroutine.
type spokenText struct {
	boards  *Boards
	out     wire.Audio
	speech  *engine.ChainSpeech
	cancel  context.CancelFunc // ends the wait for the engine
	release func() bool        // of the watch over the context of the playback
	fed     chan struct{}      // closed when feed has ended
	clip    pace.Source        // nil between clips
	text    string             // of the clip, until its first packet was returned
	showing bool               // the text begins with the last packet
}

// feed gives the engine the pieces.
func (s *spokenText) feed(pieces []string) {
	defer close(s.fed)
	for _, piece := range pieces {
		if s.speech.Write(piece) != nil {
			return // closed
		}
	}
	_ = s.speech.Finish() // never fails
}

// Next implements [pace.Source]. Its error is that of the last engine.
func (s *spokenText) Next(ctx context.Context) ([]byte, error) {
	if s.release == nil {
		s.release = context.AfterFunc(ctx, s.cancel)
	}
	for {
		if s.clip == nil {
			clip, err := s.speech.Next()
			if err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				return nil, err
			}
			s.clip, s.text = s.boards.clipSource(clip, s.out), clip.Text
		}
		packet, err := s.clip.Next(ctx)
		switch {
		case err == nil:
			s.showing = s.text != ""
			return packet, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, io.EOF):
			s.speech.Reject(err)
		}
		closeSource(s.clip)
		s.clip = nil
	}
}

// Text implements [pace.TextSource].
func (s *spokenText) Text() (string, bool) {
	if !s.showing {
		return "", false
	}
	text := s.text
	s.text, s.showing = "", false
	return text, true
}

// Close implements io.Closer.
func (s *spokenText) Close() error {
	if s.release != nil {
		s.release()
	}
	if s.clip != nil {
		closeSource(s.clip)
	}
	s.cancel()
	s.speech.Close()
	<-s.fed
	return nil
}

// encodedClip is a sound that boards play by themselves: mono Ogg-Opus, with its texts.
type encodedClip struct {
	data      []byte
	length    time.Duration
	subtitles []wire.Subtitle
}

// encodeClip writes a sound to a clip.
func encodeClip(ctx context.Context, src pace.Source) (c encodedClip, err error) {
	var buf bytes.Buffer
	w, err := ogg.NewWriter(&buf, ogg.WriterOptions{Channels: 1, InputRate: wire.DownlinkRate, Vendor: "patchbay"})
	if err != nil {
		return c, err
	}
	texts, _ := src.(pace.TextSource)
	for {
		packet, err := src.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && texts != nil {
			if text, begins := texts.Text(); begins {
				c.subtitles = append(c.subtitles, wire.Subtitle{StartMS: int(w.Length().Milliseconds()), Text: text})
			}
		}
		if err == nil {
			err = w.Write(packet)
		}
		if err == nil && buf.Len() > maxClip {
			err = tool.Fail(tool.TooLarge, "The sound is too long for a notification.", nil)
		}
		if err != nil {
			return c, err
		}
	}
	if err := w.Close(); err != nil {
		return c, err
	}
	c.data, c.length = buf.Bytes(), w.Length()
	return c, nil
}

// clipSource makes packets of what an engine has spoken.
func (h *Boards) clipSource(clip engine.Clip, out wire.Audio) pace.Source {
	o := voice.Output{Encoding: h.encoding(out), Encoders: h.Encoders}
	switch clip.Format {
	case engine.OggOpus:
		return voice.OggOpus(clip.Sound, o)
	case engine.WAV:
		return voice.WAV(clip.Sound, o)
	case engine.MP3:
		return voice.MP3(clip.Sound, o)
	}
	return voice.PCM(clip.Sound, clip.Rate, o)
}
