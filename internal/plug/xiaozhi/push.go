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
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pace"
)

const (
	// laterTTL is how long a push waits for a board to wake.
	laterTTL = 24 * time.Hour
	// maxLaterBytes limits a push that waits, in bytes of JSON. Longer sounds need a URL.
	maxLaterBytes = 60 << 10
	// playTimeout limits the playback of a sound.
	playTimeout = 5 * time.Minute
	// clipTTL is how long a board can fetch a sound after a notification.
	clipTTL = 15 * time.Minute
)

var (
	errNoConversation = errors.New("nobody talks with the board")
	errNoSound        = errors.New("this is neither Ogg-Opus nor WAV nor MP3")
)

// push carries out a push tool, now or, if the caller allows it, when the board wakes.
func (b *Board) push(ctx context.Context, call *tool.Call, a toolArgs) (*tool.Result, error) {
	if call.Tool == ToolPlay && (a.URL == "") == (len(a.Sound) == 0) {
		return nil, tool.Fail(tool.BadArgs, "Give either url or sound.", nil)
	}
	if call.Tool == ToolSay && a.Priority == priorityIdle && b.conversation() != nil {
		return talkingResult(), nil
	}
	res, err := b.execute(ctx, call.Tool, a)
	b.boards.metrics.recordPush(call.Tool, err)
	switch {
	case err == nil:
		return res, nil
	case errors.Is(err, errNoConversation) && a.Later:
		return b.queueForLater(ctx, call, a)
	case errors.Is(err, errNoConversation) && b.connection() != nil:
		return nil, tool.Fail(tool.Offline, b.offlineReason()+
			": it can be heard only in a conversation, or with firmware 2.5 and later. Set later, to have it heard when somebody wakes it.", nil)
	case errors.Is(err, errNoConversation):
		return nil, b.offlineError("Or set later, to have this delivered when it wakes.")
	}
	return nil, err
}

// queueForLater stores a push until the board wakes.
func (b *Board) queueForLater(ctx context.Context, call *tool.Call, a toolArgs) (*tool.Result, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	if len(body) > maxLaterBytes {
		return nil, tool.Fail(tool.TooLarge,
			fmt.Sprintf("%s, and a sound of more than %d KiB cannot wait until then. Put it at an address, and give url.", b.offlineReason(), maxLaterBytes*3/4>>10), nil)
	}
	now := time.Now()
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	until := a.until(now)
	err = b.boards.Store.Outbox.Add(ctx, store.Push{
		ID: id.String(), Device: b.number, Kind: call.Tool, Body: body, Person: call.Caller.Person,
		Key: call.Caller.Key, Created: now, Expires: until,
	})
	if errors.Is(err, store.ErrFull) {
		return nil, tool.Fail(tool.Busy, "Too much waits for the board already.", nil)
	}
	if err != nil {
		return nil, err
	}
	b.boards.metrics.queued.Inc()
	if b.connection() != nil { // the board woke meanwhile
		b.boards.spawn(b.deliver)
	}
	res := tool.JSON(map[string]any{"delivered": false, "waits": true, "expires_at": until.UTC().Truncate(time.Second)})
	words := b.offlineReason() + "; this will be delivered when it wakes."
	if b.connection() != nil {
		words = b.offlineReason() + "; this will be heard when somebody wakes it."
	}
	res.Content = tool.Text(words).Content
	return res, nil
}

// offlineReason returns why a push has to wait.
func (b *Board) offlineReason() string {
	if b.connection() != nil {
		return "The board is connected, and nobody talks with it"
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.staysConnected() {
		return "The board is not connected at the moment"
	}
	return "The board is asleep"
}

// deliver delivers the waiting pushes, as far as possible now. If it is running already, the
// running one starts over.
func (b *Board) deliver() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.delivering {
		b.redeliver = true
		return
	}
	b.delivering = true
	for again := true; again; again, b.redeliver = b.redeliver, false {
		if l := b.conn; l != nil {
			b.mu.Unlock()
			b.deliverTo(l)
			b.mu.Lock()
		}
	}
	b.delivering = false
}

// deliverTo delivers the waiting pushes over a connection, as long as it is the board's.
func (b *Board) deliverTo(l *connection) {
	ctx, cancel := b.boards.background()
	items, err := b.boards.Store.Outbox.For(ctx, b.number, time.Now())
	cancel()
	if err != nil {
		if b.boards.ctx.Err() == nil {
			b.boards.Logger.Warn("what waits for a board was not found", "device", b.number, "error", err)
		}
		return
	}
	for _, item := range items {
		if l.ctx.Err() != nil || b.connection() != l {
			return
		}
		var a toolArgs
		err := json.Unmarshal(item.Body, &a)
		if err == nil {
			ctx, cancel := context.WithTimeout(l.ctx, playTimeout+writeTimeout)
			_, err = b.execute(ctx, item.Kind, a)
			cancel()
		}
		if err != nil && (errors.Is(err, errNoConversation) || l.ctx.Err() != nil) {
			continue // stays queued
		}
		b.boards.metrics.recordPush(item.Kind, err)
		if err != nil {
			b.boards.Logger.Warn("what waited for a board could not be delivered", "device", b.number,
				"kind", item.Kind, "error", err)
		}
		// Delivering a push twice is better than losing it, so it is removed only now.
		ctx, cancel := b.boards.background()
		if err := b.boards.Store.Outbox.Remove(ctx, item.ID); err != nil {
			b.boards.Logger.Warn("what was delivered to a board may be delivered again", "device", b.number,
				"error", err)
		}
		cancel()
	}
}

