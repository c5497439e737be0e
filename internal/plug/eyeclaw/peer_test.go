package eyeclaw

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// peer is a process of test/peers/actioncable: Rails' own client, or the ws package alone.
type peer struct {
	t      *testing.T
	in     io.WriteCloser
	events chan event
}

type event map[string]any

// peerScript returns the paths of node and the script. Without its modules the test is skipped, but
// not in continuous integration.
func peerScript(t *testing.T) (node, script string) {
	t.Helper()
	missing := func(what string) {
		t.Helper()
		if os.Getenv("CI") == "true" {
			t.Fatal(what)
		}
		t.Skip(what)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
	dir = filepath.Join(dir, "test", "peers", "actioncable")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@rails", "actioncable")); errors.Is(err, os.ErrNotExist) {
		missing("run `npm ci` in test/peers/actioncable to test against the real ActionCable client")
	}
	node, err = exec.LookPath("node")
	if err != nil {
		missing("node is not installed; it runs the real ActionCable client")
	}
	return node, filepath.Join(dir, "peer.mjs")
}

func (r *rig) peer(mode, token string, more ...string) *peer {
	r.t.Helper()
	node, script := peerScript(r.t)
	url := "ws" + strings.TrimPrefix(r.http.URL, "http") + "/cable?bot_id=7&sdk_token=" + token
	cmd := exec.Command(node, append([]string{script, mode, url}, more...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	p := &peer{t: r.t, in: in, events: make(chan event, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.events)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				r.t.Errorf("the peer says %q", lines.Text())
				return
			}
			p.events <- e
		}
	}()
	r.t.Cleanup(func() {
		_ = in.Close() // it ends with its input
		limit := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer limit.Stop()
		<-done
		if err := cmd.Wait(); err != nil {
			r.t.Errorf("the peer ended with %v", err)
		}
	})
	return p
}

func (p *peer) do(what string, args string) {
	p.t.Helper()
	if args == "" {
		args = "{}"
	}
	line := fmt.Sprintf(`{"do":%q,%s`, what, strings.TrimPrefix(args, "{"))
	line = strings.Replace(line, ",}", "}", 1)
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// expect reads the next event, which must have that name.
func (p *peer) expect(name string) event {
	p.t.Helper()
	select {
	case e, ok := <-p.events:
		if !ok || e["event"] != name {
			p.t.Fatalf("got %v, want %s", e, name)
		}
		return e
	case <-time.After(patience):
		p.t.Fatalf("nothing came, want %s", name)
		return nil
	}
}

// until skips events up to one of that name for which ok holds.
func (p *peer) until(name string, ok func(event) bool) {
	p.t.Helper()
	for limit := time.After(patience); ; {
		select {
		case e, open := <-p.events:
			if !open {
				p.t.Fatalf("the peer ended before %s", name)
			}
			if e["event"] == name && ok(e) {
				return
			}
		case <-limit:
			p.t.Fatalf("waited in vain for %s", name)
		}
	}
}

// received reads the next event, which must be a message of that type.
func (p *peer) received(typ string) map[string]any {
	p.t.Helper()
	e := p.expect("received")
	m, _ := e["message"].(map[string]any)
	if m["type"] != typ {
		p.t.Fatalf("got %v, want a message %s", e, typ)
	}
	return m
}

// quiet fails if an event occurs within that time.
func (p *peer) quiet(d time.Duration) {
	p.t.Helper()
	select {
	case e := <-p.events:
		p.t.Fatalf("got %v, want nothing", e)
	case <-time.After(d):
	}
}

func (p *peer) upgraded() {
	p.t.Helper()
	p.expect("socket")
	if e := p.expect("upgrade"); e["protocol"] != "actioncable-v1-json" || e["extensions"] != nil {
		p.t.Fatalf("got %v", e)
	}
}

const botChannel = `{"channel":{"channel":"BotChannel","bot_id":"7"}}`

func TestRails(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Timings.Ping = 100 * time.Millisecond })
	p := r.peer("rails", goodToken, "2")
	p.do("subscribe", botChannel)
	p.upgraded()
	p.received("connected") // before the confirmation, as in Rails
	if e := p.expect("connected"); e["reconnected"] != false {
		t.Errorf("got %v", e)
	}
	// Repeated subscriptions are not confirmed again.
	for range 3 {
		p.do("again", "")
	}
	p.do("perform", `{"action":"ping","data":{}}`)
	p.received("pong")

	a := r.ask(t.Context(), r.attachedBot(), "t1", "你好")
	if m := p.received("execute_command"); m["params"].(map[string]any)["message"] != "你好" {
		t.Errorf("got %v", m)
	}
	p.do("send", `{"data":{"type":"stream_chunk","content":"一。\n\n","session_id":"t1","sequence":0}}`)
	p.received("chunk_received")
	p.do("perform", `{"action":"stream_chunk","data":{"content":"🦞","session_id":"t1","sequence":1}}`)
	p.received("chunk_received")
	p.do("send", `{"data":{"type":"stream_end","session_id":"t1"}}`)
	p.do("send", `{"data":{"type":"stream_summary","session_id":"t1","total_content":"一。\n\n🦞","total_chunks":2}}`)
	a.ends(t, "一。\n\n🦞")

	// Pings keep the client from treating the connection as stale. It checks every 2 to 4 s.
	p.quiet(4500 * time.Millisecond)

	p.do("unsubscribe", "")
	eventually(t, "the subscription being over", func() bool { st, _ := r.s.Status(7); return st.Reconnecting })
}

