package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/tool"
)

// client is a client of Streamable HTTP with a session.
type client struct {
	*rig
	header http.Header
}

// connect begins a session with a key.
func (r *rig) connect(t *testing.T, key, version string) *client {
	t.Helper()
	c := &client{r, http.Header{"Authorization": {"Bearer " + key}, "Accept": {"application/json, text/event-stream"}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+
			`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = c.header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	id := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("initialize: %s", resp.Status)
	}
	c.header.Set("Mcp-Session-Id", id)
	return c
}

// ask posts a message and returns the status and the body.
func (c *client) ask(t *testing.T, body string) (int, string) {
	t.Helper()
	return c.post(t, "/mcp", body, c.header)
}

// listen opens the session's notification stream.
func (c *client) listen(t *testing.T) *seedReader {
	t.Helper()
	header := c.header.Clone()
	header.Set("Accept", "text/event-stream")
	return c.openSeed(t, "/mcp", header)
}

// until reads a stream up to a line that contains a text.
func (s *seedReader) until(t *testing.T, text string) string {
	t.Helper()
	for {
		if line := s.next(t); strings.Contains(line, text) {
			return line
		}
	}
}

const pingBody = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func callBody(id int, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"p%d"}}}`, id, name, args, id)
}

// A session belongs to its key, ends when its client deletes it, and is unknown otherwise.
func TestSessions(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.connect(t, r.key, "2025-11-25")
	if status, body := c.ask(t, pingBody); status != http.StatusOK || body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("ping: %d %s", status, body)
	}
	foreign := c.header.Clone()
	foreign.Set("Authorization", "Bearer "+r.addKey(t, "other", ""))
	forged := c.header.Clone()
	forged.Set("Mcp-Session-Id", c.header.Get("Mcp-Session-Id")+"x")
	none := c.header.Clone()
	none.Del("Mcp-Session-Id")
	strange := c.header.Clone()
	strange.Set("Mcp-Protocol-Version", "2020-01-01")
	for name, h := range map[string]struct {
		header http.Header
		want   int
	}{"another key's": {foreign, 404}, "a forged": {forged, 404}, "no": {none, 400}, "a strange version's": {strange,
		400}} {
		if status, body := r.post(t, "/mcp", pingBody, h.header); status != h.want {
			t.Errorf("%s session: %d %s, want %d", name, status, body, h.want)
		}
	}
	for _, want := range []int{http.StatusNoContent, http.StatusNotFound} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, r.url+"/mcp", nil)
		req.Header = c.header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("DELETE: %s, want %d", resp.Status, want)
		}
	}
	if status, _ := c.ask(t, pingBody); status != http.StatusNotFound {
		t.Errorf("an ended session answers %d", status)
	}
}

// A session that is not in memory is restored from its id: one that was dropped, or comes from
// another instance or from before a restart.
func TestSessionIsInItsID(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.connect(t, r.key, "2025-03-26")
	r.server.sessions.sweep(time.Now().Add(time.Hour))
	if n := r.server.sessions.count(); n != 0 {
		t.Fatalf("%d sessions are left", n)
	}
	if status, body := c.ask(t, `[`+pingBody+`]`); status != http.StatusOK ||
		body != `[{"jsonrpc":"2.0","id":1,"result":{}}]` {
		t.Errorf("a session that was forgotten: %d %s", status, body)
	}
}