// deliveredResult is the result of a delivered push.
var deliveredResult = func() *tool.Result {
	res := tool.JSON(map[string]any{"delivered": true})
	res.Content = tool.Text("Delivered.").Content
	return res
}()

// execute carries out a push now. It fails with errNoConversation if the board must wake, or be in
// a conversation, first.
func (b *Board) execute(ctx context.Context, kind string, a toolArgs) (*tool.Result, error) {
	switch kind {
	case ToolPlay:
		return b.play(ctx, a)
	case ToolSay:
		return b.say(ctx, a)
	case toolRing: // only once: somebody has just woken the board
		_, _, err := b.ringOnce(ctx, *a.Timer)
		return deliveredResult, err
	}
	l := b.connection()
	if l == nil {
		return nil, errNoConversation
	}
	m := wire.Message{}
	switch kind {
	case ToolShow:
		m = wire.Message{Type: wire.TypeTTS, State: wire.TTSSentenceStart, Text: a.Text}
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
	return deliveredResult, nil
}

// stopPlayback stops what the board plays.
func (b *Board) stopPlayback() *tool.Result {
	c := b.conversation()
	playing := false
	if c != nil {
		c.mu.Lock()
		playing = c.speaking
		c.mu.Unlock()
		if playing = playing || c.hasMusic(); playing {
			c.StopEverything()
		}
	}
	return tool.JSON(map[string]any{"stopped": playing})
}

// play plays a sound in the active conversation, or else as a notification.
func (b *Board) play(ctx context.Context, a toolArgs) (*tool.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, playTimeout)
	defer cancel()
	c, l := b.conversation(), b.connection()
	switch {
	case l == nil:
		return nil, errNoConversation
	case c != nil:
		return b.playIn(ctx, c, a)
	case !b.canNotify(l):
		return nil, errNoConversation
	}
	return b.playNotification(ctx, l, a)
}

// playIn plays a sound in a conversation.
func (b *Board) playIn(ctx context.Context, c *Conversation, a toolArgs) (*tool.Result, error) {
	file, err := b.openSound(ctx, a)
	if err != nil {
		return nil, err
	}
	src, err := b.boards.newSource(file, c.output)
	if err != nil {
		_ = file.Close() // only read
		return nil, soundError(err)
	}
	if a.Text != "" {
		src = &captioned{Source: src, text: a.Text}
	}
	stats, err := c.Play(ctx, Notice, c.Generation(), src)
	switch {
	case errors.Is(err, pace.ErrAborted):
		return tool.JSON(map[string]any{"delivered": true, "interrupted": true, "frames": stats.Frames}), nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, tool.Fail(tool.TimedOut, fmt.Sprintf("Sounds of more than %s are not played to the end.",
			playTimeout), err)
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil && c.ctx.Err() != nil:
		return nil, tool.Fail(tool.Lost, "The conversation ended before the sound did.", err)
	case err != nil:
		return nil, soundError(err)
	}
	length := time.Duration(stats.Frames) * c.Frame()
	res := tool.JSON(map[string]any{
		"delivered": true, "frames": stats.Frames, "seconds": length.Seconds(), "gaps": stats.Gaps, "late": stats.Late,
	})
	res.Content = tool.Text(fmt.Sprintf("Played %.1f s.", length.Seconds())).Content
	return res, nil
}

func soundError(err error) error {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, voice.ErrNoEncoder):
		return tool.Fail(tool.Failed,
			"This sound would have to be encoded, which this server cannot do. Give Ogg-Opus with frames of 20 or 60 ms.", err)
	case errors.Is(err, errNoSound):
		return tool.Fail(tool.BadArgs, "This is no sound that can be played. Ogg-Opus, WAV and MP3 can.", err)
	}
	return tool.Fail(tool.Failed, "The sound could not be played to the end: it is damaged, or no longer there.", err)
}

// captioned is a source whose text is shown with the first packet.
type captioned struct {
	pace.Source
	text    string
	packets int
}

func (c *captioned) Next(ctx context.Context) ([]byte, error) {
	c.packets++
	return c.Source.Next(ctx)
}

// Text implements [pace.TextSource].
func (c *captioned) Text() (string, bool) { return c.text, c.packets == 1 }

