package remind

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/porttest"
)

func TestWebhook(t *testing.T) {
	var mu sync.Mutex
	var got []string
	var replies []int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))
		if r.URL.Path == "/elsewhere" {
			t.Error("a redirect was followed")
		}
		status := replies[0]
		replies = replies[1:]
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer server.Close()
	way := webhook(server.Client(), time.Millisecond)
	m := Message{ID: "learn-1", Person: "ada", Title: "Time", Text: "12 to review", Due: 12, New: 3,
		Webhook: server.URL + "/hook?key=s3cret"}
	for _, c := range []struct {
		replies []int
		tries   int
		err     string
	}{
		{[]int{204}, 1, ""},
		{[]int{503, 200}, 2, ""},
		{[]int{500, 502}, 2, "it answered 502"},
		{[]int{404}, 1, "it answered 404"},
		{[]int{302}, 1, "redirects are not followed"},
		{[]int{307}, 1, "redirects are not followed"},
	} {
		mu.Lock()
		got, replies = nil, c.replies
		mu.Unlock()
		err := way(t.Context(), "ada", m)
		mu.Lock()
		if len(got) != c.tries || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: %d tries, %v", c.replies, len(got), err)
		}
		for _, g := range got {
			if g != `POST /hook application/json {"event":"learn.due","id":"learn-1","due":12,"new":3,"title":"Time","text":"12 to review"}` {
				t.Errorf("sent %s", g)
			}
		}
		mu.Unlock()
	}
	if server.Client().CheckRedirect != nil {
		t.Error("the client that was handed over was changed")
	}
}

func TestWebhookFailsWithoutTellingItsAddress(t *testing.T) {
	address := "http://" + porttest.Refused(t)
	for _, hook := range []string{"", address + "/s3cret", "ftp://example.com/s3cret", "file:///s3cret", "//s3cret",
		"https:///s3cret", "s3cret", "http://[s3cret", "javascript:s3cret", "http://s3cret:%zz@x"} {
		err := webhook(http.DefaultClient, time.Millisecond)(t.Context(), "ada", Message{Webhook: hook})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", hook, err)
		}
	}
}

func TestWebhookIsStopped(t *testing.T) {
	asked := make(chan struct{}, 2)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	limit, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Webhook(server.Client())(limit, "ada", Message{Webhook: server.URL}) }()
	<-asked
	cancel()
	if err := <-done; err == nil {
		t.Fatal("it did not fail")
	}
	if len(asked) != 0 {
		t.Fatal("it was tried again")
	}
}
