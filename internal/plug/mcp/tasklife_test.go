package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/store/storetest"
	"patchbay/internal/tool"
)

// A client that disconnects before the call has become a task cancels it.
func TestTaskAndDisconnect(t *testing.T) {
	w := newWorkshop(t, rigOptions{mcp: Options{TaskAfter: testTimeout}})
	c := w.client(t, w.r.key)
	ctx, hangUp := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		params := fmt.Sprintf(`{"name":"job","_meta":{%q:%q,%q:{"extensions":{%q:{}}}}}`, metaVersion, statelessVersion,
			metaCapabilities, tasksExtension)
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/mcp",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`))
		req.Header = http.Header{"Authorization": {"Bearer " + c.key}, "Accept": {"application/json"},
			"Mcp-Protocol-Version": {statelessVersion}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"job"}}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	})
	<-w.begun
	hangUp()
	work.Wait()
	<-w.stopped
	if n := len(w.r.server.tasks.list()); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
}

// A revoked key ends its tasks: running calls are cancelled, and results are forgotten.
func TestTasksOfRevokedKey(t *testing.T) {
	w := newWorkshop(t, rigOptions{streams: true})
	c := w.client(t, w.r.key)
	done := c.call("job")
	w.release <- tool.Text("secret")
	c.until(done, taskCompleted)
	running := c.call("job")
	keys, err := w.r.Store.Keys.ByPerson(t.Context(), w.r.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.r.Store.Keys.Revoke(t.Context(), keys[0].ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	select {
	case why := <-w.stopped:
		if !errors.Is(why, account.ErrEnded) {
			t.Errorf("the call ended because %v", why)
		}
	case <-time.After(testTimeout):
		t.Fatal("the call goes on")
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(testTimeout); w.r.server.tasks.list()[done] != nil; <-tick.C {
		if time.Now().After(limit) {
			t.Fatal("the result is kept")
		}
	}
	_ = running
}

// A task that nobody fetches is forgotten after its time; a running one is stopped.
func TestTaskExpires(t *testing.T) {
	w := newWorkshop(t, rigOptions{mcp: Options{TaskTTL: 300 * time.Millisecond}})
	c := w.client(t, w.r.key)
	id := c.call("job")
	if why := <-w.stopped; !errors.Is(why, errTaskExpired) {
		t.Errorf("the call ended because %v", why)
	}
	if _, e := c.get(id); e == nil || e.Code != jsonrpc.InvalidParams {
		t.Errorf("an expired task is answered with %v", e)
	}
	if n := testutil.ToFloat64(w.r.server.metrics.tasks.WithLabelValues("expired")); n != 1 {
		t.Errorf("%v tasks have expired", n)
	}
	if len(w.r.server.tasks.list()) != 0 || len(w.r.server.tasks.perKey) != 0 {
		t.Error("something is left")
	}
}

// A key with too many tasks is answered directly, and results that do not fit are said to be lost.
func TestTaskLimits(t *testing.T) {
	w := newWorkshop(t, rigOptions{})
	c := w.client(t, w.r.key)
	table := w.r.server.tasks
	id := c.call("job")
	table.mu.Lock()
	var key string
	for key = range table.perKey {
	}
	table.perKey[key].tasks += maxTasksPerKey
	table.mu.Unlock()
	w.release <- tool.Text("for one")
	w.release <- tool.Text("for the other")
	if v, e := c.do("tools/call", map[string]any{"name": "job"}); e != nil || v.Type != "complete" {
		t.Errorf("one call too many is %+v, %v", v, e)
	}
	if v, e := w.client(t, w.r.addKey(t, "other", "")).do("tools/call", map[string]any{"name": "quick"}); e != nil ||
		v.Type == "" {
		t.Errorf("another key gets %+v, %v", v, e)
	}
	c.until(id, taskCompleted)
	table.mu.Lock()
	table.perKey[key].tasks -= maxTasksPerKey
	table.mu.Unlock()

	id = c.call("job")
	table.mu.Lock()
	table.perKey[key].bytes += maxTaskBytesPerKey
	table.mu.Unlock()
	w.release <- tool.Text("too much")
	if v := c.until(id, taskFailed); v.Error == nil || !strings.Contains(v.Message, "could not be kept") {
		t.Errorf("a result without room is %+v", v)
	}
	table.mu.Lock()
	table.perKey[key].bytes -= maxTaskBytesPerKey
	table.mu.Unlock()
}

// A call that waits for the approval of its owner is a task for as long as the owner has to decide.
func TestTaskWaitsForApproval(t *testing.T) {
	w := newWorkshop(t, rigOptions{hub: hub.Options{ApprovalWait: time.Millisecond}})
	w.r.register(t, hub.ProviderRef{ID: "gate", Kind: "k", Slug: "gate", Owner: w.r.Person.ID}, providerFunc(w.call),
		tool.Tool{Name: "job", Dangerous: true})
	c := w.client(t, w.r.addKey(t, "asks", `{"ask":"owner"}`))
	id := c.call("gate_job")
	c.untilSays(id, taskWorking, "waits for an approval")
	list, err := w.r.Store.Approvals.Waiting(t.Context(), w.r.Person.ID, time.Now())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if _, err := w.r.Hub.DecideApproval(t.Context(), list[0].ID, true, hub.Decider{}); err != nil {
		t.Fatal(err)
	}
	w.release <- tool.Text("allowed")
	if v := c.until(id, taskCompleted); !strings.Contains(string(v.Result.Content), "allowed") {
		t.Errorf("the task is %+v", v)
	}
}

// memoryRelay connects servers in one process.
type memoryRelay struct {
	mu    sync.Mutex
	names map[string]func([]byte) []byte
	hears []func([]byte)
}

func (m *memoryRelay) Serve(name string, handle func([]byte) []byte) (func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[name] = handle
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.names, name)
	}, nil
}

func (m *memoryRelay) Request(_ context.Context, name string, data []byte) ([]byte, error) {
	m.mu.Lock()
	handle := m.names[name]
	m.mu.Unlock()
	if handle == nil {
		return nil, errors.New("nobody is there")
	}
	answer := handle(data)
	if len(answer) > maxRelayBytes {
		return nil, errors.New("too large")
	}
	return answer, nil
}

func (m *memoryRelay) Broadcast(data []byte) error {
	m.mu.Lock()
	hears := m.hears
	m.mu.Unlock()
	for _, hear := range hears {
		hear(data)
	}
	return nil
}

func (m *memoryRelay) Subscribe(handle func([]byte)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hears = append(m.hears, handle)
	return nil
}

// A state whose size changes between two of its parts, as it gets older, is read anew.
func TestTaskGrowsBetweenParts(t *testing.T) {
	states := []string{`{"pollIntervalMs":999,"result":"abcdefgh"}`, `{"pollIntervalMs":1000,"result":"abcdefgh"}`}
	asked := 0
	got, err := readTask(t.Context(), "there", taskRequest{Do: taskGet},
		func(_ context.Context, _ string, q *taskRequest) (taskReply, error) {
			state := states[min(asked, 1)]
			asked++
			return taskReply{true, 7, len(state), []byte(state[q.From:min(q.From+20, len(state))])}, nil
		})
	if err != nil || string(got) != states[1] {
		t.Errorf("%s, %v", got, err)
	}
}

// A task is reached from every instance. When its own has stopped, the others say what became of
// the call, as far as that is known.
func TestTaskOnAnotherInstance(t *testing.T) {
	relay := &memoryRelay{names: map[string]func([]byte) []byte{}}
	db := storetest.Postgres(t)
	w := newWorkshop(t, rigOptions{db: db, mcp: Options{Relay: relay}})
	there := newRig(t, rigOptions{db: db, mcp: Options{Relay: relay}})
	here, away := w.client(t, w.r.key), &tasker{t, there.url, w.r.key}

	id := here.call("job")
	s := away.listen(id)
	s.until(t, taskWorking)
	w.release <- &tool.Result{InputRequired: &tool.InputRequired{Requests: map[string]tool.Request{
		"a": {Method: "roots/list"}}}}
	s.until(t, taskInputRequired)
	if _, e := away.do("tasks/update", map[string]any{"taskId": id,
		"inputResponses": map[string]any{"1.a": map[string]any{"roots": []int{}}}}); e != nil {
		t.Fatal(e)
	}
	large := strings.Repeat("a large result ", 200_000)
	w.release <- tool.Text(large)
	if v := away.until(id, taskCompleted); !strings.Contains(string(v.Result.Content), large) {
		t.Errorf("the result has %d bytes", len(v.Result.Content))
	}
	if _, e := (&tasker{t, there.url, there.key}).get(id); e == nil || e.Code != jsonrpc.InvalidParams {
		t.Errorf("another key at the other instance gets %v", e)
	}
	id = here.call("job")
	if _, e := away.do("tasks/cancel", map[string]any{"taskId": id}); e != nil {
		t.Fatal(e)
	}
	away.until(id, taskCancelled)

	done, running := here.call("job"), here.call("job")
	w.release <- tool.Text("one of them")
	ended := make(chan string, 1)
	for tick := time.NewTicker(time.Millisecond); len(ended) == 0; <-tick.C {
		for _, id := range []string{done, running} {
			if v, _ := here.get(id); v.Status == taskCompleted {
				ended <- id
				break
			}
		}
	}
	if <-ended == running {
		done, running = running, done
	}
	w.r.server.Close()
	w.r.Hub.WaitForCallRecords(t.Context())
	for id, want := range map[string]string{done: "The call was carried out.", running: "It is not known"} {
		if v := away.until(id, taskFailed); v.Error == nil || !strings.Contains(v.Error.Message, want) {
			t.Errorf("after the end of its server, the task is %+v", v)
		}
		if _, e := away.do("tasks/cancel", map[string]any{"taskId": id}); e != nil {
			t.Errorf("cancelling a lost task: %v", e)
		}
	}
}