// Each key sees the tools that its owner and its rules allow, and is notified of their changes
// only.
func TestListChangedReachesTheRightSessions(t *testing.T) {
	r := newRig(t, rigOptions{})
	wide, narrow := r.connect(t, r.key, "2025-11-25"), r.connect(t, r.addKey(t, "narrow", `{"allow":["lamp_*"]}`),
		"2025-11-25")
	wideStream, narrowStream := wide.listen(t), narrow.listen(t)
	says := providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("x"), nil })
	fan := r.register(t, hub.ProviderRef{ID: "fan", Slug: "fan", Kind: "k", Owner: r.Person.ID}, says,
		tool.Tool{Name: "on"})
	r.register(t, hub.ProviderRef{ID: "other", Slug: "theirs", Kind: "k", Owner: "somebody else"}, says,
		tool.Tool{Name: "on"})
	wideStream.until(t, "notifications/tools/list_changed")
	r.register(t, hub.ProviderRef{ID: "lamp", Slug: "lamp", Kind: "k", Owner: r.Person.ID}, says, tool.Tool{Name: "on"})
	wideStream.until(t, "notifications/tools/list_changed")
	// The restricted key is notified of the lamp for the first time.
	narrowStream.until(t, "notifications/tools/list_changed")
	if _, body := narrow.ask(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(body, "lamp_on") ||
		strings.Contains(body, "fan_on") {
		t.Errorf("the narrow key sees %s", body)
	}
	if _, body := wide.ask(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(body, "fan_on") ||
		strings.Contains(body, "theirs") {
		t.Errorf("the wide key sees %s", body)
	}
	fan.Unregister()
	wideStream.until(t, "notifications/tools/list_changed")
	select {
	case line := <-narrowStream.lines:
		if line != ":" {
			t.Errorf("the narrow key hears of the fan: %s", line)
		}
	default:
	}
}

// A long list has pages, which stay correct when the list changes in between.
func TestPagesOfTools(t *testing.T) {
	r := newRig(t, rigOptions{})
	var tools []tool.Tool
	for i := range 2000 {
		tools = append(tools, tool.Tool{Name: fmt.Sprintf("t%04d", i), Description: strings.Repeat("d", 300)})
	}
	s := r.register(t, hub.ProviderRef{ID: "many", Slug: "many", Kind: "k"}, providerFunc(nil), tools...)
	c := r.connect(t, r.key, "2025-11-25")
	seen, cursor, pages := 0, "", 0
	for {
		pages++
		_, body := c.ask(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"`+cursor+`"}}`)
		var m struct {
			Result struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		for _, x := range m.Result.Tools {
			if want := fmt.Sprintf("many_t%04d", seen); x.Name != want {
				t.Fatalf("tool %d is %s", seen, x.Name)
			}
			seen++
		}
		if cursor = m.Result.NextCursor; cursor == "" {
			break
		}
		if pages == 1 { // the tool that the cursor names is removed
			s.SetTools(append(append([]tool.Tool{}, tools[:seen-1]...), tools[seen:]...))
		}
	}
	if seen != 2000 || pages < 3 {
		t.Errorf("%d tools on %d pages", seen, pages)
	}
	if status, body := c.ask(t,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"?"}}`); status != 200 ||
		!strings.Contains(body, "-32602") {
		t.Errorf("a bad cursor: %d %s", status, body)
	}
}

// A client whose connection breaks during a call resumes the stream, and gets every event once.
func TestResume(t *testing.T) {
	r := newRig(t, rigOptions{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.register(t, hub.ProviderRef{ID: "a", Kind: "k"}, providerFunc(func(ctx context.Context,
		c *tool.Call) (*tool.Result, error) {
		c.Progress(tool.Progress{Done: 1, Message: "first"})
		close(begun)
		select {
		case <-goOn:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c.Progress(tool.Progress{Done: 2, Message: "second"})
		return tool.Text("the answer"), nil
	}), tool.Tool{Name: "slow"})
	c := r.connect(t, r.key, "2025-11-25")
	ctx, hangUp := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost,
		r.url+"/mcp", strings.NewReader(callBody(5, "slow", "{}")))
	req.Header = c.header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	buf := make([]byte, 4096)
	got := ""
	for !strings.Contains(got, "first") {
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += string(buf[:n])
	}
	hangUp()
	resp.Body.Close()
	last := ""
	for line := range strings.Lines(got) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "id: "); ok {
			last = id
		}
	}
	header := c.header.Clone()
	header.Set("Last-Event-ID", last)
	s := r.openSeed(t, "/mcp", header)
	close(goOn)
	s.until(t, "second")
	if line := s.until(t, "the answer"); !strings.Contains(line, `"id":5`) {
		t.Errorf("the answer is %s", line)
	}
	if line, more := <-s.lines; more {
		t.Errorf("after the answer comes %q", line)
	}
	header.Set("Last-Event-ID", "s99.1")
	if status, _ := get(t, r.url+"/mcp", header); status != http.StatusBadRequest {
		t.Errorf("an unknown event: %d", status)
	}
}

