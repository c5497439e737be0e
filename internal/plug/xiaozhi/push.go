package xiaozhi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/tool"
	"patchbay/internal/voice"
	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pace"
)

const (
	// keepLater is how long something waits for a board to wake.
	keepLater = 24 * time.Hour
	// maxLater bounds what waits, in bytes. Longer sounds have to be at an address.
	maxLater = 60 << 10
	// playLimit bounds a sound that is played.
	playLimit = 5 * time.Minute
	// clipLife is for how long a board can fetch a sound that it was told of.
	clipLife = 15 * time.Minute
)

var (
	errNoConversation = errors.New("nobody talks with the board")
	errNoSound        = errors.New("this is neither Ogg-Opus nor WAV")
)

// push does to a board what its owner wants, now or later.
func (b *Board) push(ctx context.Context, call *tool.Call, a args) (*tool.Result, error) {
	if call.Tool == ToolPlay && (a.URL == "") == (len(a.Sound) == 0) {
		return nil, tool.Fail(tool.BadArgs, "Give either url or sound.", nil)
	}
	res, err := b.do(ctx, call.Tool, a)
	b.house.metrics.push(call.Tool, err)
	switch {
	case err == nil:
		return res, nil
	case errors.Is(err, errNoConversation) && a.Later:
		return b.keep(ctx, call, a)
	case errors.Is(err, errNoConversation) && b.connection() != nil:
		return nil, tool.Fail(tool.Offline, b.notNow()+": it plays sounds only in a conversation, or with firmware 2.5 and later. Set later, to have it played when somebody wakes it.", nil)
	case errors.Is(err, errNoConversation):
		return nil, b.asleep("Or set later, to have this delivered when it wakes.")
	}
	return nil, err
}

// keep keeps a push until the board wakes.
func (b *Board) keep(ctx context.Context, call *tool.Call, a args) (*tool.Result, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	if len(body) > maxLater {
		return nil, tool.Fail(tool.TooLarge, fmt.Sprintf("%s, and a sound of more than %d KiB cannot wait until then. Put it at an address, and give url.", b.notNow(), maxLater*3/4>>10), nil)
	}
	now := time.Now()
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	until := now.Add(keepLater)
	err = b.house.Store.Outbox.Add(ctx, store.Push{
		ID: id.String(), Device: b.number, Kind: call.Tool, Body: body, Person: call.Caller.Person, Key: call.Caller.Key, Created: now, Expires: until,
	})
	if errors.Is(err, store.ErrFull) {
		return nil, tool.Fail(tool.Busy, "Too much waits for the board already.", nil)
	}
	if err != nil {
		return nil, err
	}
	b.house.metrics.kept.Inc()
	if b.connection() != nil { // it woke in between
		b.house.spawn(b.deliver)
	}
	res := tool.JSON(map[string]any{"delivered": false, "waits": true, "expires_at": until.UTC().Truncate(time.Second)})
	words := b.notNow() + "; this will be delivered when it wakes."
	if b.connection() != nil {
		words = b.notNow() + "; this will be played when somebody wakes it."
	}
	res.Content = tool.Text(words).Content
	return res, nil
}

// notNow is why something has to wait.
func (b *Board) notNow() string {
	if b.connection() != nil {
		return "The board is connected, and nobody talks with it"
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stays() {
		return "The board is not connected at the moment"
	}
	return "The board is asleep"
}

// deliver gives the board what waited for it, as far as it can be given now. One
// delivery goes on at a time: it looks again if there is a reason to meanwhile.
func (b *Board) deliver() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.delivering {
		b.redeliver = true
		return
	}
	b.delivering = true
	for again := true; again; again, b.redeliver = b.redeliver, false {
		if l := b.line; l != nil {
			b.mu.Unlock()
			b.deliverTo(l)
			b.mu.Lock()
		}
	}
	b.delivering = false
}

// deliverTo does that as long as a connection is the board's.
func (b *Board) deliverTo(l *line) {
	ctx, cancel := b.house.background()
	items, err := b.house.Store.Outbox.For(ctx, b.number, time.Now())
	cancel()
	if err != nil {
		if b.house.ctx.Err() == nil {
			b.house.Logger.Warn("what waits for a board was not found", "device", b.number, "error", err)
		}
		return
	}
	for _, item := range items {
		if l.ctx.Err() != nil || b.connection() != l {
			return
		}
		var a args
		err := json.Unmarshal(item.Body, &a)
		if err == nil {
			ctx, cancel := context.WithTimeout(l.ctx, playLimit+writeLimit)
			_, err = b.do(ctx, item.Kind, a)
			cancel()
		}
		if err != nil && (errors.Is(err, errNoConversation) || l.ctx.Err() != nil) {
			continue // its time will come
		}
		b.house.metrics.push(item.Kind, err)
		if err != nil {
			b.house.Logger.Warn("what waited for a board could not be delivered", "device", b.number, "kind", item.Kind, "error", err)
		}
		// A board that was told something twice is better than one that is told nothing,
		// so it is taken away only now.
		ctx, cancel := b.house.background()
		if err := b.house.Store.Outbox.Remove(ctx, item.ID); err != nil {
			b.house.Logger.Warn("what was delivered to a board may be delivered again", "device", b.number, "error", err)
		}
		cancel()
	}
}

