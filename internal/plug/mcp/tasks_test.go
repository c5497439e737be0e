package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// tasker is a client that speaks the extension.
type tasker struct {
	t   *testing.T
	url string
	key string
}

// taskView is what a client sees of a task, or of a result.
type taskView struct {
	Type     string                  `json:"resultType"`
	ID       string                  `json:"taskId"`
	Status   string                  `json:"status"`
	Message  string                  `json:"statusMessage"`
	TTL      int64                   `json:"ttlMs"`
	Poll     int64                   `json:"pollIntervalMs"`
	Requests map[string]tool.Request `json:"inputRequests"`
	State    string                  `json:"requestState"`
	Content  rawText                 `json:"content"`
	Result   struct {
		Content rawText `json:"content"`
		IsError bool    `json:"isError"`
	} `json:"result"`
	Error *jsonrpc.Error `json:"error"`
}

// rawText is JSON that can be read in the log of a test.
type rawText string

func (r *rawText) UnmarshalJSON(b []byte) error {
	*r = rawText(b)
	return nil
}

// do makes a request, and returns the result or the error.
func (c *tasker) do(method string, params map[string]any) (v taskView, e *jsonrpc.Error) {
	c.t.Helper()
	resp := c.open(c.t.Context(), method, params)
	defer resp.Body.Close()
	var m struct {
		Result taskView
		Error  *jsonrpc.Error
	}
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
		c.t.Fatalf("%s: %s: %v", method, resp.Status, err)
	}
	return m.Result, m.Error
}

func (c *tasker) open(ctx context.Context, method string, params map[string]any) *http.Response {
	c.t.Helper()
	name, _ := params["name"].(string)
	if id, ok := params["taskId"].(string); ok {
		name = id
	}
	params["_meta"] = map[string]any{metaVersion: statelessVersion, metaCapabilities: map[string]any{
		"elicitation": map[string]any{}, "extensions": map[string]any{tasksExtension: map[string]any{}}}}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/mcp", strings.NewReader(string(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + c.key}, "Accept": {"application/json"},
		"Mcp-Protocol-Version": {statelessVersion}, "Mcp-Method": {method}, "Mcp-Name": {name}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// call calls a tool that becomes a task, and returns its id.
func (c *tasker) call(name string) string {
	c.t.Helper()
	v, e := c.do("tools/call", map[string]any{"name": name, "arguments": map[string]any{}})
	if e != nil || v.Type != "task" || v.Status != taskWorking || v.ID == "" || v.Poll <= 0 {
		c.t.Fatalf("the call of %s is %+v, %v", name, v, e)
	}
	return v.ID
}

func (c *tasker) get(id string) (taskView, *jsonrpc.Error) {
	c.t.Helper()
	return c.do("tasks/get", map[string]any{"taskId": id})
}

// until polls until the task has a state.
func (c *tasker) until(id, status string) taskView { return c.untilSays(id, status, "") }

// untilSays polls until the task has a state and a text about it.
func (c *tasker) untilSays(id, status, text string) taskView {
	c.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(testTimeout); ; <-tick.C {
		v, e := c.get(id)
		if e != nil {
			c.t.Fatalf("the task is answered with %v", e)
		}
		if v.Status == status && strings.Contains(v.Message, text) {
			return v
		}
		if time.Now().After(limit) {
			c.t.Fatalf("the task is not %s %q but %+v", status, text, v)
		}
	}
}

// workshop has tools that do what a test says.
type workshop struct {
	r       *rig
	release chan *tool.Result // ends a call of "job"; nil: with an error
	stopped chan error        // why a call of "job" was stopped
	again   chan *tool.Call   // calls of "job" with answers
	begun   chan struct{}     // calls of "job"
}

func newWorkshop(t *testing.T, o rigOptions) *workshop {
	if o.mcp.TaskAfter == 0 {
		o.mcp.TaskAfter = time.Millisecond
	}
	w := &workshop{r: newRig(t, o), release: make(chan *tool.Result, 10), stopped: make(chan error, 10),
		again: make(chan *tool.Call, 10), begun: make(chan struct{}, 100)}
	w.r.register(t, hub.ProviderRef{ID: "workshop", Kind: "k"}, providerFunc(w.call), tool.Tool{Name: "job"},
		tool.Tool{Name: "quick"})
	return w
}

func (w *workshop) call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Tool == "quick" {
		return tool.Text("at once"), nil
	}
	if c.State != "" || c.Answers != nil {
		w.again <- c
	}
	c.Progress(tool.Progress{Done: 1, Total: 3})
	w.begun <- struct{}{}
	select {
	case r := <-w.release:
		if r == nil {
			return nil, &tool.Error{Code: tool.Refused, Told: "crashed", RPC: -32000}
		}
		return r, nil
	case <-ctx.Done():
		w.stopped <- context.Cause(ctx)
		return nil, ctx.Err()
	}
}

