package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/tool"
)

// Invalid messages are skipped; the connection stays open.
func TestGarbageFrames(t *testing.T) {
	r, url := newHost(t, Settings{}, fastTimings())
	f := dialInbound(t, url, map[string]inboundHandler{"tools/call": func(f *inboundServer, m *message) string {
		for _, text := range []string{``, `hello`, `{`, `[]`, `null`, `7`, `{}`, `{"id":7}`,
			`{"jsonrpc":"2.0","id":99,"result":{}}`, "\xff\xfe", `{"method":"x"}`, `[[]]`} {
			f.write("%s", text)
		}
		f.conn.Write(context.Background(), websocket.MessageBinary, []byte{0, 1, 2})
		switch {
		case bytes.Contains(m.Params, []byte(`"huge"`)):
			f.write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, m.ID,
				strings.Repeat("x", maxFrame))
			return ""
		case bytes.Contains(m.Params, []byte(`"binary"`)):
			f.conn.Write(context.Background(), websocket.MessageBinary,
				fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"%s","result":{"content":[{"type":"text","text":"fine"}]}}`,
					m.ID))
			return ""
		case bytes.Contains(m.Params, []byte(`"nothing"`)):
			return `7`
		}
		return `{"content":[{"type":"text","text":"fine"}]}`
	}})
	r.tools("tools are offered", some)
	r.state(Ready)
	for _, args := range []string{`{}`, `{"as":"binary"}`} {
		if got := r.must("do", args); got != "fine" {
			t.Errorf("among garbage: %s", got)
		}
	}
	r.fails(tool.TooLarge, "do", `{"as":"huge"}`)
	r.fails(tool.Garbled, "do", `{"as":"nothing"}`)
	r.must("do", "{}")
	if n := f.count("initialize"); n != 1 || r.count("connected") != 1 {
		t.Errorf("there were %d handshakes", n)
	}
	// An endless message is not read forever.
	f.write(`"%s"`, strings.Repeat("x", maxReadFrame))
	if code := f.told(); code != websocket.StatusMessageTooBig {
		t.Errorf("it was closed with %d", code)
	}
}

// Frames of all sizes, in fragments, are messages.
func TestPiecesOfFrames(t *testing.T) {
	r, url := newHost(t, Settings{}, fastTimings())
	dialInbound(t, url, map[string]inboundHandler{"tools/call": func(f *inboundServer, m *message) string {
		var c struct{ Arguments struct{ N int } }
		if err := json.Unmarshal(m.Params, &c); err != nil {
			t.Error(err)
		}
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, m.ID,
			strings.Repeat("é", c.Arguments.N))
		w, err := f.conn.Writer(context.Background(), websocket.MessageText)
		if err != nil {
			return ""
		}
		for len(text) > 0 {
			n := min(len(text), 3000)
			w.Write([]byte(text[:n]))
			text = text[n:]
		}
		w.Close()
		return ""
	}})
	r.tools("tools are offered", some)
	r.state(Ready)
	for _, n := range []int{0, 1, 4000, 1 << 20} {
		if got := r.must("do", fmt.Sprintf(`{"n":%d}`, n)); got != strings.Repeat("é", n) {
			t.Errorf("of %d characters %d bytes came", n, len(got))
		}
	}
}

// Of a server with thousands of tools, as many are used as the limit allows.
func TestFarTools(t *testing.T) {
	list := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			if i > from {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b,
				`{"name":"tool_%d","description":"number %d","inputSchema":{"type":"object","properties":{"x":{"type":"integer"}}}}`, i, i)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		settings Settings
		on       inboundHandler
		tools    int
		cut      bool
	}{
		"in one frame": {Settings{}, func(*inboundServer, *message) string {
			return `{"tools":[` + list(0, 2000) +
				`]}`
		}, 2000, false},
		"one too many": {Settings{}, func(*inboundServer, *message) string {
			return `{"tools":[` + list(0, 2001) +
				`]}`
		}, 2000, true},
		"in pages": {Settings{MaxTools: 1950}, func(_ *inboundServer, m *message) string {
			var p struct{ Cursor string }
			_ = json.Unmarshal(m.Params, &p)
			from := 0
			_, _ = fmt.Sscan(p.Cursor, &from)
			return fmt.Sprintf(`{"tools":[%s],"nextCursor":"%d"}`, list(from, from+100), from+100)
		}, 1950, true},
		"by patterns": {Settings{Allow: []string{"tool_1*"}, Deny: []string{"*9"}},
			func(*inboundServer, *message) string { return `{"tools":[` + list(0, 2000) + `]}` }, 1000, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, url := newHost(t, c.settings, fastTimings())
			dialInbound(t, url, map[string]inboundHandler{"tools/list": c.on})
			tools := r.tools("tools are offered", some)
			st := r.state(Ready)
			if len(tools) != c.tools || st.Tools != c.tools || st.Truncated != c.cut {
				t.Errorf("%d tools, status %+v", len(tools), st)
			}
			r.must(tools[len(tools)-1].Name, "{}")
			if c.settings.Deny != nil {
				r.fails(tool.Unknown, "tool_9", "{}")
			}
		})
	}
}

// A peer that lost its network is detected.
func TestGoneWithoutAWord(t *testing.T) {
	times := fastTimings()
	times.healthInterval, times.healthTimeout = 10*time.Millisecond, 100*time.Millisecond
	r, url := newHost(t, Settings{}, times)
	stop := make(chan struct{})
	defer close(stop)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dialInbound(t, url, map[string]inboundHandler{"tools/call": func(*inboundServer, *message) string {
		cancel() // sends a cancellation, and leaves no running call
		return ""
	}, "notifications/cancelled": func(*inboundServer, *message) string {
		<-stop // it no longer reads, and so answers nothing, as with an unplugged cable
		return ""
	}, "ping": func(*inboundServer, *message) string { return "" }})
	r.tools("tools are offered", some)
	r.state(Ready)
	if _, err := r.call(ctx, "do", "{}"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	st := r.state(Waiting)
	if !strings.Contains(st.Err.Cause, "no heartbeat") {
		t.Errorf("status %v", st.Err)
	}
}

// A server with a running call need not answer pings; one without calls that stops answering is
// disconnected.
func TestBusyServer(t *testing.T) {
	times := fastTimings()
	times.healthInterval, times.healthTimeout = 10*time.Millisecond, 50*time.Millisecond
	r, url := newHost(t, Settings{}, times)
	var busy atomic.Bool
	var unanswered, pings atomic.Int32
	release := make(chan struct{})
	f := dialInbound(t, url, map[string]inboundHandler{
		"ping": func(*inboundServer, *message) string {
			pings.Add(1)
			if busy.Load() {
				unanswered.Add(1)
				return ""
			}
			return "{}"
		},
		"tools/call": func(*inboundServer, *message) string {
			busy.Store(true)
			<-release
			return `{"content":[{"type":"text","text":"done"}]}`
		},
	})
	r.tools("tools are offered", some)
	r.state(Ready)
	r.status("asked", func(Status) bool { return pings.Load() > 1 })
	done := make(chan string, 1)
	go func() { done <- r.must("do", "{}") }()
	r.status("asked while it works", func(Status) bool { return unanswered.Load() >= 3 })
	close(release)
	if got := <-done; got != "done" {
		t.Errorf("got %s", got)
	}
	if code := f.told(); code != codeProtocolError {
		t.Errorf("it was closed with %d", code)
	}
}