// done is the result of a push that the board has been told.
var done = func() *tool.Result {
	res := tool.JSON(map[string]any{"delivered": true})
	res.Content = tool.Text("Delivered.").Content
	return res
}()

// do does a push now. errNoConversation says that it cannot be done as long as the
// board sleeps.
func (b *Board) do(ctx context.Context, kind string, a args) (*tool.Result, error) {
	if kind == ToolPlay {
		return b.play(ctx, a)
	}
	l := b.connection()
	if l == nil {
		return nil, errNoConversation
	}
	m := wire.Message{}
	switch kind {
	case ToolShow:
		m = wire.Message{Type: wire.TypeTTS, State: wire.SpeakSentence, Text: a.Text}
	case ToolEmotion:
		m = wire.Message{Type: wire.TypeLLM, Emotion: a.Emotion}
	case ToolAlert:
		if a.Emotion == "" {
			a.Emotion = "neutral"
		}
		m = wire.Message{Type: wire.TypeAlert, Status: a.Title, Message: a.Text, Emotion: a.Emotion}
	case ToolReboot:
		m = wire.Message{Type: wire.TypeSystem, Command: wire.CommandReboot}
	default:
		return nil, fmt.Errorf("nothing is called %q", kind)
	}
	if c := b.conversation(); c != nil {
		m.SessionID = c.id
	}
	if err := l.send(m.Append(nil)); err != nil {
		return nil, tool.Fail(tool.Lost, "The connection to the board broke.", err)
	}
	return done, nil
}

// hush stops what the board plays.
func (b *Board) hush() *tool.Result {
	c := b.conversation()
	playing := false
	if c != nil {
		c.mu.Lock()
		playing = c.speaking
		c.mu.Unlock()
		if playing {
			c.Hush()
		}
	}
	return tool.JSON(map[string]any{"stopped": playing})
}

// play plays a sound: in the conversation that goes on, or as a notification.
func (b *Board) play(ctx context.Context, a args) (*tool.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, playLimit)
	defer cancel()
	c, l := b.conversation(), b.connection()
	switch {
	case l == nil:
		return nil, errNoConversation
	case c != nil:
		return b.playIn(ctx, c, a)
	case !b.notifies(l):
		return nil, errNoConversation
	}
	return b.notify(ctx, l, a)
}

// playIn plays a sound in a conversation.
func (b *Board) playIn(ctx context.Context, c *Conversation, a args) (*tool.Result, error) {
	file, err := b.open(ctx, a)
	if err != nil {
		return nil, err
	}
	src, err := b.house.sound(file, c.out)
	if err != nil {
		_ = file.Close() // it was only read from
		return nil, soundTrouble(err)
	}
	if a.Text != "" {
		src = &captioned{Source: src, text: a.Text}
	}
	stats, err := c.Speak(ctx, c.Generation(), src)
	switch {
	case errors.Is(err, pace.ErrAborted):
		return tool.JSON(map[string]any{"delivered": true, "interrupted": true, "frames": stats.Frames}), nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, tool.Fail(tool.TimedOut, fmt.Sprintf("Sounds of more than %s are not played to the end.", playLimit), err)
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil && c.ctx.Err() != nil:
		return nil, tool.Fail(tool.Lost, "The conversation ended before the sound did.", err)
	case err != nil:
		return nil, soundTrouble(err)
	}
	length := time.Duration(stats.Frames) * c.Frame()
	res := tool.JSON(map[string]any{
		"delivered": true, "frames": stats.Frames, "seconds": length.Seconds(), "gaps": stats.Gaps, "late": stats.Late,
	})
	res.Content = tool.Text(fmt.Sprintf("Played %.1f s.", length.Seconds())).Content
	return res, nil
}

func soundTrouble(err error) error {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, voice.ErrNoEncoder):
		return tool.Fail(tool.Failed, "This sound would have to be encoded, which this server cannot do. Give Ogg-Opus with frames of 20 or 60 ms.", err)
	case errors.Is(err, errNoSound):
		return tool.Fail(tool.BadArgs, "This is no sound that can be played. Ogg-Opus and WAV can.", err)
	}
	return tool.Fail(tool.Failed, "The sound could not be played to the end: it is damaged, or no longer there.", err)
}

