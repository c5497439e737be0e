package mcp

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"patchbay/internal/hub"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/tool"
)

// withoutSessions returns the address of a server as one that does not know of sessions.
func withoutSessions(t *testing.T, address string) string {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)} // of clients that disconnect
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	web.Config.SetKeepAlivesEnabled(false) // as in mcptest.Proxy
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL + "/mcp"
}

// A tool server answers with tasks. Clients get its results, errors and questions, whether they
// support tasks or not, and the server gets their cancellations.
func TestTasksOfServer(t *testing.T) {
	back := newWorkshop(t, rigOptions{hub: hub.Options{Installation: "behind"}})
	front := newRig(t, rigOptions{hub: hub.Options{Installation: "front"}, mcp: Options{TaskAfter: time.Millisecond}})
	addUpstream(t, front, upstream.Spec{Slug: "srv",
		Settings: upstream.Settings{URL: withoutSessions(t, back.r.url), Token: back.r.key}})
	c := &tasker{t, front.url, front.key}
	tasks := func(outcome string) float64 {
		return testutil.ToFloat64(back.r.server.metrics.tasks.WithLabelValues(outcome))
	}

	begin := func() string { // a call that has become a task of the server
		t.Helper()
		before, id := tasks("created"), c.call("srv_job")
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for limit := time.Now().Add(testTimeout); tasks("created") == before; <-tick.C {
			if time.Now().After(limit) {
				v, _ := c.get(id)
				t.Fatalf("the server has made no task: %+v", v)
			}
		}
		<-back.begun
		return id
	}

	id := begin()
	back.release <- tool.Text("from far")
	if v := c.until(id, taskCompleted); !strings.Contains(string(v.Result.Content), "from far") ||
		tasks("created") != 1 {
		t.Errorf("after %v tasks of the server: %+v", tasks("created"), v)
	}

	id = begin()
	back.release <- nil
	if v := c.until(id, taskFailed); v.Error == nil || v.Error.Code != -32000 || v.Error.Message != "crashed" {
		t.Errorf("an error is %+v", v)
	}

	id = begin()
	form := tool.Request{Method: "elicitation/create", Params: json.RawMessage(`{"message":"?"}`)}
	back.release <- &tool.Result{InputRequired: &tool.InputRequired{State: "s", Requests: map[string]tool.Request{
		"a": form, "b": form}}}
	answers := map[string]any{}
	for key := range c.until(id, taskInputRequired).Requests {
		answers[key] = map[string]any{"action": "accept"}
	}
	if _, e := c.do("tasks/update", map[string]any{"taskId": id, "inputResponses": answers}); e != nil {
		t.Fatal(e)
	}
	if call := <-back.again; call.State != "s" || len(call.Answers) != 2 {
		t.Errorf("the answers are %s", call.Answers)
	}
	<-back.begun
	back.release <- tool.Text("answered")
	if v := c.until(id, taskCompleted); !strings.Contains(string(v.Result.Content), "answered") {
		t.Errorf("after the answers: %+v", v)
	}

	id = c.call("srv_job")
	<-back.begun
	if _, e := c.do("tasks/cancel", map[string]any{"taskId": id}); e != nil {
		t.Fatal(e)
	}
	if why := <-back.stopped; !errors.Is(why, errTaskCancelled) && !errors.Is(why, errClosed) {
		t.Errorf("the call was stopped because %v", why)
	}
	c.until(id, taskCancelled)

	plain := front.connect(t, front.key, "2025-11-25")
	back.release <- tool.Text("in one go")
	if _, body := plain.ask(t, callBody(1, "srv_job", "{}")); !strings.Contains(body, "in one go") {
		t.Errorf("a client without tasks gets %s", body)
	}
}
