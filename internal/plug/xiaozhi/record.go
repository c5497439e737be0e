package xiaozhi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/tool"
	"patchbay/internal/voice"
	"patchbay/internal/voice/ogg"
)

const (
	// tapLength is how many packets wait for a recording: fifteen seconds. When it is
	// full, new ones are dropped, and are silence in the recording.
	tapLength = 256
	// maxTaps bounds recordings and listeners of one board.
	maxTaps = 8
	// maxRecording bounds what a recording keeps in memory, in bytes: half an hour of
	// speech.
	maxRecording = 4 << 20
	// openRecording is after how long a recording ends that was started and is not
	// stopped.
	openRecording = 30 * time.Minute
	// keptRecording is how long one that ended like that is kept in memory.
	keptRecording = 30 * time.Minute
	// livePages is how much sound somebody who listens lags behind.
	livePages = 180 * time.Millisecond
)

// tap is where the sound of a board also goes.
type tap struct {
	packets chan sound
}

type sound struct {
	opus []byte
	at   time.Time
}

func newTap() *tap { return &tap{packets: make(chan sound, tapLength)} }

func (t *tap) take(packet []byte, at time.Time) {
	select {
	case t.packets <- sound{bytes.Clone(packet), at}:
	default: // see tapLength
	}
}

// tap adds a tap to a conversation. It is false if there are too many.
func (c *Conversation) tap(t *tap) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.taps) >= maxTaps {
		return false
	}
	c.taps = append(append([]*tap(nil), c.taps...), t) // the reader has the old ones
	return true
}

func (c *Conversation) untap(t *tap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rest []*tap
	for _, other := range c.taps {
		if other != t {
			rest = append(rest, other)
		}
	}
	c.taps = rest
}

// awaitTalk waits for somebody to talk with the board.
func (b *Board) awaitTalk(ctx context.Context) (*Conversation, error) {
	for {
		b.mu.Lock()
		if c := b.talk; c != nil && c.ctx.Err() == nil {
			b.mu.Unlock()
			return c, nil
		}
		if b.woke == nil {
			b.woke = make(chan struct{})
		}
		woke := b.woke
		b.mu.Unlock()
		select {
		case <-woke:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-b.ctx.Done():
			return nil, context.Cause(b.ctx)
		case <-b.house.stopping:
			return nil, errDrained
		}
	}
}

var errTaps = tool.Fail(tool.Busy, "Too many listen to the board already.", nil)

// file is what is written of what a board hears.
type file interface {
	Packet(at time.Time, packet []byte) error
	Flush() error
	Length() time.Duration
	Close() error
}

// follow writes what a board hears until ctx ends, into a file that begins with the first
// conversation. With once, it ends with that.
func (b *Board) follow(ctx context.Context, e *ear, begin func(*Conversation) (file, error), once bool) (length time.Duration, err error) {
	defer e.over()
	var rec file
	t := newTap()
	for {
		c, err := b.awaitTalk(ctx)
		if err != nil {
			break
		}
		if !c.tap(t) {
			return length, errTaps
		}
		e.show(c)
		err = t.write(ctx, c, &rec, begin)
		c.untap(t)
		if err != nil {
			return length, err
		}
		if once || ctx.Err() != nil {
			break
		}
	}
	if rec == nil {
		return 0, nil
	}
	err = rec.Close()
	return rec.Length(), err
}

// write writes what comes until the conversation or ctx ends.
func (t *tap) write(ctx context.Context, c *Conversation, rec *file, begin func(*Conversation) (file, error)) (err error) {
	if *rec == nil {
		if *rec, err = begin(c); err != nil {
			return err
		}
	}
	for {
		select {
		case s := <-t.packets:
			if err := (*rec).Packet(s.at, s.opus); err != nil {
				return err
			}
		case <-c.ctx.Done():
			return t.rest(*rec)
		case <-ctx.Done():
			return t.rest(*rec)
		}
	}
}

// rest writes what has come already, so that whoever listens has all of it.
func (t *tap) rest(rec file) error {
	for {
		select {
		case s := <-t.packets:
			if err := rec.Packet(s.at, s.opus); err != nil {
				return err
			}
		default:
			return rec.Flush()
		}
	}
}

