package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/settings"
	"patchbay/internal/tool"
)

// taskServer answers calls of its only tool with a task, and looks at it with the states that the
// test has listed; the last one stays.
type taskServer struct {
	mu       sync.Mutex
	states   []string
	looks    int
	updates  []string
	calls    int
	declared bool // the last request declared the extension
	named    bool // and had the header with the id
	cancels  chan string
}

func (h *taskServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			TaskID         string
			InputResponses json.RawMessage
			Meta           struct {
				Can struct {
					Extensions map[string]json.RawMessage
				} `json:"io.modelcontextprotocol/clientCapabilities"`
			} `json:"_meta"`
		}
	}
	if json.Unmarshal(body, &m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	result := ""
	switch m.Method {
	case "server/discover":
		result = `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"` + tasksExtension + `":{}}}`
	case "tools/list":
		result = `"tools":[{"name":"job","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"`
	case "tools/call":
		h.calls++
		h.declared = m.Params.Meta.Can.Extensions[tasksExtension] != nil
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"task","taskId":"t 1","status":"working",`+ //nolint:errcheck // of the test
			`"createdAt":"2026-11-26T00:00:00Z","lastUpdatedAt":"2026-11-26T00:00:00Z","ttlMs":null,"pollIntervalMs":1}}`, m.ID)
		return
	case "tasks/get":
		h.named = r.Header.Get("Mcp-Name") == "t 1" && m.Params.Meta.Can.Extensions[tasksExtension] != nil
		state := h.states[min(h.looks, len(h.states)-1)]
		h.looks++
		switch state {
		case "broken":
			w.WriteHeader(http.StatusBadGateway)
			return
		case "gone":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Task not found"}}`, m.ID) //nolint:errcheck // of the test
			return
		}
		result = `"taskId":"t 1",` + state + `,"pollIntervalMs":1`
	case "tasks/update":
		h.updates = append(h.updates, string(m.Params.InputResponses))
	case "tasks/cancel":
		h.cancels <- m.Params.TaskID
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID) //nolint:errcheck // of the test
		return
	}
	if result != "" {
		result = "," + result
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"%s}}`, m.ID, result) //nolint:errcheck // of the test
}

const (
	working  = `"status":"working","statusMessage":"on it"`
	askingA  = `"status":"input_required","inputRequests":{"a":{"method":"roots/list"}}`
	askingAB = `"status":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"}}`
	finished = `"status":"completed","result":{"content":[{"type":"text","text":"at last"}]}`
)

func newTaskServer(t *testing.T, timeout time.Duration, states ...string) (*rig, *taskServer) {
	t.Helper()
	h := &taskServer{states: states, cancels: make(chan string, 10)}
	w := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		h.ServeHTTP(w, r)
	}))
	return newRig(t, Settings{URL: w.URL + "/mcp", Timeout: settings.Duration(timeout)}, fastTimings()).ready(), h
}

func TestTasksOfServers(t *testing.T) {
	for _, c := range []struct {
		states []string
		text   string    // of the result
		code   tool.Code // or of the error
	}{
		{[]string{working, working, finished}, "at last", ""},
		{[]string{"broken", working, "broken", "broken", finished}, "at last", ""},
		{[]string{"broken"}, "", tool.Lost},
		{[]string{working, "gone"}, "", tool.Refused},
		{[]string{`"status":"failed","error":{"code":-32007,"message":"no"}`}, "", tool.Refused},
		{[]string{`"status":"failed"`}, "", tool.Garbled},
		{[]string{`"status":"cancelled"`}, "", tool.Failed},
		{[]string{`"status":"completed"`}, "", tool.Garbled},
		{[]string{`"status":"strange"`}, "", tool.Garbled},
		{[]string{`"status":7`}, "", tool.Garbled},
		{[]string{askingA}, "", tool.Failed}, // the caller cannot be asked
	} {
		name := strings.Join(c.states, " ")
		r, h := newTaskServer(t, 0, c.states...)
		var told []string
		res, err := r.do(t.Context(), &tool.Call{Tool: "job", Args: json.RawMessage(`{}`),
			Progress: func(p tool.Progress) { told = append(told, p.Message) }})
		switch e := tool.AsError(err); {
		case c.code == "" && (err != nil || res.PlainText() != c.text):
			t.Errorf("%s: %+v, %v", name, res, err)
		case c.code != "" && (e == nil || e.Code != c.code):
			t.Errorf("%s: %+v, %v", name, res, err)
		case c.states[0] == working && (len(told) != 1 || told[0] != "on it"):
			t.Errorf("%s: the progress is %q", name, told)
		}
		h.mu.Lock()
		if h.calls != 1 || !h.declared || !h.named && c.states[0] != "broken" {
			t.Errorf("%s: %d calls, %v, %v", name, h.calls, h.declared, h.named)
		}
		h.mu.Unlock()
	}
}