func (w *workshop) client(t *testing.T, key string) *tasker { return &tasker{t, w.r.url, key} }

func TestTaskEnds(t *testing.T) {
	w := newWorkshop(t, rigOptions{})
	c := w.client(t, w.r.key)

	id := c.call("job")
	if v := c.untilSays(id, taskWorking, "1 of 3"); v.TTL != defaultTaskTTL.Milliseconds() {
		t.Errorf("a working task is %+v", v)
	}
	w.release <- tool.Text("done")
	if v := c.until(id, taskCompleted); !strings.Contains(string(v.Result.Content), "done") {
		t.Errorf("the result is %s", v.Result.Content)
	}
	if v, e := c.get(id); e != nil || v.Status != taskCompleted || v.TTL > (fetchedTTL+testTimeout).Milliseconds() {
		t.Errorf("fetched again: %+v, %v", v, e)
	}

	id = c.call("job")
	w.release <- tool.ErrorResult("no luck")
	if v := c.until(id, taskCompleted); !v.Result.IsError {
		t.Errorf("an error of the tool is %+v", v)
	}

	id = c.call("job")
	w.release <- nil
	if v := c.until(id, taskFailed); v.Error == nil || v.Error.Code != -32000 || v.Message != "crashed" {
		t.Errorf("an error of the protocol is %+v", v)
	}
	if _, e := c.do("tasks/cancel", map[string]any{"taskId": id}); e != nil {
		t.Errorf("cancelling an ended task: %v", e)
	}

	id = c.call("job")
	if v, e := c.do("tasks/cancel", map[string]any{"taskId": id}); e != nil || v.Type != "complete" || v.ID != "" {
		t.Errorf("cancelling: %+v, %v", v, e)
	}
	c.until(id, taskCancelled)
	if why := <-w.stopped; !errors.Is(why, errTaskCancelled) {
		t.Errorf("the call was stopped because %v", why)
	}
	for outcome, want := range map[string]float64{"created": 4, taskCompleted: 2, taskFailed: 1, taskCancelled: 1} {
		if got := testutil.ToFloat64(w.r.server.metrics.tasks.WithLabelValues(outcome)); got != want {
			t.Errorf("%s: %v tasks", outcome, got)
		}
	}
	if n := w.r.server.tasks.count(taskCompleted, taskFailed, taskCancelled); n != 4 {
		t.Errorf("%d ended tasks are kept", n)
	}
	w.r.Hub.WaitForCallRecords(t.Context())
	rows, err := w.r.Store.Calls.Newest(t.Context(), w.r.Person.ID, time.Now().Add(time.Minute), 10)
	if err != nil || len(rows) != 4 {
		t.Errorf("the audit trail has %d calls: %v", len(rows), err)
	}
}

