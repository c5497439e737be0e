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

	"patchbay/internal/tool"
	"patchbay/internal/voice/pace"
)

// Names of the tools for music.
const (
	ToolPlayMusic    = "play_music"
	ToolControlMusic = "control_music"
)

// Values of the argument action of [ToolControlMusic].
const (
	musicPause  = "pause"
	musicResume = "resume"
	musicStop   = "stop"
)

const (
	// maxMusic limits how long music plays, with its pauses: nobody listens any more.
	maxMusic = 6 * time.Hour
	// musicStall is how long the address of music may send nothing until it is asked anew, and
	// maxRefetched how often that happens: what was played is fetched again each time.
	musicStall   = 20 * time.Second
	maxRefetched = 4
)

// musicTools are the built-in tools for music.
func musicTools(object func(required, properties string) json.RawMessage) []tool.Tool {
	return []tool.Tool{
		{
			Name: ToolPlayMusic, Title: "Play music",
			Description: "Plays music, or another long sound, while somebody talks with the board: the address of an Ogg-Opus, WAV or MP3 file or stream, or such a file in base64. It returns when the music is found; it plays after the answer, pauses while anybody speaks, and replaces other music.",
			Input: object("", `"url":{"type":"string","format":"uri"},"sound":{"type":"string","contentEncoding":"base64","maxLength":`+
				fmt.Sprint(maxSoundBase64)+fmt.Sprintf(`},"title":{"type":"string","maxLength":%d,"description":"What the board shows"}`, maxShown)),
		}, {
			Name: ToolControlMusic, Title: "Pause or stop music",
			Description: "Pauses the music on the board, lets it go on where it was, or ends it.",
			Input:       object(`"action"`, `"action":{"type":"string","enum":["pause","resume","stop"]}`),
		},
	}
}

// musicState is the music of a conversation, in results.
type musicState struct {
	Playing bool    `json:"playing"` // it plays, or will when nobody speaks
	Paused  bool    `json:"paused"`  // until somebody lets it go on
	Title   string  `json:"title,omitempty"`
	Seconds float64 `json:"seconds"` // that were played
}

// playMusic finds music, and plays it in the background.
func (b *Board) playMusic(ctx context.Context, a toolArgs) (*tool.Result, error) {
	c := b.conversation()
	switch {
	case (a.URL == "") == (len(a.Sound) == 0):
		return nil, tool.Fail(tool.BadArgs, "Give either url or sound.", nil)
	case c == nil:
		return nil, tool.Fail(tool.Offline, b.offlineReason()+
			". Music plays only while somebody talks with the board: wake it, and try again.", nil)
	}
	generation := c.Generation()
	playing, cancel := context.WithTimeout(c.ctx, maxMusic)
	unlink := context.AfterFunc(ctx, cancel) // until it plays
	src, err := b.openMusic(playing, c, a)
	if err == nil && !unlink() {
		err = context.Cause(ctx)
	}
	if err == nil && !b.boards.spawn(func() {
		defer cancel()
		b.playThrough(playing, c, generation, src)
	}) {
		err = errServerStopping
	}
	if err != nil {
		if src != nil {
			closeSource(src)
		}
		cancel()
		return nil, err
	}
	res := tool.JSON(musicState{Playing: true, Title: a.Title})
	res.Content = tool.Text("It plays when nobody speaks.").Content
	return res, nil
}

// playThrough plays music to its end.
func (b *Board) playThrough(ctx context.Context, c *Conversation, generation uint64, src pace.Source) {
	stats, err := c.Play(ctx, Music, generation, src)
	if err != nil && c.ctx.Err() == nil && !errors.Is(err, pace.ErrAborted) && !errors.Is(err, errOtherMusic) {
		b.boards.Logger.Info("music ended early", "device", b.number, "seconds", c.length(stats).Seconds(), "error", err)
	}
}

// length returns for how long a sound was played.
func (c *Conversation) length(s pace.Stats) time.Duration { return time.Duration(s.Frames) * c.Frame() }