// inOgg begins an Ogg-Opus file.
func inOgg(w io.Writer, every time.Duration) func(*Conversation) (file, error) {
	return func(c *Conversation) (file, error) {
		rate := c.hello.Audio.SampleRate
		if rate <= 0 || rate > 48000 {
			rate = wire.UplinkRate
		}
		return voice.NewRecorder(w, ogg.Recording{Channels: 1, InputRate: rate, Vendor: "patchbay", Every: every, Tags: []ogg.Tag{{Name: "TITLE", Value: c.device.Name}}})
	}
}

// asWAV begins a WAV file without end.
func asWAV(w io.Writer) func(*Conversation) (file, error) {
	return func(*Conversation) (file, error) { return voice.NewLive(w) }
}

// record is the tool: so many seconds from when somebody talks.
func (b *Board) record(ctx context.Context, who tool.Caller, a args) (*tool.Result, error) {
	if a.Seconds == 0 {
		a.Seconds = 10
	}
	wait := 60
	if a.Wait != nil {
		wait = *a.Wait
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(wait)*time.Second)
	_, err := b.awaitTalk(waiting)
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, tool.Fail(tool.Offline, fmt.Sprintf("Nobody talked to the board within %d seconds.", wait), nil)
	}
	listening, cancel := context.WithTimeout(ctx, time.Duration(a.Seconds)*time.Second)
	defer cancel()
	var buf limited
	length, err := b.follow(listening, b.heardBy(who, heardFile), inOgg(&buf, 0), true)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return recorded(buf.Bytes(), length), nil
}

// recorded is a recording as a result.
func recorded(file []byte, length time.Duration) *tool.Result {
	text := fmt.Sprintf("Recorded %.1f s.", length.Seconds())
	if len(file) == 0 {
		text = "Nothing was heard."
	}
	type block struct {
		Type string `json:"type"`
		Text string `json:"text,omitempty"`
		Data string `json:"data,omitempty"`
		MIME string `json:"mimeType,omitempty"`
	}
	blocks := []block{{Type: "text", Text: text}}
	if len(file) > 0 {
		blocks = append(blocks, block{Type: "audio", Data: base64.StdEncoding.EncodeToString(file), MIME: "audio/ogg"})
	}
	content, _ := json.Marshal(blocks) // texts
	structured, _ := json.Marshal(map[string]any{"seconds": length.Seconds(), "bytes": len(file)})
	return &tool.Result{Content: content, Structured: structured}
}

// limited is a buffer that refuses to grow without bound.
type limited struct{ bytes.Buffer }

var errLong = errors.New("the recording is full")

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxRecording {
		return 0, errLong
	}
	return l.Buffer.Write(p)
}

// recording is one that was started.
type recording struct {
	cancel context.CancelFunc
	taken  chan struct{} // closed when somebody stops it
	done   chan struct{} // closed when it has ended; the rest is valid then
	buf    limited
	length time.Duration
	err    error
}

// audio is the tool of commands about sound.
func (b *Board) audio(ctx context.Context, who tool.Caller, a args) (*tool.Result, error) {
	switch a.Action {
	case "start":
		return b.startRecording(who)
	case "stop":
		return b.stopRecording(ctx)
	case "set":
		return b.setAudio(ctx, a)
	}
	return nil, tool.Fail(tool.BadArgs, "action is start, stop or set.", nil)
}

func (b *Board) startRecording(who tool.Caller) (*tool.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rec != nil {
		return nil, tool.Fail(tool.Busy, "A recording runs already. Stop it first.", nil)
	}
	ctx, cancel := context.WithTimeout(b.ctx, openRecording)
	r := &recording{cancel: cancel, taken: make(chan struct{}), done: make(chan struct{})}
	if !b.house.spawn(func() {
		r.length, r.err = b.follow(ctx, b.heardBy(who, heardFile), inOgg(&r.buf, 0), false)
		close(r.done)
		b.keepRecording(r)
	}) {
		cancel()
		return nil, tool.Fail(tool.Offline, "The server stops.", nil)
	}
	b.rec = r
	return tool.JSON(map[string]any{"recording": true, "talking": b.talk != nil, "ends_at": time.Now().Add(openRecording).UTC().Truncate(time.Second)}), nil
}

