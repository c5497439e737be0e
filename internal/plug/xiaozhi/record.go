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

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/tool"
	"patchbay/internal/voice"
	"patchbay/internal/voice/ogg"
)

const (
	// tapQueue is how many packets wait for a recording: fifteen seconds. When the queue is full,
	// new packets are dropped and become silence in the recording.
	tapQueue = 256
	// maxTaps limits the recordings and listeners of a board.
	maxTaps = 8
	// maxRecording limits a recording in memory, in bytes: half an hour of speech.
	maxRecording = 4 << 20
	// maxRecordingTime limits a recording that was started and is not stopped.
	maxRecordingTime = 30 * time.Minute
	// recordingTTL is how long such a recording stays in memory.
	recordingTTL = 30 * time.Minute
	// livePageInterval is the delay of live listening, from the length of its Ogg pages.
	livePageInterval = 180 * time.Millisecond
)

// tap receives a copy of the audio of a board.
type tap struct {
	packets chan timedPacket
}

type timedPacket struct {
	opus []byte
	at   time.Time
}

func newTap() *tap { return &tap{packets: make(chan timedPacket, tapQueue)} }

func (t *tap) push(packet []byte, at time.Time) {
	select {
	case t.packets <- timedPacket{bytes.Clone(packet), at}:
	default: // see tapQueue
	}
}

// tap adds a tap to the conversation. It returns false if there are maxTaps already.
func (c *Conversation) tap(t *tap) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.taps) >= maxTaps {
		return false
	}
	c.taps = append(append([]*tap(nil), c.taps...), t) // copied: onAudio reads the old slice without mu
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

// awaitConversation returns the board's conversation, and waits for one if there is none.
func (b *Board) awaitConversation(ctx context.Context) (*Conversation, error) {
	for {
		b.mu.Lock()
		if c := b.conv; c != nil && c.ctx.Err() == nil {
			b.mu.Unlock()
			return c, nil
		}
		if b.convStarted == nil {
			b.convStarted = make(chan struct{})
		}
		started := b.convStarted
		b.mu.Unlock()
		select {
		case <-started:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-b.ctx.Done():
			return nil, context.Cause(b.ctx)
		case <-b.boards.stopping:
			return nil, errServerStopping
		}
	}
}

var errTaps = tool.Fail(tool.Busy, "Too many listen to the board already.", nil)

// audioWriter writes packets to a file.
type audioWriter interface {
	Packet(at time.Time, packet []byte) error
	Flush() error
	Length() time.Duration
	Close() error
}

// capture writes what a board hears until ctx ends, into a file that begins with the first
// conversation. With once, it stops at the end of that conversation.
func (b *Board) capture(ctx context.Context, e *activeListener, begin func(*Conversation) (audioWriter, error),
	once bool) (length time.Duration, err error) {
	defer e.stop()
	var rec audioWriter
	t := newTap()
	for {
		c, err := b.awaitConversation(ctx)
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

// write writes packets until the conversation or ctx ends.
func (t *tap) write(ctx context.Context, c *Conversation, rec *audioWriter,
	begin func(*Conversation) (audioWriter, error)) (err error) {
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
			return t.drain(*rec)
		case <-ctx.Done():
			return t.drain(*rec)
		}
	}
}

// drain writes the packets that are queued already, and flushes.
func (t *tap) drain(rec audioWriter) error {
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

// oggWriter makes writers of Ogg-Opus files.
func oggWriter(w io.Writer, every time.Duration) func(*Conversation) (audioWriter, error) {
	return func(c *Conversation) (audioWriter, error) {
		rate := c.hello.Audio.SampleRate
		if rate <= 0 || rate > 48000 {
			rate = wire.UplinkRate
		}
		return voice.NewRecorder(w, ogg.WriterOptions{Channels: 1, InputRate: rate,
			Vendor: "patchbay", PageInterval: every, Tags: []ogg.Tag{{Name: "TITLE", Value: c.device.Name}}})
	}
}

// wavWriter makes writers of WAV streams of unknown length.
func wavWriter(w io.Writer) func(*Conversation) (audioWriter, error) {
	return func(*Conversation) (audioWriter, error) { return voice.NewWAVStream(w) }
}

// record carries out the tool record: a number of seconds of the active or next conversation.
func (b *Board) record(ctx context.Context, who tool.Caller, a toolArgs) (*tool.Result, error) {
	if a.Seconds == 0 {
		a.Seconds = 10
	}
	wait := 60
	if a.Wait != nil {
		wait = *a.Wait
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(wait)*time.Second)
	_, err := b.awaitConversation(waiting)
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, tool.Fail(tool.Offline, fmt.Sprintf("Nobody talked to the board within %d seconds.", wait), nil)
	}
	listening, cancel := context.WithTimeout(ctx, time.Duration(a.Seconds)*time.Second)
	defer cancel()
	var buf limitedBuffer
	length, err := b.capture(listening, b.addListener(who, listenRecording), oggWriter(&buf, 0), true)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return recordingResult(buf.Bytes(), length), nil
}

// recordingResult returns the tool result for a recording.
func recordingResult(file []byte, length time.Duration) *tool.Result {
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
	content, _ := json.Marshal(blocks) // strings
	structured, _ := json.Marshal(map[string]any{"seconds": length.Seconds(), "bytes": len(file)})
	return &tool.Result{Content: content, Structured: structured}
}

