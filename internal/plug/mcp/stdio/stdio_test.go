package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/jsonrpc"
)

const testTimeout = 10 * time.Second

// The test binary is also the program, for clients that start it.
func TestMain(m *testing.M) {
	if url := os.Getenv("STDIO_URL"); url != "" {
		err := Serve(context.Background(), Options{In: os.Stdin, Out: os.Stdout, URL: url, Key: os.Getenv("STDIO_KEY"),
			Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A whole session through pipes: initialize, list, call, change notification, cancel, end.
func TestServe(t *testing.T) {
	s := newServer(t)
	p := run(t, "http://"+s.address, s.key)
	p.says(hello)
	if l := p.hears(); !strings.HasPrefix(l, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"`) ||
		!strings.Contains(l, "learn-assistant") {
		t.Fatalf("the server says %s", l)
	}
	p.says(ready, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	if l := p.hears(); !strings.HasPrefix(l, `{"jsonrpc":"2.0","id":"list","result":{"tools":[`) ||
		!strings.Contains(l, "submit_review") {
		t.Errorf("it lists %s", l)
	}
	p.says("", "  "+call("2", "create_knowledge_point", `{"question":"什么？","answer":"a"}`)+"\r")
	if l := p.hears(); !strings.HasPrefix(l, `{"jsonrpc":"2.0","id":2,"result":`) || !strings.Contains(l, "什么？") {
		t.Errorf("the call brings %s", l)
	}
	p.says(`[{"jsonrpc":"2.0","id":3,"method":"ping"},` + ready + `]`)
	if l := p.hears(); l != `{"jsonrpc":"2.0","id":3,"result":{}}` {
		t.Errorf("a batch brings %s", l)
	}

	// Unsolicited messages of the server.
	done, ended := make(chan struct{}), make(chan struct{})
	go func() { // repeatedly, since the stream may not be open yet
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			s.registration.SetTools(s.tools[:len(s.tools)-i%2])
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	p.until(`"method":"notifications/tools/list_changed"`)
	close(done)
	<-ended

	// A slow call reports progress, and does not delay others. When it is canceled, its tool is
	// notified, and there is no response.
	p.says(call("9", "submit_recall", `{"schedule_id":"x","recall_text":"slow"}`))
	p.until(`"method":"notifications/progress","params":{"progressToken":9`)
	p.says(call("9", "list_reviews", `{}`))
	if l := p.until(`"id":9`); !strings.Contains(l, "running already") {
		t.Errorf("the same id again: %s", l)
	}
	p.says(`{"jsonrpc":"2.0","id":10,"method":"ping"}`)
	p.until(`{"jsonrpc":"2.0","id":10,"result":{}}`)
	p.says(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
	select {
	case <-s.stopped:
	case <-time.After(testTimeout):
		t.Error("the tool was not told")
	}
	p.says(`{"jsonrpc":"2.0","id":11,"method":"nope"}`)
	for l := p.hears(); ; l = p.hears() {
		if strings.Contains(l, `"id":9`) {
			t.Errorf("the cancelled call is answered: %s", l)
		}
		if strings.Contains(l, `"id":11`) {
			if !strings.Contains(l, "-32601") {
				t.Errorf("an unknown method: %s", l)
			}
			break
		}
	}
	p.in.Close()
	if err := p.ends(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if n := s.endedSessions.Load(); n != 1 {
		t.Errorf("%d sessions were ended", n)
	}
}

// Invalid input gets an error from the proxy, and the output has only messages.
func TestServeRefuses(t *testing.T) {
	s := newServer(t)
	p := run(t, "http://"+s.address+"/api/mcp/", s.key)
	for _, c := range []struct{ says, hears string }{
		{`{"jsonrpc"`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`{"jsonrpc":"2.0","id":7}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,`},
		{`[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":8,"method":"` + strings.Repeat("x", maxMessage) + `"}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message may have 4 MiB"`},
		{`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`,
			`{"jsonrpc":"2.0","id":9,"error":{"code":-32000,"message":"the server answers 400 Bad Request: Mcp-Session-Id is missing; begin with initialize"`},
		{strings.Replace(hello, "2025-11-25", "", 1), `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,`},
		{hello, `{"jsonrpc":"2.0","id":0,"result":`},
	} {
		p.says(c.says)
		if got := p.hears(); !strings.HasPrefix(got, c.hears) {
			t.Errorf("%.100s\n got %.300s\nwant %s", c.says, got, c.hears)
		}
	}
}

// Requests that run when the input ends are still answered, so that messages can be piped in.
func TestServeEndOfInput(t *testing.T) {
	s := newServer(t)
	p := run(t, "http://"+s.address, s.key)
	all := hello + "\n" + ready + "\n" + call("1", "list_reviews", "{}") + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"ping"}`
	if _, err := io.WriteString(p.in, all); err != nil {
		t.Fatal(err)
	}
	p.in.Close()
	got := p.hears() + p.hears() + p.hears()
	for _, want := range []string{`"id":0,"result"`, `"id":1,"result"`, `"id":2,"result"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	if err := p.ends(); err != nil {
		t.Error(err)
	}
}

// The server restarts without its memory; the program does not notice.
func TestServeRestart(t *testing.T) {
	s := newServer(t)
	p := run(t, "http://"+s.address, s.key)
	p.says(hello, ready, call("1", "create_knowledge_point", `{"question":"q","answer":"a"}`))
	p.until(`"id":1,"result"`)
	s.stop()
	p.log.until(t, "it is tried again") // the proxy has noticed
	p.says(call("2", "list_knowledge_points", `{}`))
	p.log.until(t, "the server cannot be reached; it is tried again")
	s.start(t, strings.Repeat("6f", 32)) // session ids are signed with another secret
	if l := p.until(`"id":2`); !strings.Contains(l, "point-001") {
		t.Errorf("the call over the restart brings %s", l)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			s.registration.SetTools(s.tools[:len(s.tools)-i%2])
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	p.until(`"method":"notifications/tools/list_changed"`)
	close(done)
	<-ended
	if text := p.log.String(); !strings.Contains(text, "the session was begun again") || strings.Contains(text, s.key) {
		t.Errorf("the log says %s", text)
	}
}

// Errors are reported to the program, and in the log.
func TestServeErrors(t *testing.T) {
	s := newServer(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved/api/mcp":
			http.Redirect(w, r, "https://other.example/", http.StatusMovedPermanently)
		case "/text/api/mcp":
			io.WriteString(w, "hello") //nolint:errcheck // the client has disconnected
		case "/large/api/mcp":
			w.Write(bytes.Repeat([]byte("x"), maxAnswer+1)) //nolint:errcheck // the client has disconnected
		default:
			http.NotFound(w, r)
		}
	}))
	defer elsewhere.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, c := range map[string]struct{ url, key, want string }{
		"another key": {"http://" + s.address, "sk_0123456789",
			"the server refuses the key: Unauthorized: Invalid API key"},
		"another server": {elsewhere.URL, "x", "the server answers 404 Not Found: 404 page not found"},
		"another address": {elsewhere.URL + "/moved", "x",
			"the server answers 301 Moved Permanently, so this is not its address"},
		"no answer":    {elsewhere.URL + "/text", "x", "the server gave no answer"},
		"too much":     {elsewhere.URL + "/large", "x", "larger than 12 MiB"},
		"nobody there": {"http://" + closed.Addr().String(), "x", "the server cannot be reached: dial tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			p := runFor(t, t.Context(), c.url, c.key, 200*time.Millisecond)
			p.says(hello)
			if got := p.hears(); !strings.HasPrefix(got,
				`{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"`) || !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if text := p.log.String(); !strings.Contains(text, "level=ERROR") {
				t.Errorf("the log says %s", text)
			}
		})
	}
	for _, o := range []Options{{URL: "", Key: "x"}, {URL: "localhost:8787", Key: "x"}, {URL: "ftp://a", Key: "x"},
		{URL: "http://a:b@c", Key: "x"}, {URL: "http://a?b", Key: "x"}, {URL: "http://a"},
		{URL: "http://a", Key: "a\nb"}} {
		o.In, o.Out, o.Logger = strings.NewReader(""), io.Discard, slog.New(slog.DiscardHandler)
		if err := Serve(t.Context(), o); err == nil {
			t.Errorf("%q with key %q is taken", o.URL, o.Key)
		}
	}
}

// Serve returns when its context ends, and when its output is not read.
func TestServeEnds(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := runFor(t, ctx, "http://"+s.address, s.key, retryTimeout)
	p.says(hello, ready, call("1", "submit_recall", `{"schedule_id":"x","recall_text":"slow"}`))
	p.until("notifications/progress")
	cancel()
	if err := p.ends(); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	select {
	case <-s.stopped:
	case <-time.After(testTimeout):
		t.Error("its call goes on")
	}

	in, write := io.Pipe()
	defer write.Close()
	read, out := io.Pipe()
	read.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(t.Context(), Options{In: in, Out: out, URL: "http://" + s.address, Key: s.key,
			Logger: slog.New(slog.DiscardHandler)})
	}()
	if _, err := io.WriteString(write, "x\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(testTimeout):
		t.Error("it writes to nobody")
	}
}

// A broken stream is resumed after the last complete event.
func TestServeResumes(t *testing.T) {
	var resumed atomic.Int32
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.Parse(body)
		event := func(id, data string) {
			fmt.Fprintf(w, "id: %s\ndata: %s\n\n", id, data)
			w.(http.Flusher).Flush()
		}
		switch {
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "s")
			fmt.Fprint(w, "{\n\"jsonrpc\":\"2.0\",\"id\":0,\n\"result\":{\"protocolVersion\":\"2025-11-25\"}}")
		case m.IsNotification():
			w.WriteHeader(http.StatusAccepted)
		case m.Method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			event("a.1", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":1}}`)
			fmt.Fprint(w, "id: a.2\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifica") // breaks off
		case r.Header.Get("Last-Event-Id") == "a.1" && r.Header.Get("Mcp-Session-Id") == "s":
			w.Header().Set("Content-Type", "text/event-stream")
			if resumed.Add(1) == 1 {
				event("a.2", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":2}}`)
			}
		case r.Header.Get("Last-Event-Id") == "a.2":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w,
				"event: close\n\nevent: strange\ndata: x\n\ndata: no message\n\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n")
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	}))
	defer far.Close()
	p := run(t, far.URL, "key")
	p.says(hello, ready, call("1", "x", "{}"))
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":2}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
	} {
		if got := p.hears(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A call that may have been executed is not retried; one that cannot have been is.
func TestServeNeverTwice(t *testing.T) {
	var calls, lists atomic.Int32
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.Parse(body)
		switch {
		case m.Method == "tools/call" && calls.Add(1) > 0, m.Method == "tools/list" && lists.Add(1) == 1:
			panic(http.ErrAbortHandler)
		case m.Method == "ping":
			if calls.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}))
	defer far.Close()
	p := run(t, far.URL, "key")
	p.says(call("1", "x", "{}"))
	if got := p.hears(); !strings.Contains(got, "not known whether") || calls.Load() != 1 {
		t.Errorf("%d calls, %s", calls.Load(), got)
	}
	p.says(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if got := p.hears(); got != `{"jsonrpc":"2.0","id":2,"result":{}}` || lists.Load() != 2 {
		t.Errorf("%d lists, %s", lists.Load(), got)
	}
	p.says(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if got := p.hears(); got != `{"jsonrpc":"2.0","id":3,"result":{}}` {
		t.Errorf("a server that is not ready yet: %s", got)
	}
}