// The server's requests are passed on, and not twice if it still lists one that is answered.
func TestTaskOfServerAsks(t *testing.T) {
	r, h := newTaskServer(t, 0, working, askingA, askingA, askingA, askingAB, askingAB, finished)
	call := &tool.Call{Tool: "job", Args: json.RawMessage(`{}`), Capabilities: tool.Capabilities{Roots: true}}
	for _, name := range []string{"a", "b"} {
		res, err := r.do(t.Context(), call)
		if err != nil || res.InputRequired == nil || len(res.InputRequired.Requests) != 1 ||
			res.InputRequired.Requests[name].Method != "roots/list" {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		call.State = res.InputRequired.State
		call.Answers = map[string]json.RawMessage{name: json.RawMessage(`{"roots":[]}`)}
	}
	if res, err := r.do(t.Context(), call); err != nil || res.PlainText() != "at last" {
		t.Errorf("%+v, %v", res, err)
	}
	if len(h.updates) != 2 || h.updates[1] != `{"b":{"roots":[]}}` || h.calls != 1 {
		t.Errorf("%d calls, answers %q", h.calls, h.updates)
	}
	for _, state := range []string{taskPrefix, taskPrefix + "%", taskPrefix + "e30"} {
		call.State = state
		if _, err := r.do(t.Context(), call); tool.AsError(err).Code != tool.BadArgs {
			t.Errorf("the state %q: %v", state, err)
		}
	}
}

// A server is told that a task is no longer wanted: by a caller who leaves, or does not answer, and
// when it takes too long.
func TestTaskOfServerCancelled(t *testing.T) {
	cancelled := func(h *taskServer) {
		t.Helper()
		select {
		case id := <-h.cancels:
			if id != "t 1" {
				t.Errorf("cancelled is %q", id)
			}
		case <-time.After(testTimeout):
			t.Fatal("nothing was cancelled")
		}
	}
	r, h := newTaskServer(t, 0, working)
	ctx, leave := context.WithCancel(t.Context())
	call := &tool.Call{Tool: "job", Args: json.RawMessage(`{}`), Progress: func(tool.Progress) { leave() }}
	if _, err := r.do(ctx, call); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	cancelled(h)

	r, h = newTaskServer(t, time.Second, working)
	if _, err := r.call(t.Context(), "job", "{}"); tool.AsError(err).Code != tool.TimedOut {
		t.Error(err)
	}
	cancelled(h)

	for _, c := range []*tool.Call{{Abandoned: true}, {Refusals: map[string]json.RawMessage{"a": nil}}} {
		r, h = newTaskServer(t, 0, askingA)
		call := &tool.Call{Tool: "job", Args: json.RawMessage(`{}`), Capabilities: tool.Capabilities{Roots: true}}
		res, err := r.do(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		c.Tool, c.State = call.Tool, res.InputRequired.State
		if _, err := r.do(t.Context(), c); err == nil {
			t.Error("a call without an answer has a result")
		}
		cancelled(h)
	}
}

func FuzzTask(f *testing.F) {
	f.Add([]byte(`{"resultType":"task","taskId":"t","status":"working","pollIntervalMs":1e9}`))
	f.Add([]byte(`{"resultType":"task","taskId":"t",` + askingAB + `}`))
	f.Add([]byte(`{"resultType":"task","pollIntervalMs":"x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		task, err := readTask(raw)
		if task == nil || err != nil {
			return
		}
		if d := task.interval(); task.ID == "" || d < minPoll || d > maxPoll {
			t.Errorf("%q every %s", task.ID, d)
		}
	})
}