// limitedBuffer is a buffer of at most maxRecording bytes.
type limitedBuffer struct{ bytes.Buffer }

var errRecordingFull = errors.New("the recording is full")

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxRecording {
		return 0, errRecordingFull
	}
	return l.Buffer.Write(p)
}

// recording is a recording that the tool audio started.
type recording struct {
	cancel  context.CancelFunc
	stopped chan struct{} // closed by stopRecording
	done    chan struct{} // closed at the end; the fields below are valid then
	buf     limitedBuffer
	length  time.Duration
	err     error
}

// audio carries out the tool audio.
func (b *Board) audio(ctx context.Context, who tool.Caller, a toolArgs) (*tool.Result, error) {
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
	ctx, cancel := context.WithTimeout(b.ctx, maxRecordingTime)
	r := &recording{cancel: cancel, stopped: make(chan struct{}), done: make(chan struct{})}
	if !b.boards.spawn(func() {
		r.length, r.err = b.capture(ctx, b.addListener(who, listenRecording), oggWriter(&r.buf, 0), false)
		close(r.done)
		b.keepRecording(r)
	}) {
		cancel()
		return nil, tool.Fail(tool.Offline, "The server stops.", nil)
	}
	b.rec = r
	return tool.JSON(map[string]any{"recording": true, "talking": b.conv != nil,
		"ends_at": time.Now().Add(maxRecordingTime).UTC().Truncate(time.Second)}), nil
}

// keepRecording ends and forgets a recording when it is stopped, or after recordingTTL.
func (b *Board) keepRecording(r *recording) {
	netx.WaitUnless(b.ctx, r.stopped, recordingTTL)
	r.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rec == r {
		b.rec = nil
	}
}

var errNoRecording = tool.Fail(tool.BadArgs, "No recording runs.", nil)

func (b *Board) stopRecording(ctx context.Context) (*tool.Result, error) {
	b.mu.Lock()
	r := b.rec
	b.mu.Unlock()
	if r == nil {
		return nil, errNoRecording
	}
	r.cancel()
	select {
	case <-r.done:
	case <-ctx.Done(): // it can be stopped once more
		return nil, ctx.Err()
	}
	b.mu.Lock()
	mine := b.rec == r
	if mine {
		b.rec = nil
		close(r.stopped)
	}
	b.mu.Unlock()
	if !mine {
		return nil, errNoRecording
	}
	if r.err != nil && !errors.Is(r.err, errRecordingFull) {
		return nil, r.err
	}
	return recordingResult(r.buf.Bytes(), r.length), nil
}

// audioSettings are the format of the sound for a board, as stored in the database.
type audioSettings struct {
	SampleRate int `json:"sample_rate,omitempty"` // of the audio for the board, in Hz
	Frame      int `json:"frame_ms,omitempty"`
}

// setAudio changes the audio format for the board.
func (b *Board) setAudio(ctx context.Context, a toolArgs) (*tool.Result, error) {
	b.updateMu.Lock()
	defer b.updateMu.Unlock()
	d, err := b.boards.Store.Devices.ByNumber(ctx, b.number) // another instance may have changed the settings
	if err != nil {
		return nil, err
	}
	var s audioSettings
	_ = json.Unmarshal(d.Settings, &s) // unreadable settings are replaced
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
	if err := b.boards.Store.Devices.SetSettings(ctx, b.number, text); err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.device.Settings = text
	b.mu.Unlock()
	out := b.output()
	return tool.JSON(map[string]any{"sample_rate": out.SampleRate, "frame_ms": out.FrameDuration,
		"from": "the next conversation"}), nil
}

// output returns the audio format for the board's next conversation.
func (b *Board) output() wire.Audio {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s audioSettings
	_ = json.Unmarshal(b.device.Settings, &s) // unreadable settings count as none
	out := wire.Audio{Format: "opus", SampleRate: wire.DownlinkRate, Channels: 1,
		FrameDuration: int(wire.DownlinkFrame.Milliseconds())}
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

// ListenOgg writes what a board hears to w as Ogg-Opus, live, until ctx ends or the server stops.
// It writes nothing while the board has no conversation. The board shows who listens. An error that
// the caller can do something about is a *[tool.Error].
func (h *Boards) ListenOgg(ctx context.Context, number int64, who tool.Caller, w io.Writer) error {
	return h.listen(ctx, number, who, oggWriter(w, livePageInterval))
}

// ListenWAV is [Boards.ListenOgg] for browsers: a WAV stream of unknown length.
func (h *Boards) ListenWAV(ctx context.Context, number int64, who tool.Caller, w io.Writer) error {
	return h.listen(ctx, number, who, wavWriter(w))
}

func (h *Boards) listen(ctx context.Context, number int64, who tool.Caller,
	begin func(*Conversation) (audioWriter, error)) error {
	b := h.find(number)
	if b == nil {
		return tool.Fail(tool.Offline, "There is no such board here.", nil)
	}
	if _, held, _ := h.Hub.FindProvider(ProviderID(number)); held && b.connection() == nil {
		return tool.Fail(tool.Offline,
			"The board is connected to another instance of this server. Ask that one, or record instead.", nil)
	}
	h.metrics.listeners.Inc()
	defer h.metrics.listeners.Dec()
	_, err := b.capture(ctx, b.addListener(who, listenLive), begin, false)
	return err
}