// keepRecording keeps a recording that has ended until somebody takes it, or it has
// waited for long enough.
func (b *Board) keepRecording(r *recording) {
	timer := time.NewTimer(keptRecording)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.taken:
	case <-b.ctx.Done():
	}
	r.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rec == r {
		b.rec = nil
	}
}

func (b *Board) stopRecording(ctx context.Context) (*tool.Result, error) {
	b.mu.Lock()
	r := b.rec
	b.rec = nil
	b.mu.Unlock()
	if r == nil {
		return nil, tool.Fail(tool.BadArgs, "No recording runs.", nil)
	}
	r.cancel()
	close(r.taken)
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.err != nil && !errors.Is(r.err, errLong) {
		return nil, r.err
	}
	return recorded(r.buf.Bytes(), r.length), nil
}

// settings are what a board's owner set, as kept in the database.
type settings struct {
	SampleRate int `json:"sample_rate,omitempty"` // of the sound for the board, in Hz
	Frame      int `json:"frame_ms,omitempty"`
}

// setAudio changes how sound is sent to the board.
func (b *Board) setAudio(ctx context.Context, a args) (*tool.Result, error) {
	b.deciding.Lock()
	defer b.deciding.Unlock()
	d, err := b.house.Store.Devices.ByNumber(ctx, b.number) // another instance may have set something else
	if err != nil {
		return nil, err
	}
	var s settings
	_ = json.Unmarshal(d.Settings, &s) // what cannot be read is replaced
	if a.SampleRate != 0 {
		s.SampleRate = a.SampleRate
	}
	if a.Frame != 0 {
		s.Frame = a.Frame
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if err := b.house.Store.Devices.SetSettings(ctx, b.number, text); err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.device.Settings = text
	b.mu.Unlock()
	out := b.output()
	return tool.JSON(map[string]any{"sample_rate": out.SampleRate, "frame_ms": out.FrameDuration, "from": "the next conversation"}), nil
}

// output is how sound is sent to the board in its next conversation.
func (b *Board) output() wire.Audio {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s settings
	_ = json.Unmarshal(b.device.Settings, &s) // what cannot be read was not set
	out := wire.Audio{Format: "opus", SampleRate: wire.DownlinkRate, Channels: 1, FrameDuration: int(wire.DownlinkFrame.Milliseconds())}
	if s.SampleRate != 0 {
		out.SampleRate = s.SampleRate
	}
	if s.Frame != 0 {
		out.FrameDuration = s.Frame
	}
	if out.Playable() != nil {
		out.SampleRate, out.FrameDuration = wire.DownlinkRate, int(wire.DownlinkFrame.Milliseconds())
	}
	return out
}

// Listen writes what a board hears to w as Ogg-Opus, while it is heard, until ctx
// ends or the server stops. Nothing comes while nobody talks to the board, which shows who
// listens. An error
// is a *[tool.Error] if the caller can do something about it.
func (h *Boards) Listen(ctx context.Context, number int64, who tool.Caller, w io.Writer) error {
	return h.listen(ctx, number, who, inOgg(w, livePages))
}

// Hear is [Boards.Listen] for browsers: a WAV file without end.
func (h *Boards) Hear(ctx context.Context, number int64, who tool.Caller, w io.Writer) error {
	return h.listen(ctx, number, who, asWAV(w))
}

func (h *Boards) listen(ctx context.Context, number int64, who tool.Caller, begin func(*Conversation) (file, error)) error {
	b := h.find(number)
	if b == nil {
		return tool.Fail(tool.Offline, "There is no such board here.", nil)
	}
	if _, held, _ := h.Hub.Plugged(OutletOf(number)); held && b.connection() == nil {
		return tool.Fail(tool.Offline, "The board is connected to another instance of this server. Ask that one, or record instead.", nil)
	}
	h.metrics.listeners.Inc()
	defer h.metrics.listeners.Dec()
	_, err := b.follow(ctx, b.heardBy(who, heardLive), begin, false)
	return err
}
