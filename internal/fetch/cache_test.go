package fetch

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCacheBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		picture := func(n int) *Image { return &Image{Data: make([]byte, n)} }
		c := newCache(3*(1000+1+entryOverhead), time.Hour)
		for _, url := range []string{"a", "b", "c"} {
			c.put(url, picture(1000))
		}
		c.get("a")                // b is now the least recently used
		c.put("d", picture(1000)) // evicts b
		for url, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
			if got := c.get(url) != nil; got != want {
				t.Errorf("%s is kept: %v, want %v", url, got, want)
			}
		}
		c.put("huge", picture(100_000))
		if c.get("huge") != nil {
			t.Error("a picture larger than the cache is kept")
		}
		if c.get("a") == nil {
			t.Error("a picture larger than the cache emptied it")
		}
		c.put("a", picture(10)) // replaces a
		if want := int64(2*(1000+1+entryOverhead) + 10 + 1 + entryOverhead); c.bytes != want {
			t.Errorf("cache counts %d bytes, want %d", c.bytes, want)
		}
		time.Sleep(time.Hour - time.Second) // on the bubble's clock
		if c.get("a") == nil {
			t.Error("gone before its time")
		}
		time.Sleep(time.Second)
		if c.get("a") != nil {
			t.Error("kept beyond its time")
		}
		for _, url := range []string{"c", "d"} {
			c.get(url)
		}
		if c.bytes != 0 || c.order.Len() != 0 || len(c.byURL) != 0 {
			t.Errorf("an empty cache counts %d bytes, %d in order, %d by address", c.bytes, c.order.Len(), len(c.byURL))
		}
	})
}

func TestCacheIsUsed(t *testing.T) {
	var served atomic.Int64
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if served.Add(1) == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		w.Write(pngBytes(t))
	})
	f := New(Options{AllowNets: loopback})
	_, err := f.Image(t.Context(), base+"/a")
	wantReason(t, err, HTTPStatus) // failures are not cached
	first, err := f.Image(t.Context(), base+"/a")
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Image(t.Context(), base+"/a#part")
	if err != nil || again != first {
		t.Errorf("got %p, %v; want the same %p", again, err, first)
	}
	if n := served.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	if _, err := f.Image(t.Context(), base+"/a?x=1"); err != nil || served.Load() != 3 {
		t.Errorf("another query is another picture: %v, %d requests", err, served.Load())
	}
}

// inMemory lets a Fetcher connect to a server without sockets, so that synctest can detect when all
// goroutines wait. Each request blocks until it is released.
type inMemory struct {
	requests atomic.Int64
	release  chan struct{}
	picture  []byte
}

func (s *inMemory) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		if _, err := http.ReadRequest(bufio.NewReader(server)); err != nil {
			return
		}
		s.requests.Add(1)
		<-s.release
		fmt.Fprintf(server, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(s.picture), s.picture)
	}()
	return client, nil
}

func (s *inMemory) fetcher(o Options) *Fetcher {
	o.CacheBytes = -1 // sharing does not come from the cache
	o.AllowNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	f := New(o)
	f.guard.dial = s.dial
	return f
}

func TestSameAddressAtTheSameTime(t *testing.T) {
	picture := pngBytes(t)
	synctest.Test(t, func(t *testing.T) {
		s := &inMemory{release: make(chan struct{}), picture: picture}
		f := s.fetcher(Options{})
		const callers = 20
		got := make(chan *Image, callers)
		for range callers {
			go func() {
				m, err := f.Image(t.Context(), "http://127.0.0.1/a")
				if err != nil {
					t.Error(err)
				}
				got <- m
			}()
		}
		synctest.Wait()
		close(s.release)
		first := <-got
		for range callers - 1 {
			if m := <-got; m != first {
				t.Error("callers got different pictures")
			}
		}
		if n := s.requests.Load(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		if len(f.flights) != 0 {
			t.Errorf("%d flights are still up", len(f.flights))
		}
	})
}

// TestDownloadIsTakenOver checks that another caller downloads after the first one has given up.
func TestDownloadIsTakenOver(t *testing.T) {
	picture := pngBytes(t)
	synctest.Test(t, func(t *testing.T) {
		s := &inMemory{release: make(chan struct{}), picture: picture}
		f := s.fetcher(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := f.Image(ctx, "http://127.0.0.1/a")
			left <- err
		}()
		synctest.Wait()
		stayed := make(chan *Image)
		go func() {
			m, err := f.Image(t.Context(), "http://127.0.0.1/a")
			if err != nil {
				t.Error(err)
			}
			stayed <- m
		}()
		synctest.Wait()
		cancel()
		wantReason(t, <-left, Canceled)
		synctest.Wait()
		close(s.release)
		if m := <-stayed; m == nil || !bytes.Equal(m.Data, picture) {
			t.Error("the one who stayed got no picture")
		}
		if n := s.requests.Load(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
}

// TestWaitingEnds checks that a caller that waits for another one's download can give up, and that
// a timeout of the download ends all calls.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &inMemory{release: make(chan struct{})}
		f := s.fetcher(Options{Timeout: 10 * time.Second})
		first := make(chan error)
		go func() {
			_, err := f.Image(t.Context(), "http://127.0.0.1/a")
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := f.Image(ctx, "http://127.0.0.1/a")
		wantReason(t, err, Timeout)
		second := make(chan error)
		go func() {
			_, err := f.Image(t.Context(), "http://127.0.0.1/a")
			second <- err
		}()
		wantReason(t, <-first, Timeout)
		wantReason(t, <-second, Timeout)
		if n := s.requests.Load(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		close(s.release)
	})
}

func TestDownloadsAtOnce(t *testing.T) {
	picture := pngBytes(t)
	synctest.Test(t, func(t *testing.T) {
		s := &inMemory{release: make(chan struct{}), picture: picture}
		f := s.fetcher(Options{})
		done := make(chan error)
		const callers = maxConcurrent + 5
		for i := range callers {
			go func() {
				_, err := f.Image(t.Context(), fmt.Sprint("http://127.0.0.1/", i))
				done <- err
			}()
		}
		synctest.Wait()
		if n := s.requests.Load(); n != maxConcurrent {
			t.Errorf("%d requests at once, want %d", n, maxConcurrent)
		}
		close(s.release)
		for range callers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