func TestRails_staleWithoutPings(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Timings.Ping = time.Hour })
	p := r.peer("rails", goodToken, "0.5")
	p.do("subscribe", botChannel)
	p.upgraded()
	// On a busy machine it may also time out before the confirmation.
	p.until("disconnected", func(e event) bool { return e["willAttemptReconnect"] == true })
	p.until("connected", func(e event) bool { return e["reconnected"] == true })
}

func TestRails_rejected(t *testing.T) {
	r := newRig(t)
	p := r.peer("rails", goodToken)
	p.do("subscribe", `{"channel":{"channel":"RokidStreamChannel","access_key":"ak_x","bot_id":"7","session_id":"s"}}`)
	p.upgraded()
	p.expect("rejected")
	p.quiet(1200 * time.Millisecond) // it repeats unanswered subscriptions every 500 ms
	if n := r.metric("frames_total", "direction=in"); n != 1 {
		t.Errorf("it said %v things", n)
	}
}

func TestRails_unauthorized(t *testing.T) {
	r := newRig(t)
	p := r.peer("rails", "wrong", "1")
	p.do("subscribe", botChannel)
	p.upgraded()
	p.expect("closed")
	if e := p.expect("disconnected"); e["willAttemptReconnect"] != false {
		t.Errorf("got %v", e)
	}
	p.quiet(2500 * time.Millisecond) // it checks every 1 to 2 s
	if n := r.metric("bad_tokens_total", ""); n != 1 {
		t.Errorf("it came %v times", n)
	}
}

func TestRails_restart(t *testing.T) {
	r := newRig(t)
	p := r.peer("rails", goodToken, "2")
	p.do("subscribe", botChannel)
	p.upgraded()
	p.received("connected")
	p.expect("connected")
	if err := r.s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.expect("closed")
	if e := p.expect("disconnected"); e["willAttemptReconnect"] != true {
		t.Errorf("got %v", e)
	}
	p.expect("socket") // it reconnects
}

// TestPlainWS checks that a client that offers no subprotocol, like the plugin's WebSocket, gets
// none.
func TestPlainWS(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Timings.Ping, o.Timings.Probe = 50*time.Millisecond, 100*time.Millisecond })
	p := r.peer("plain", goodToken)
	p.expect("socket")
	if e := p.expect("upgrade"); e["protocol"] != nil || e["extensions"] != nil {
		t.Errorf("got %v", e)
	}
	counts := map[any]int{}
	for counts["wsping"] < 3 || counts["ping"] < 3 {
		e := <-p.events
		counts[e["event"]]++
		if f, ok := e["frame"].(map[string]any); ok {
			counts[f["type"]]++
		}
	}
	if counts["welcome"] != 1 || counts["closed"] != 0 {
		t.Errorf("got %v", counts)
	}
	p.do("send", `{"data":{"command":"subscribe","identifier":"{\"channel\":\"BotChannel\",\"bot_id\":\"7\"}"}}`)
	r.attachedBot()
	p.do("close", "")
	eventually(t, "the socket being gone", func() bool { st, _ := r.s.Status(7); return st.Connections == 0 })
	if n := r.metric("closed_total", "reason=closed"); n != 1 {
		t.Errorf("%v sockets were closed by the client", n)
	}
}
