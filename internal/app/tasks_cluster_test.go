package app

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/seal"
	"patchbay/internal/store/storetest"
	"patchbay/internal/tool"
)

// slowTool ends its calls when the test says so.
type slowTool chan string

func (s slowTool) Call(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
	select {
	case text := <-s:
		return tool.Text(text), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// task makes a request about a task, and returns what the response says of it.
func (s *oauthServer) task(token, method, name string, params map[string]any) (text string) {
	s.t.Helper()
	params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{
			"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	must(s.t, err)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/mcp",
		strings.NewReader(string(body)))
	must(s.t, err)
	for name, value := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method,
		"Mcp-Name": name} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	must(s.t, err)
	defer resp.Body.Close()
	var m struct{ Result, Error json.RawMessage }
	must(s.t, json.NewDecoder(resp.Body).Decode(&m))
	return string(m.Result) + string(m.Error)
}

func (s *oauthServer) awaitTask(token, id, want string) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(30 * time.Second); ; <-tick.C {
		text := s.task(token, "tasks/get", id, map[string]any{"taskId": id})
		if strings.Contains(text, want) {
			return
		}
		if time.Now().After(limit) {
			s.t.Fatalf("the task does not say %q but %.2000s", want, text)
		}
	}
}

// A program that was let in at one instance begins a long call there, and fetches the result at
// another one, also if that is larger than a message of the bus. When the first instance has
// stopped, the other one knows that a call was carried out.
func TestTaskOnTwoInstances(t *testing.T) {
	urls, o, secret := strings.Split(bustest.Cluster(t, 2), ","), storetest.Postgres(t), seal.NewSecret()
	with := func(bus string) map[string]string {
		return map[string]string{"database.url": o.URL, "bus.url": bus, "secret": secret}
	}
	two := newOAuthServerWith(t, Options{}, with(urls[1]))
	one := serveOAuth(t, Options{}, with(urls[0]))
	access := two.letIn()
	slow := make(slowTool)
	r, err := one.base.tools.hub.Load().Register(hub.ProviderRef{ID: "test/slow", Slug: "slow", Kind: "test",
		Owner: two.person, Title: "slow"}, slow)
	must(t, err)
	r.SetTools([]tool.Tool{{Name: "work", Input: json.RawMessage(`{"type":"object"}`)}})

	begin := func() string {
		t.Helper()
		var task struct{ TaskID string }
		text := one.task(access, "tools/call", "slow_work", map[string]any{"name": "slow_work"})
		if json.Unmarshal([]byte(text), &task) != nil || task.TaskID == "" {
			t.Fatalf("the call is answered with %s", text)
		}
		return task.TaskID
	}
	id := begin()
	two.awaitTask(access, id, `"status":"working"`)
	large := strings.Repeat("z", 3<<20)
	slow <- large
	two.awaitTask(access, id, large)
	id = begin()
	two.task(access, "tasks/cancel", id, map[string]any{"taskId": id})
	two.awaitTask(access, id, `"status":"cancelled"`)
	id = begin()
	slow <- "carried out"
	one.awaitTask(access, id, `"status":"completed"`)
	one.stop()
	two.awaitTask(access, id, "The call was carried out.")
}