// openMusic returns music of which the first packet could be read.
func (b *Board) openMusic(ctx context.Context, c *Conversation, a toolArgs) (pace.Source, error) {
	file := io.NopCloser(bytes.NewReader(a.Sound))
	if a.URL != "" {
		f := &musicFile{ctx: ctx, open: func(ctx context.Context) (*http.Response, error) {
			return b.fetchSound(ctx, a.URL)
		}}
		if err := f.fetch(); err != nil {
			return nil, err
		}
		file = f
	}
	src, err := b.boards.newSource(file, c.output)
	if err != nil {
		_ = file.Close() // only read
		return nil, soundError(err)
	}
	first, err := src.Next(ctx)
	if err != nil {
		closeSource(src)
		return nil, soundError(err)
	}
	return &music{captioned{Source: src, text: a.Title}, first}, nil
}

// music is a source whose first packet was read in advance.
type music struct {
	captioned
	first []byte // nil: it was returned
}

// Next implements [pace.Source].
func (m *music) Next(ctx context.Context) ([]byte, error) {
	if first := m.first; first != nil {
		m.first = nil
		m.packets++
		return first, nil
	}
	return m.captioned.Next(ctx)
}

// Text implements [pace.TextSource].
func (m *music) Text() (string, bool) { return m.text, m.packets == 1 && m.text != "" }

// musicFile is what the address of some music returns. Servers end a connection on which nothing is
// read, as it is while the music waits; then the file is fetched anew, and read on from where it
// was.
type musicFile struct {
	ctx    context.Context
	open   func(context.Context) (*http.Response, error)
	body   io.ReadCloser
	cancel context.CancelFunc // ends the request
	length int64              // -1: unknown, such as that of a radio station
	read   int64
	again  int // how often it was fetched anew
}

// fetch sends the request.
func (f *musicFile) fetch() error {
	ctx, cancel := context.WithCancel(f.ctx)
	r, err := f.open(ctx)
	if err != nil {
		cancel()
		return err
	}
	f.body, f.cancel, f.length = r.Body, cancel, r.ContentLength
	return nil
}

// Read implements [io.Reader].
func (f *musicFile) Read(p []byte) (int, error) {
	for {
		stalled := time.AfterFunc(musicStall, f.cancel)
		n, err := f.body.Read(p)
		stalled.Stop()
		f.read += int64(n)
		if n > 0 {
			return n, nil // an error comes again
		}
		if err == nil || errors.Is(err, io.EOF) || f.ctx.Err() != nil || f.again == maxRefetched {
			return 0, err
		}
		if err := f.refetch(); err != nil {
			return 0, err
		}
	}
}

// refetch opens the file anew, at the place where it was.
func (f *musicFile) refetch() error {
	length := f.length
	_ = f.Close() // it is broken
	f.again++
	if err := f.fetch(); err != nil || length < 0 {
		return err
	}
	if f.length != length {
		return io.ErrUnexpectedEOF // it is another file
	}
	stalled := time.AfterFunc(musicStall, f.cancel)
	defer stalled.Stop()
	_, err := io.CopyN(io.Discard, f.body, f.read)
	return err
}

// Close implements [io.Closer].
func (f *musicFile) Close() error {
	f.cancel()
	return f.body.Close()
}

// controlMusic pauses the music, lets it go on, or ends it.
func (b *Board) controlMusic(a toolArgs) (*tool.Result, error) {
	c := b.conversation()
	if c == nil {
		return nil, tool.Fail(tool.Failed, "No music plays on the board.", nil)
	}
	state, ok := c.music()
	switch {
	case !ok:
	case a.Action == musicStop:
		ok = c.endMusic()
		state.Playing, state.Paused = false, false
	default:
		state.Paused = a.Action == musicPause
		state.Playing = !state.Paused
		ok = c.pauseMusic(state.Paused)
	}
	if !ok {
		return nil, tool.Fail(tool.Failed, "No music plays on the board.", nil)
	}
	return tool.JSON(state), nil
}

// music returns what plays as music, or waits to.
func (c *Conversation) music() (m musicState, ok bool) {
	c.list.mu.Lock()
	defer c.list.mu.Unlock()
	s := c.list.music()
	if s == nil {
		return m, false
	}
	paused := c.list.paused
	return musicState{!paused, paused, s.title, c.length(s.stats).Seconds()}, true
}

// endMusic ends the music only. It returns false if there is none.
func (c *Conversation) endMusic() bool {
	l := &c.list
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.music()
	if s == nil {
		return false
	}
	l.endLocked(s, pace.ErrAborted)
	l.settleIdle()
	return true
}