// A call that is quick, and every call of a client without the extension, is answered directly.
func TestNoTask(t *testing.T) {
	w := newWorkshop(t, rigOptions{mcp: Options{TaskAfter: testTimeout}})
	c := w.client(t, w.r.key)
	if v, e := c.do("tools/call", map[string]any{"name": "quick"}); e != nil || v.Type != "complete" ||
		!strings.Contains(string(v.Content), "at once") {
		t.Errorf("a quick call is %+v, %v", v, e)
	}
	header := http.Header{"Authorization": {"Bearer " + w.r.key}, "Accept": {"application/json"},
		"Mcp-Protocol-Version": {statelessVersion}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"quick"}}
	plain := func(method, params string) string {
		header.Set("Mcp-Method", method)
		_, body := w.r.post(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,"_meta":{"`+
			metaVersion+`":"`+statelessVersion+`","`+metaCapabilities+`":{}}}}`, header)
		return body
	}
	if body := plain("tools/call", `"name":"quick"`); !strings.Contains(body, `"resultType":"complete"`) {
		t.Errorf("without the extension: %s", body)
	}
	header.Set("Mcp-Name", "x")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if body := plain(method, `"taskId":"x","inputResponses":{}`); !strings.Contains(body, "-32021") {
			t.Errorf("%s without the extension: %s", method, body)
		}
	}
	header.Del("Mcp-Name")
	if body := plain("subscriptions/listen", `"notifications":{"taskIds":["x"]}`); !strings.Contains(body, "-32021") {
		t.Errorf("listening without the extension: %s", body)
	}
}

// Nobody sees or touches a task of another key: neither the same person with another key, nor
// another person.
func TestTasksOfOthers(t *testing.T) {
	w := newWorkshop(t, rigOptions{})
	c := w.client(t, w.r.key)
	bob, err := w.r.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", "")
	if err != nil {
		t.Fatal(err)
	}
	id := c.call("job")
	for who, key := range map[string]string{"another key": w.r.addKey(t, "other", ""),
		"another person": w.r.Key(t, account.NewKey{Person: bob.ID, Name: "bob", Scopes: []string{account.ScopeMCP}})} {
		other := w.client(t, key)
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			if _, e := other.do(method, map[string]any{"taskId": id, "inputResponses": map[string]any{}}); e == nil ||
				e.Code != jsonrpc.InvalidParams {
				t.Errorf("%s: %s is answered with %v", who, method, e)
			}
		}
		s := other.listen(id)
		if line := s.next(t); strings.Contains(line, id) || !strings.Contains(line, "acknowledged") {
			t.Errorf("%s listens: %s", who, line)
		}
		s.cancel()
	}
	for _, id := range []string{"", "x", "sealed:1:", "sealed:1:AAAA", id[:len(id)-1], strings.Repeat("x", 10_000),
		w.r.Box.Seal(`{}`), w.r.Box.Seal("x")} {
		if _, e := c.get(id); e == nil || e.Code != jsonrpc.InvalidParams {
			t.Errorf("the id %.40q is answered with %v", id, e)
		}
	}
	w.release <- tool.Text("mine")
	c.until(id, taskCompleted)
	select {
	case why := <-w.stopped:
		t.Errorf("somebody has stopped the call: %v", why)
	default:
	}
}

// listen opens a subscription to tasks.
func (c *tasker) listen(ids ...string) *seedReader {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	c.t.Cleanup(cancel)
	resp := c.open(ctx, "subscriptions/listen", map[string]any{"notifications": map[string]any{"taskIds": ids}})
	return readEvents(resp, cancel)
}

// readEvents reads the events of a response.
func readEvents(resp *http.Response, cancel context.CancelFunc) *seedReader {
	s := &seedReader{lines: make(chan string, 100), cancel: cancel}
	go func() {
		defer resp.Body.Close()
		defer close(s.lines)
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			if strings.HasPrefix(in.Text(), "data: ") || strings.HasPrefix(in.Text(), "id: ") {
				s.lines <- in.Text()
			}
		}
	}()
	return s
}

