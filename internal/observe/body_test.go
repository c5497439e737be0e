package observe

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// slowServer applies body deadlines with a shorter grace.
func slowServer(t *testing.T, grace time.Duration, handler http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(HandleRequests(slog.New(slog.DiscardHandler), prometheus.NewRegistry(),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if b, ok := r.Body.(*deadlineBody); ok {
				b.grace, b.deadline = grace, b.began.Add(grace)
			}
			handler(w, r)
		})))
	s.Config.ReadHeaderTimeout, s.Config.ReadTimeout = grace, grace
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// TestTrickle checks that connections whose body trickles are closed, and that the handlers get an
// error.
func TestTrickle(t *testing.T) {
	const senders = 200
	var ended sync.WaitGroup
	ended.Add(senders)
	s := slowServer(t, 200*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
		defer ended.Done()
		if _, err := io.ReadAll(r.Body); err == nil {
			t.Error("a body that trickles was read")
		}
	})
	for range senders {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
		go func() {
			for {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
				<-time.After(20 * time.Millisecond)
			}
		}()
	}
	ended.Wait()
}

// TestStreamsOutlastBodies checks that a steady body may take longer than the grace, that responses
// may take longer, with a body and without, and that the connection can be reused.
func TestStreamsOutlastBodies(t *testing.T) {
	const grace = 500 * time.Millisecond
	s := slowServer(t, grace, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Errorf("after %d bytes: %v", n, err)
		}
		for range 5 {
			select {
			case <-r.Context().Done():
				t.Error("the request ended before its answer")
				return
			case <-time.After(grace / 2):
			}
			fmt.Fprintln(w, n)
			http.NewResponseController(w).Flush() //nolint:errcheck // the test detects missing data
		}
	})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for i, size := range []int{0, 5, 400_000} {
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
		parts := 1 + min(3, size/100_000)
		for part := range parts {
			io.WriteString(conn, strings.Repeat("x", size*(part+1)/parts-size*part/parts)) //nolint:errcheck // the response shows it
			if parts > 1 {
				<-time.After(grace / 2) // adds up to more than the grace
			}
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		text, err := io.ReadAll(res.Body)
		if want := strings.Repeat(fmt.Sprintln(size), 5); err != nil || string(text) != want {
			t.Errorf("%d: %q, %v", i, text, err)
		}
	}
}

// TestOwnLimit checks that an earlier deadline of a handler holds.
func TestOwnLimit(t *testing.T) {
	s := slowServer(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(50 * time.Millisecond)) //nolint:errcheck // the test detects it
		if _, err := io.ReadAll(r.Body); err == nil {
			t.Error("a body was read that never came")
		}
	})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		t.Error(err)
	}
}
