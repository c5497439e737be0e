package xiaozhi_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/voice/ogg"
)

// musicMark begins a packet of a [musicServer]: SILK, 60 ms, mono (RFC 6716, 3.1). Its number
// follows.
var musicMark = []byte{0x58, 0x4d}

// musicServer serves packets with numbers as an Ogg-Opus file.
func musicServer(t testing.TB, packets int) string {
	t.Helper()
	var file bytes.Buffer
	w, err := ogg.NewWriter(&file, ogg.WriterOptions{Channels: 1})
	must(t, err)
	for i := range packets {
		must(t, w.Write(binary.BigEndian.AppendUint16(slices.Clone(musicMark), uint16(i))))
	}
	must(t, w.Close())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(file.Bytes())
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// numbers returns the numbers of the packets of music among others.
func numbers(audio [][]byte) (list []int) {
	for _, p := range audio {
		if rest, ok := bytes.CutPrefix(p, musicMark); ok && len(rest) == 2 {
			list = append(list, int(binary.BigEndian.Uint16(rest)))
		}
	}
	return list
}

// TestMusic has a board play music that questions and an alarm interrupt, and that goes on where it
// was, until somebody says stop.
func TestMusic(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{wire.ModeAuto, wire.ModeRealtime} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			said := "play some music"
			var text atomic.Pointer[string]
			text.Store(&said)
			h := newTestServer(t, testServerOptions{boards: streaming(10*time.Millisecond,
				func(_ int, heard time.Duration, finished bool) string {
					if finished || heard > 800*time.Millisecond {
						return *text.Load()
					}
					return ""
				})})
			h.awaitMusicRefused(ctx, t)
			var shown texts
			b := h.device(sim.Options{Lang: "en-US", Mode: mode, KeepAudio: true, OnEvent: shown.add})
			must(t, b.Boot(ctx))
			call := func(name, args string) *tool.Result {
				t.Helper()
				res, err := h.call(ctx, b.MAC(), name, args)
				must(t, err)
				return res
			}
			url := musicServer(t, 2000)
			h.bindScript(ctx, b, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
				if turn.Text() == "play some music" {
					call(xiaozhi.ToolPlayMusic, `{"url":"`+url+`","title":"Moonlight"}`)
					return emit(talk.Text("With pleasure."))
				}
				return emit(talk.Text("You said: " + turn.Text()))
			})
			seconds := 0.0
			plays := func() { // half a second more
				t.Helper()
				_, err := b.Await(ctx, func(sim.View) bool { return shown.has("Moonlight") })
				must(t, err)
				for until := seconds + 0.5; seconds < until; {
					seconds = structured(t, call(xiaozhi.ToolControlMusic, `{"action":"resume"}`), "seconds").(float64)
				}
			}
			var parts [][]int // the packets of music in each answer
			ended := func(answers int) {
				t.Helper()
				_, err := b.Await(ctx, func(v sim.View) bool { return v.Answers == answers })
				must(t, err)
				parts = append(parts, numbers(b.LastAnswer().Audio))
			}
			ask := func(words string) {
				t.Helper()
				text.Store(&words)
				if mode == wire.ModeAuto {
					must(t, b.Wake(ctx)) // its microphone is closed while it speaks
				}
				must(t, b.Talk(ctx, spoken(t)))
			}
			must(t, b.Press(ctx))
			must(t, b.Talk(ctx, spoken(t)))
			plays()
			ask("what is this piece")
			ended(1)
			plays()
			call(xiaozhi.ToolSay, `{"text":"The water is running.","priority":"alarm"}`)
			plays()
			res := call(xiaozhi.ToolControlMusic, `{"action":"pause"}`)
			if structured(t, res, "paused") != true || structured(t, res, "title") != "Moonlight" {
				t.Errorf("paused: %s", res.Structured)
			}
			ended(2)
			call(xiaozhi.ToolControlMusic, `{"action":"resume"}`)
			plays()
			ask("Stop the music.")
			ended(3)
			for known := true; known; { // its end is known a moment later
				must(t, ctx.Err())
				_, err := h.call(ctx, b.MAC(), xiaozhi.ToolControlMusic, `{"action":"resume"}`)
				known = tool.AsError(err) == nil
			}
			want := []string{"With pleasure.", "Moonlight", "You said: what is this piece", "Moonlight",
				"The water is running.", "Moonlight", "Moonlight"}
			var got []string
			_, err := b.Await(ctx, func(sim.View) bool { got = slices.Clone(shown.list); return true })
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("shown:\n%s", diff)
			}
			goesOn(t, parts)
			clean(t, b)
		})
	}
}

