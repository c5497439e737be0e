package realtime

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
	"patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

var spellings = []realtime.Spelling{realtime.OpenAI, realtime.Qwen}

// rig is a bot with a stand-in for its service.
type rig struct {
	*Bot
	t      *testing.T
	server *realtimetest.Server
	usage  chan realtime.Usage
}

func newRig(t *testing.T, o realtimetest.Options, change func(*Settings), tools toolbox.Tools) *rig {
	t.Helper()
	s := Settings{Model: "model", APIKey: realtimetest.Key, Spelling: string(o.Spelling), Instructions: "Be kind."}
	r := &rig{t: t, server: realtimetest.New(t, o), usage: make(chan realtime.Usage, 100)}
	s.URL = r.server.URL + "/v1/realtime"
	if change != nil {
		change(&s)
	}
	b, err := New(s, Options{Toolbox: tools, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		OnUsage: func(u realtime.Usage) { r.usage <- u }})
	if err != nil {
		t.Fatal(err)
	}
	r.Bot = b
	t.Cleanup(func() {
		if v := r.server.Violations(); len(v) > 0 {
			t.Errorf("violations:\n%s", strings.Join(v, "\n"))
		}
	})
	return r
}

// turn returns a turn without parts.
func turn(parts ...talk.Part) *talk.Turn {
	return &talk.Turn{ID: "t1", Bot: 1, Channel: "test", Person: "p", Lang: i18n.English, Parts: parts}
}

// converse begins a conversation that ends with the test.
func (r *rig) converse(opening *talk.Turn) talk.Duplex {
	c := r.Converse(opening, nil)
	r.t.Cleanup(c.Close)
	return c
}

// answered is what a turn emitted.
type answered struct{ transcript, text, notes string }

// say has a person say something.
func (r *rig) say(ctx context.Context, c talk.Duplex, p *playback) (out answered, err error) {
	c.Write(make([]int16, talk.HearingRate/2))
	q := turn()
	q.Spoken = &talk.Spoken{Conversation: c, Playback: p}
	err = r.Answer(ctx, q, out.emit)
	return out, err
}

func (a *answered) emit(e talk.Event) error {
	switch e.Kind {
	case talk.KindTranscript:
		a.transcript += e.Text
	case talk.KindText:
		a.text += e.Text
	case talk.KindNote:
		a.notes += e.Text
	}
	return nil
}

// playback plays everything at once, unless hold is set: then it plays until the turn is
// interrupted.
type playback struct {
	hold   bool
	played time.Duration // by an interruption
	got    chan struct{} // has a token when sound came

	mu     sync.Mutex
	sound  int
	heard  chan string
	ended  bool
	closed bool
	failed talk.Code
}

func newPlayback() *playback {
	return &playback{heard: make(chan string, 1000), got: make(chan struct{}, 1)}
}

func (p *playback) Play(sound []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sound += len(sound)
	signal(p.got)
	return nil
}

func (p *playback) Text(piece string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard <- piece
}

func (p *playback) Fail(f *talk.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.closed {
		panic("a failure after the end")
	}
	p.failed = f.Code
}

func (p *playback) Finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if !p.hold {
		p.close()
	}
}

func (p *playback) close() {
	if !p.closed {
		p.closed = true
		close(p.heard)
	}
}

func (p *playback) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close()
}

func (p *playback) Heard() <-chan string { return p.heard }

func (p *playback) Played(context.Context) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close()
	return p.played, !p.hold
}

func (p *playback) duration() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.sound/2) * time.Second / talk.SpeakingRate
}

// tools are tools that return their name and arguments.
type tools struct {
	names []string
	wait  bool // until the context ends
}

func (b tools) List(context.Context, *talk.Turn) (out []toolbox.Named, err error) {
	for _, name := range b.names {
		out = append(out, toolbox.Named{Name: name, Tool: tool.Tool{Name: name, Description: "Does " + name,
			Input: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`)}})
	}
	return out, nil
}

func (b tools) Call(ctx context.Context, _ *talk.Turn, name string, args json.RawMessage,
	_ func(tool.Progress)) (*tool.Result, error) {
	if b.wait {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return tool.Text(name + string(args)), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
