package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/plug/mcp/sim"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// program is an MCP client of one server.
type program struct {
	url, key, session string
}

// post sends a message and returns the status, the body and the session ID.
func (p *program) post(t *testing.T, path, body string) (int, string, string) {
	t.Helper()
	status, text, session, err := p.try(path, body)
	must(t, err)
	return status, text, session
}

func (p *program) try(path, body string) (int, string, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", "", err
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	if p.session != "" {
		req.Header.Set("Mcp-Session-Id", p.session)
	}
	resp, err := (&http.Client{Timeout: 20 * time.Second}).Do(req)
	if err != nil {
		return 0, "", "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), resp.Header.Get("Mcp-Session-Id"), err
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func callOf(id int, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool,
		args)
}

// events reads the lines of an event stream.
func (p *program) events(t *testing.T, path string) <-chan string {
	t.Helper()
	reading, stop := context.WithCancel(ctx)
	t.Cleanup(stop)
	req, err := http.NewRequestWithContext(reading, http.MethodGet, p.url+path, nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+p.key)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	lines := make(chan string, 1000)
	go func() {
		defer resp.Body.Close()
		defer close(lines)
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return lines
}

func awaitLine(t *testing.T, lines <-chan string, want string) string {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the stream ended before %q", want)
			}
			if strings.Contains(line, want) {
				return line
			}
		case <-deadline:
			t.Fatalf("%q does not come", want)
		}
	}
}

// Programs do not notice which of two instances their requests reach: a session continues at the
// other, even after its own was killed; the response to a message posted to one arrives on the
// stream of the other.
func TestProgramsOnTwoInstances(t *testing.T) {
	o := storetest.Postgres(t)
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	secret := "PATCHBAY_SECRET=" + strings.Repeat("5e", 32)
	first := newInstallation(o, secret, "PATCHBAY_BUS_URL="+urls[0])
	o.Folder = t.TempDir()
	second := newInstallation(o, secret, "PATCHBAY_BUS_URL="+urls[1])
	first.run(t, "user", "add", "ada")
	first.run(t, "bot", "add", "--name", "parrot", "--kind", "echo")
	var key addedKey
	first.json(t, &key, "key", "add", "--name", "desk", "--scope", "mcp")
	one, two := first.serve(t), second.serve(t)

	at := func(s *server, session string) *program { return &program{s.url, key.Key, session} }
	_, _, session := at(one, "").post(t, "/mcp", initialize)
	const says = `{"botId":"parrot","message":"hello"}`
	for _, s := range []*server{one, two} {
		if status, body, _ := at(s, session).post(t, "/mcp", callOf(1, "send_message", says)); status != 200 ||
			!strings.Contains(body, `"text":"hello"`) {
			t.Errorf("a call at %s: %d %s", s.url, status, body)
		}
	}

	lines := at(one, "").events(t, "/mcp/sse")
	endpoint := strings.TrimPrefix(awaitLine(t, lines, "data: /mcp/messages"), "data: ")
	if status, body, _ := at(two, "").post(t, endpoint, callOf(7,
		"send_message", says)); status != http.StatusAccepted {
		t.Errorf("posted to the other instance: %d %s", status, body)
	}
	awaitLine(t, lines, `"id":7`)

	one.kill()
	if status, body, _ := at(two, session).post(t, "/mcp", callOf(2, "send_message", says)); status != 200 ||
		!strings.Contains(body, `"text":"hello"`) {
		t.Errorf("after the kill: %d %s", status, body)
	}
	if status, _, _ := at(two, "").post(t, endpoint, callOf(8, "send_message", says)); status != http.StatusNotFound {
		t.Errorf("a stream that died with its instance: %d", status)
	}
	one = first.serve(t)
	if status, body, _ := at(one, session).post(t, "/mcp", callOf(3, "list_bots", "{}")); status != 200 ||
		!strings.Contains(body, "parrot") {
		t.Errorf("after the restart: %d %s", status, body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, two.url+"/mcp", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+key.Key)
	req.Header.Set("Mcp-Session-Id", session)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	resp.Body.Close()
	deadline := time.Now().Add(10 * time.Second)
	for {
		status, _, _ := at(one, session).post(t, "/mcp", callOf(4, "list_bots", "{}"))
		if status == http.StatusNotFound {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a session that was ended at the other instance answers %d", status)
		}
	}
}

// An answered call that changed something is in the audit trail whatever happens next, and the
// tools of an upstream are back after each kill.
func TestKillLosesNoCall(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		home, err := sim.Start()
		must(t, err)
		defer home.Close()
		if o.Folder == "" {
			o.Folder = t.TempDir()
		}
		p := newInstallation(o)
		p.run(t, "user", "add", "ada")
		var key addedKey
		p.json(t, &key, "key", "add", "--name", "desk", "--scope", "mcp")
		p.run(t, "upstream", "add", "home", "--url", home.URL)

		var mu sync.Mutex
		answered := 0
		for range 3 {
			s := p.serve(t)
			at := &program{url: s.url, key: key.Key}
			_, _, at.session = at.post(t, "/mcp", initialize)
			waitWithin(t, time.Minute, "the upstream is connected", func() bool { // with pauses: calls have a rate
				_, body, _ := at.post(t, "/mcp", callOf(1, "home_get_temperature", `{"room":"x"}`))
				return strings.Contains(body, sim.Temperature)
			})
			var work sync.WaitGroup
			enough, ended := make(chan struct{}, 1000), make(chan string, 4)
			for range 4 {
				work.Go(func() {
					for {
						status, body, _, err := at.try("/mcp", callOf(2, "home_set_lamp", `{"room":"x","level":5}`))
						if err != nil || status != http.StatusOK {
							ended <- fmt.Sprint(status, body, err)
							return
						}
						var m struct{ Result struct{ IsError bool } }
						if json.Unmarshal([]byte(body), &m) != nil || m.Result.IsError ||
							!strings.Contains(body, "is at 5") {
							if strings.Contains(body, "running already") {
								continue // two calls used the same ID concurrently
							}
							ended <- body
							return
						}
						mu.Lock()
						answered++
						mu.Unlock()
						enough <- struct{}{}
					}
				})
			}
			for range 50 {
				select {
				case <-enough:
				case why := <-ended:
					t.Fatalf("a call was answered %s", why)
				}
			}
			s.kill()
			work.Wait()
		}
		p.serve(t) // writes the calls of the killed server to the trail
		rows, err := storetest.Open(t, o).Calls.Newest(ctx, "", time.Now().Add(time.Minute), 100_000)
		must(t, err)
		found := 0
		for _, c := range rows {
			if c.Tool == "home_set_lamp" && c.Outcome == "done" {
				found++
			}
		}
		t.Logf("%d calls were answered, %d are in the trail", answered, found)
		if found < answered || answered < 150 {
			t.Errorf("%d calls were answered, and %d are in the trail", answered, found)
		}
	})
}