func get(t *testing.T, url string, header http.Header) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// A call is canceled by its client, or when its client disconnects without being able to resume:
// the provider's context ends.
func TestCancel(t *testing.T) {
	r := newRig(t, rigOptions{})
	begun, stopped := make(chan string, 4), make(chan error, 4)
	r.register(t, hub.ProviderRef{ID: "a", Kind: "k"}, providerFunc(func(ctx context.Context,
		c *tool.Call) (*tool.Result, error) {
		begun <- c.ID
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return nil, ctx.Err()
	}), tool.Tool{Name: "slow"})
	c := r.connect(t, r.key, "2025-11-25")
	awaitStop := func(how string) {
		t.Helper()
		select {
		case <-stopped:
		case <-time.After(testTimeout):
			t.Fatalf("%s: the provider goes on", how)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, body := c.ask(t, callBody(7, "slow", "{}")); !strings.Contains(body, "cancelled") {
			t.Errorf("the cancelled call is answered %s", body)
		}
	})
	<-begun
	c.ask(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	awaitStop("cancelled")
	wg.Wait()

	for name, header := range map[string]http.Header{"JSON in a session": c.header, "stateless": {
		"Authorization": c.header["Authorization"], "Accept": {"application/json"},
		"Mcp-Protocol-Version": {statelessVersion}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"slow"},
	}} {
		ctx, hangUp := context.WithCancel(t.Context())
		body := `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"slow","_meta":{"` + metaVersion +
			`":"` + statelessVersion + `","` + metaCapabilities + `":{}}}}`
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/mcp", strings.NewReader(body))
		req.Header = header
		wg.Go(func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		})
		<-begun
		hangUp()
		awaitStop(name)
	}
	wg.Wait()
}

// A faulty provider does not affect others.
func TestProviderGoesAway(t *testing.T) {
	r := newRig(t, rigOptions{})
	begun := make(chan struct{})
	release := make(chan struct{})
	bad := r.register(t, hub.ProviderRef{ID: "bad", Slug: "bad", Kind: "k"},
		providerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			switch c.Tool {
			case "garbage":
				return &tool.Result{Content: json.RawMessage(`{"not":"a list"}`)}, nil
			case "panic":
				panic("oh no")
			}
			close(begun)
			<-release
			return nil, tool.Fail(tool.Lost, "The device has gone.", nil)
		}), tool.Tool{Name: "vanish"}, tool.Tool{Name: "garbage"}, tool.Tool{Name: "panic"})
	r.register(t, hub.ProviderRef{ID: "good", Slug: "good", Kind: "k"},
		providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("fine"), nil }),
		tool.Tool{Name: "x"})
	c := r.connect(t, r.key, "2025-11-25")
	answer := make(chan string, 1)
	go func() {
		_, body := c.ask(t, callBody(1, "bad_vanish", "{}"))
		answer <- body
	}()
	<-begun
	bad.Unregister()
	if _, body := c.ask(t, callBody(2, "good_x", "{}")); !strings.Contains(body, "fine") {
		t.Errorf("meanwhile another provider answers %s", body)
	}
	close(release)
	if body := <-answer; !strings.Contains(body, `"isError":true`) || !strings.Contains(body, "The device has gone.") {
		t.Errorf("the caller is told %s", body)
	}
	if _, body := c.ask(t, callBody(3, "bad_vanish", "{}")); !strings.Contains(body, "Unknown tool") {
		t.Errorf("after it is gone: %s", body)
	}
	s := r.register(t, hub.ProviderRef{ID: "bad", Slug: "bad", Kind: "k"},
		providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			if c.Tool == "panic" {
				panic("oh no")
			}
			return &tool.Result{Content: json.RawMessage(`{"not":"a list"}`)}, nil
		}), tool.Tool{Name: "garbage"}, tool.Tool{Name: "panic"})
	defer s.Unregister()
	for _, name := range []string{"bad_garbage", "bad_panic"} {
		if _, body := c.ask(t, callBody(4, name, "{}")); !strings.Contains(body, `"isError":true`) ||
			!json.Valid([]byte(body)) {
			t.Errorf("%s: %s", name, body)
		}
	}
}