// What a provider asks during a task is answered by tasks/update: in several requests, in several
// rounds, each with other keys.
func TestTaskAsks(t *testing.T) {
	w := newWorkshop(t, rigOptions{})
	c := w.client(t, w.r.key)
	id := c.call("job")
	form := tool.Request{Method: "elicitation/create", Params: json.RawMessage(`{"message":"?"}`)}
	seen := map[string]bool{}
	for round := range 3 {
		state := fmt.Sprint("state ", round)
		w.release <- &tool.Result{InputRequired: &tool.InputRequired{State: state,
			Requests: map[string]tool.Request{"a": form, "b": form}}}
		v := c.until(id, taskInputRequired)
		if len(v.Requests) != 2 || v.State != "" {
			t.Fatalf("round %d: %+v", round, v)
		}
		for key := range v.Requests {
			if seen[key] || v.Requests[key].Method != form.Method {
				t.Errorf("round %d: the key %q", round, key)
			}
			seen[key] = true
			answer := map[string]any{key: map[string]any{"action": "accept"}, "stranger": map[string]any{}}
			if got, e := c.do("tasks/update", map[string]any{"taskId": id, "inputResponses": answer}); e != nil ||
				got.Type != "complete" || got.ID != "" {
				t.Fatalf("an answer is answered with %+v, %v", got, e)
			}
			if v, e := c.get(id); e != nil || v.Requests[key].Method != "" {
				t.Errorf("after its answer: %+v, %v", v, e)
			}
		}
		call := <-w.again
		if call.State != state || len(call.Answers) != 2 || string(call.Answers["a"]) != `{"action":"accept"}` {
			t.Errorf("the provider gets %q, %s", call.State, call.Answers)
		}
	}
	w.release <- tool.Text("enough")
	c.until(id, taskCompleted)

	id = c.call("job") // cancelled while it asks
	w.release <- &tool.Result{InputRequired: &tool.InputRequired{Requests: map[string]tool.Request{"a": form}}}
	c.until(id, taskInputRequired)
	if _, e := c.do("tasks/update", map[string]any{"taskId": id, "inputResponses": []int{}}); e == nil {
		t.Error("answers that are no object are taken")
	}
	if _, e := c.do("tasks/cancel", map[string]any{"taskId": id}); e != nil {
		t.Error(e)
	}
	c.until(id, taskCancelled)
}

// A provider that asks before the call has become a task asks by the result of the request.
func TestAsksBeforeTask(t *testing.T) {
	w := newWorkshop(t, rigOptions{mcp: Options{TaskAfter: testTimeout}})
	w.release <- &tool.Result{InputRequired: &tool.InputRequired{State: "s", Requests: map[string]tool.Request{
		"a": {Method: "elicitation/create", Params: json.RawMessage(`{"message":"?"}`)}}}}
	v, e := w.client(t, w.r.key).do("tools/call", map[string]any{"name": "job"})
	if e != nil || v.Type != "input_required" || v.State == "" || v.ID != "" || len(v.Requests) != 1 {
		t.Errorf("the question is %+v, %v", v, e)
	}
}

// Listeners hear of the present state and of each change.
func TestTaskNotifications(t *testing.T) {
	w := newWorkshop(t, rigOptions{})
	c := w.client(t, w.r.key)
	id := c.call("job")
	s := c.listen(id, "stranger")
	if line := s.next(t); !strings.Contains(line, "acknowledged") || !strings.Contains(line, `"taskIds":["`+id+`"]`) {
		t.Errorf("the subscription begins with %s", line)
	}
	for _, want := range []string{taskWorking, taskInputRequired, taskWorking, taskCompleted} {
		line := s.next(t)
		if !strings.Contains(line, `"notifications/tasks"`) || !strings.Contains(line, `"status":"`+want+`"`) ||
			!strings.Contains(line, metaSubscription) || strings.Contains(line, "resultType\":\"task") {
			t.Fatalf("not %s: %s", want, line)
		}
		switch want {
		case taskWorking:
			select {
			case <-w.again:
				w.release <- tool.Text("done")
			default:
				w.release <- &tool.Result{InputRequired: &tool.InputRequired{Requests: map[string]tool.Request{
					"a": {Method: "roots/list"}}}}
			}
		case taskInputRequired:
			_, e := c.do("tasks/update", map[string]any{"taskId": id,
				"inputResponses": map[string]any{"1.a": map[string]any{}}})
			if e != nil {
				t.Fatal(e)
			}
			w.again <- <-w.again // it goes on
		}
	}
}