// texts are what a board shows.
type texts struct {
	list []string
	seen int
}

// add is a [sim.Options.OnEvent].
func (s *texts) add(e sim.Event) {
	if e.Kind == sim.EventSentence {
		s.list = append(s.list, e.Text)
	}
}

// has reports whether a text was shown after the one of the call before. Only the condition of
// [sim.Board.Await] may call it.
func (s *texts) has(text string) bool {
	i := slices.Index(s.list[s.seen:], text)
	s.seen += i + 1
	return i >= 0
}

// goesOn checks that music goes on where it was. Boards drop what arrives after they have
// interrupted, and what arrives before they know that sound comes; within an answer nothing is
// missing but a packet that was due when something else began.
func goesOn(t testing.TB, parts [][]int) {
	t.Helper()
	const dropped = 50 // three seconds
	last := 0
	for _, part := range parts {
		if len(part) == 0 || part[0] < last || part[0] > last+dropped {
			t.Fatalf("after packet %d comes %v", last, part)
		}
		for i := 1; i < len(part); i++ {
			if d := part[i] - part[i-1]; d < 1 || d > 2 {
				t.Errorf("after packet %d comes %d", part[i-1], part[i])
			}
		}
		last = part[len(part)-1] + 1
	}
}

// awaitMusicRefused checks what the owner of a board that sleeps is told.
func (h *testServer) awaitMusicRefused(ctx context.Context, t *testing.T) {
	t.Helper()
	b := h.device(sim.Options{})
	must(t, b.Boot(ctx))
	must(t, h.boards.Refresh(ctx))
	_, err := h.call(ctx, b.MAC(), xiaozhi.ToolPlayMusic, `{"url":"https://example.org/music.ogg","title":"Moonlight"}`)
	if e := tool.AsError(err); e == nil || e.Code != tool.Offline || !strings.Contains(e.Told, "wake it") {
		t.Errorf("asleep: %v", err)
	}
}

// TestMusicFromElsewhere controls the music of a board that is connected to another instance.
func TestMusicFromElsewhere(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	o := hubtest.Options{DB: storetest.Postgres(t), BusURL: bustest.Cluster(t, 1), Name: "here"}
	h := newTestServer(t, testServerOptions{rig: o})
	o.Name = "there"
	there := hubtest.New(t, o)
	b := h.device(sim.Options{Lang: "en-US"})
	must(t, b.Boot(ctx))
	must(t, b.Wake(ctx))
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(t, err)
	call := func(name, args string) (*tool.Result, error) {
		_, _, tools := there.Hub.FindProvider(xiaozhi.ProviderID(d.Number))
		i := slices.IndexFunc(tools, func(o *hub.RegisteredTool) bool { return o.Tool.Name == name })
		if i < 0 {
			return nil, tool.Fail(tool.Unknown, "not yet", nil)
		}
		return there.Hub.Call(ctx, hub.Access{Caller: tool.Caller{Person: d.Owner, Channel: "mcp"}}, tools[i].Name,
			&tool.Call{Args: json.RawMessage(args)})
	}
	url := musicServer(t, 200)
	for err = tool.Fail(tool.Unknown, "", nil); tool.AsError(err) != nil; { // until the instance knows the board
		must(t, ctx.Err())
		_, err = call(xiaozhi.ToolPlayMusic, `{"url":"`+url+`","title":"Moonlight"}`)
	}
	_, err = b.Await(ctx, func(v sim.View) bool { return v.Displayed == "Moonlight" })
	must(t, err)
	_, err = call(xiaozhi.ToolControlMusic, `{"action":"stop"}`)
	must(t, err)
	_, err = b.Await(ctx, func(v sim.View) bool { return v.State == sim.Listening })
	must(t, err)
	clean(t, b)
}