// Close implements io.Closer.
func (c *captioned) Close() error {
	closeSource(c.Source)
	return nil
}

// openSound opens the sound of the arguments: the data itself, or what its URL returns.
func (b *Board) openSound(ctx context.Context, a toolArgs) (io.ReadCloser, error) {
	if len(a.Sound) > 0 {
		return io.NopCloser(bytes.NewReader(a.Sound)), nil
	}
	r, err := b.fetchSound(ctx, a.URL)
	if err != nil {
		return nil, err
	}
	return r.Body, nil
}

// fetchSound fetches a sound. The error is a *[tool.Error].
func (b *Board) fetchSound(ctx context.Context, url string) (*http.Response, error) {
	if b.boards.Fetch == nil {
		return nil, tool.Fail(tool.Denied, "This server fetches nothing. Give the sound itself.", nil)
	}
	r, err := b.boards.Fetch(ctx, url)
	if err != nil {
		return nil, tool.Fail(tool.Failed, "The sound could not be fetched from its address.", err)
	}
	if r.StatusCode != http.StatusOK {
		_ = r.Body.Close() // nothing was read
		return nil, tool.Fail(tool.Failed, fmt.Sprintf("The address of the sound answers %s.", r.Status), nil)
	}
	return r, nil
}

// newSource makes packets for a board from an Ogg-Opus, WAV or MP3 file. It reads the file while it
// arrives.
func (h *Boards) newSource(file io.ReadCloser, out wire.Audio) (pace.Source, error) {
	var head [4]byte
	if _, err := io.ReadFull(file, head[:]); err != nil {
		return nil, errNoSound
	}
	whole := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:]), file), file}
	o := voice.Output{Encoding: h.encoding(out), Encoders: h.Encoders}
	switch engine.FormatOf(head[:]) {
	case engine.OggOpus:
		return voice.OggOpus(whole, o), nil
	case engine.WAV:
		return voice.WAV(whole, o), nil
	case engine.MP3:
		return voice.MP3(whole, o), nil
	}
	return nil, errNoSound
}

// encoding returns how audio is encoded for a board, if it is not Opus yet.
func (h *Boards) encoding(out wire.Audio) opus.Encoding {
	return opus.Encoding{SampleRate: out.SampleRate, Frame: out.Frame(), Complexity: 5, Bitrate: 32000}
}

// canNotify reports whether a board can play a sound from a URL without a conversation: firmware
// 2.5 and later, on MQTT, with a known server URL.
func (b *Board) canNotify(l *connection) bool {
	if l.via != store.TransportMQTT {
		return false
	}
	b.mu.Lock()
	version := b.device.Version
	b.mu.Unlock()
	older, err := wire.Newer("2.5", version)
	return err == nil && !older && b.boards.serverURLFor(l).host != ""
}

// playNotification has a board fetch and play a sound without a conversation. The board does not
// acknowledge it (xiaozhi-esp32 docs/notify.md at 77500b8).
func (b *Board) playNotification(ctx context.Context, l *connection, a toolArgs) (*tool.Result, error) {
	file, err := b.openSound(ctx, a)
	if err != nil {
		return nil, err
	}
	src, err := b.boards.newSource(file, notificationAudio)
	if err != nil {
		_ = file.Close() // only read
		return nil, soundError(err)
	}
	if a.Text != "" {
		src = &captioned{Source: src, text: a.Text}
	}
	defer closeSource(src)
	clip, err := encodeClip(ctx, src)
	if err != nil {
		return nil, soundError(err)
	}
	return b.notify(ctx, l, clip)
}

// notify has a board fetch and play a clip.
func (b *Board) notify(ctx context.Context, l *connection, clip encodedClip) (*tool.Result, error) {
	token := seal.NewToken(24)
	if err := b.boards.Store.Media.Add(ctx, seal.Hash(token),
		store.Picture{MIME: "audio/ogg", Data: clip.data, Expires: time.Now().Add(clipTTL)}, time.Now()); err != nil {
		return nil, err
	}
	m := wire.Message{Type: wire.TypeNotify, AudioURL: b.boards.serverURLFor(l).file("/media/" + token),
		Subtitles: clip.subtitles}
	if err := l.send(m.Append(nil)); err != nil {
		return nil, tool.Fail(tool.Lost, "The connection to the board broke.", err)
	}
	res := tool.JSON(map[string]any{"delivered": true, "notified": true, "seconds": clip.length.Seconds()})
	res.Content = tool.Text(fmt.Sprintf("Delivered. The board fetches and plays it: %.1f s.",
		clip.length.Seconds())).Content
	return res, nil
}

// notificationAudio is the sound of notifications.
var notificationAudio = wire.Audio{SampleRate: wire.DownlinkRate, FrameDuration: int(wire.DownlinkFrame.Milliseconds())}

// maxClip limits a sound of a notification, in bytes.
const maxClip = 4 << 20
