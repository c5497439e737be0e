package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/observe"
)

// While hundreds of clients send endless bodies, with and without a key, everybody else is served
// on every channel; and all slow clients are disconnected.
func TestSlowSendersHoldNobodyUp(t *testing.T) {
	if testing.Short() {
		t.Skip("the senders are thrown out after 10 s")
	}
	const senders = 300
	d := newDesk(t, map[string]string{"lingzhu.push_url": ""})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := d.base.Store.People.ByName(t.Context(), "ada")
	must(err)
	_, key, err := d.base.Accounts.AddKey(t.Context(), account.NewKey{Person: p.ID,
		Name: "slow", Scopes: []string{account.ScopeLearn, account.ScopeOperator}})
	must(err)
	began := time.Now()
	var ended sync.WaitGroup
	for i := range senders {
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
		must(err)
		defer conn.Close()
		path, auth := []string{"/sse/rokid", "/mcp", "/api/mcp", "/api/v1/bots", "/signin"}[i%5], ""
		if i%10 >= 5 {
			auth = "Authorization: Bearer " + key + "\r\n"
		}
		fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: x.local\r\nContent-Type: application/json\r\n%sContent-Length: 100000\r\n\r\n{",
			path, auth)
		ended.Go(func() { io.Copy(io.Discard, conn) }) //nolint:errcheck // it ends either way
		ended.Go(func() {
			for time.Since(began) < 10*observe.BodyGrace {
				if _, err := conn.Write([]byte(" ")); err != nil {
					return
				}
				<-time.After(observe.BodyGrace / 20)
			}
			t.Errorf("%s may still be sent to, after %v", path, time.Since(began))
			conn.Close()
		})
	}
	out := make(chan struct{})
	go func() { defer close(out); ended.Wait() }()
	for asked, over := 0, false; !over || asked < 2; asked++ {
		for path, want := range map[string]string{"/healthz": `"ok"`, "/readyz": `"ready":true`, "/signin": "<form",
			"/api/v1/bots": `"bots"`} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+path, nil)
			must(err)
			req.Header.Set("Authorization", "Bearer "+key)
			res, err := http.DefaultClient.Do(req)
			must(err)
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
				t.Fatalf("%s: %s, %v\n%.300s", path, res.Status, err, text)
			}
		}
		select {
		case <-out:
			over = true
		case <-time.After(100 * time.Millisecond):
		}
	}
}