// captioned is a sound with its words.
type captioned struct {
	pace.Source
	text  string
	given int
}

func (c *captioned) Next(ctx context.Context) ([]byte, error) {
	c.given++
	return c.Source.Next(ctx)
}

// Text implements [pace.Texter].
func (c *captioned) Text() (string, bool) { return c.text, c.given == 1 }

// Close implements io.Closer.
func (c *captioned) Close() error {
	closeSource(c.Source)
	return nil
}

// open opens the sound that was asked for.
func (b *Board) open(ctx context.Context, a args) (io.ReadCloser, error) {
	if len(a.Sound) > 0 {
		return io.NopCloser(bytes.NewReader(a.Sound)), nil
	}
	if b.house.Fetch == nil {
		return nil, tool.Fail(tool.Denied, "This server fetches nothing. Give the sound itself.", nil)
	}
	r, err := b.house.Fetch(ctx, a.URL)
	if err != nil {
		return nil, tool.Fail(tool.Failed, "The sound could not be fetched from its address.", err)
	}
	if r.StatusCode != http.StatusOK {
		_ = r.Body.Close() // nothing was read
		return nil, tool.Fail(tool.Failed, fmt.Sprintf("The address of the sound answers %s.", r.Status), nil)
	}
	return r.Body, nil
}

// sound makes packets for a board of a file that comes.
func (h *Boards) sound(file io.ReadCloser, out wire.Audio) (pace.Source, error) {
	var head [4]byte
	if _, err := io.ReadFull(file, head[:]); err != nil {
		return nil, errNoSound
	}
	whole := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:]), file), file}
	o := voice.Output{Encoding: h.encoding(out), Encoders: h.Encoders}
	switch string(head[:]) {
	case "OggS":
		return voice.OggOpus(whole, o), nil
	case "RIFF":
		return voice.WAV(whole, o), nil
	}
	return nil, errNoSound
}

// encoding is how sound is encoded for a board, if it has to be.
func (h *Boards) encoding(out wire.Audio) opus.Encoding {
	return opus.Encoding{SampleRate: out.SampleRate, Frame: out.Frame(), Complexity: 5, Bitrate: 32000}
}

// notifies says whether a board plays what it is told the address of.
func (b *Board) notifies(l *line) bool {
	if l.via != store.TransportMQTT {
		return false
	}
	b.mu.Lock()
	version := b.device.Version
	b.mu.Unlock()
	older, err := wire.Newer("2.5", version)
	return err == nil && !older && b.house.placeFor(l).host != ""
}

// notify has a board fetch and play a sound although nobody talks with it. The board
// says nothing when it has.
func (b *Board) notify(ctx context.Context, l *line, a args) (*tool.Result, error) {
	file, err := b.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read from
	clip, length, err := b.house.clip(ctx, file)
	if err != nil {
		return nil, soundTrouble(err)
	}
	token := seal.Token(24)
	if err := b.house.Store.Media.Add(ctx, seal.Hash(token), store.Picture{MIME: "audio/ogg", Data: clip, Expires: time.Now().Add(clipLife)}, time.Now()); err != nil {
		return nil, err
	}
	m := wire.Message{Type: wire.TypeNotify, AudioURL: b.house.placeFor(l).file("/media/" + token)}
	if a.Text != "" {
		m.Subtitles = []wire.Subtitle{{Text: a.Text}}
	}
	if err := l.send(m.Append(nil)); err != nil {
		return nil, tool.Fail(tool.Lost, "The connection to the board broke.", err)
	}
	res := tool.JSON(map[string]any{"delivered": true, "notified": true, "seconds": length.Seconds()})
	res.Content = tool.Text(fmt.Sprintf("Delivered. The board fetches and plays it: %.1f s.", length.Seconds())).Content
	return res, nil
}

// maxClip bounds a sound that a board fetches, in bytes.
const maxClip = 4 << 20

// clip makes the file that a board can play by itself: Ogg-Opus in one channel.
func (h *Boards) clip(ctx context.Context, file io.ReadCloser) ([]byte, time.Duration, error) {
	out := wire.Audio{SampleRate: wire.DownlinkRate, FrameDuration: int(wire.DownlinkFrame.Milliseconds())}
	src, err := h.sound(file, out)
	if err != nil {
		return nil, 0, err
	}
	defer closeSource(src)
	var buf bytes.Buffer
	w, err := ogg.NewWriter(&buf, ogg.Recording{Channels: 1, InputRate: out.SampleRate, Vendor: "patchbay"})
	if err != nil {
		return nil, 0, err
	}
	for {
		packet, err := src.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.Write(packet)
		}
		if err == nil && buf.Len() > maxClip {
			err = tool.Fail(tool.TooLarge, "The sound is too long for a notification.", nil)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, 0, err
	}
	return buf.Bytes(), w.Length(), nil
}
