package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func encoded(t testing.TB, encode func(io.Writer, image.Image) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b, image.NewGray(image.Rect(0, 0, 12, 7))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func pngBytes(t testing.TB) []byte { return encoded(t, png.Encode) }

// webpBytes is a complete lossless WebP of 1×1 pixels.
func webpBytes(t testing.TB) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// hugePNG is the header of a PNG of 50,000×50,000 pixels.
func hugePNG(t testing.TB) []byte {
	data := pngBytes(t)
	binary.BigEndian.PutUint32(data[16:], 50_000)
	binary.BigEndian.PutUint32(data[20:], 50_000)
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	return data
}

// answers is a resolver with a fixed list; each lookup of a name returns its next answer, and at
// the end always the last one.
type answers struct {
	of    map[string][][]netip.Addr
	asked atomic.Int64
}

func (a *answers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	a.asked.Add(1)
	list := a.of[host]
	if len(list) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(list) > 1 {
		a.of[host] = list[1:]
	}
	return append([]netip.Addr(nil), list[0]...), nil
}

func resolving(host string, ips ...string) *answers {
	a := &answers{of: map[string][][]netip.Addr{}}
	a.add(host, ips...)
	return a
}

func (a *answers) add(host string, ips ...string) *answers {
	var list []netip.Addr
	for _, ip := range ips {
		list = append(list, netip.MustParseAddr(ip))
	}
	a.of[host] = append(a.of[host], list)
	return a
}

// serve starts a server on 127.0.0.1 and counts its connections.
func serve(t testing.TB, h http.HandlerFunc) (base string, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, connections
}

func port(t testing.TB, base string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wantReason fails the test unless err is an *Error with this reason.
func wantReason(t testing.TB, err error, want Reason) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error is %v, want an *Error of reason %s", err, want)
	}
	if e.Reason != want {
		t.Fatalf("error is %q, want reason %s", e, want)
	}
	return e
}

func TestImageFormats(t *testing.T) {
	type want struct {
		mime string
		w, h int
	}
	bodies := map[string]struct {
		data []byte
		want want
	}{
		"/webp": {webpBytes(t), want{"image/webp", 1, 1}},
		"/png":  {pngBytes(t), want{"image/png", 12, 7}},
		"/jpeg": {encoded(t, func(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, nil) }),
			want{"image/jpeg", 12, 7}},
		"/gif": {encoded(t, func(w io.Writer, m image.Image) error { return gif.Encode(w, m, nil) }),
			want{"image/gif", 12, 7}},
	}
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain") // wrong on purpose
		w.Write(bodies[r.URL.Path].data)
	})
	f := New(Options{AllowNets: loopback})
	for path, b := range bodies {
		t.Run(path[1:], func(t *testing.T) {
			m, err := f.Image(t.Context(), base+path)
			if err != nil {
				t.Fatal(err)
			}
			if got := (want{m.MIME, m.Width, m.Height}); got != b.want {
				t.Errorf("got %v, want %v", got, b.want)
			}
			if !bytes.Equal(m.Data, b.data) {
				t.Error("data differs from what was served")
			}
		})
	}
}

func TestBodiesRefused(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(pngBytes(t))
	z.Close()
	tests := []struct {
		name   string
		reason Reason
		serve  http.HandlerFunc
	}{
		{"page called a picture", NotAnImage, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			io.WriteString(w, "<!doctype html><title>hello</title>")
		}},
		{"nothing", NotAnImage, func(w http.ResponseWriter, r *http.Request) {}},
		{"half a header", NotAnImage, func(w http.ResponseWriter, r *http.Request) { w.Write(pngBytes(t)[:20]) }},
		{"svg", NotAnImage, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg"/>`)
		}},
		{"compressed on the way", NotAnImage, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(zipped.Bytes())
		}},
		{"too many pixels", TooLarge, func(w http.ResponseWriter, r *http.Request) { w.Write(hugePNG(t)) }},
		{"announced too large", TooLarge, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000000")
			w.Write(pngBytes(t))
		}},
		{"without end", TooLarge, func(w http.ResponseWriter, r *http.Request) {
			w.Write(pngBytes(t))
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		}},
		{"not a picture, without end", NotAnImage, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		}},
		{"shorter than announced", Network, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "5000")
			w.Write(pngBytes(t))
		}},
		{"not found", HTTPStatus, http.NotFound},
		{"no content", HTTPStatus, func(w http.ResponseWriter,
			r *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}},
		{"redirect to nowhere", BadAddress, func(w http.ResponseWriter,
			r *http.Request) {
			w.WriteHeader(http.StatusFound)
		}},
		{"disconnects", Network, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
		{"repeats the address", Network, func(w http.ResponseWriter, r *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer c.Close()
			io.WriteString(c, r.URL.String()+"\r\n\r\n")
		}},
		{"header without end", Network, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 2*maxHeader))
			w.Write(pngBytes(t))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base, _ := serve(t, tt.serve)
			f := New(Options{AllowNets: loopback, MaxBytes: 100_000})
			m, err := f.Image(t.Context(), base+"/secret-path?token=secret")
			if m != nil {
				t.Error("got a picture")
			}
			e := wantReason(t, err, tt.reason)
			if strings.Contains(e.Error(), "secret") {
				t.Errorf("error tells the address: %s", e)
			}
			if e.URL != base {
				t.Errorf("error is about %q, want %q", e.URL, base)
			}
		})
	}
}

func TestExactlyMaxBytes(t *testing.T) {
	data := append(pngBytes(t), make([]byte, 1000)...)
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush() // sends no Content-Length
		w.Write(data)
	})
	f := New(Options{AllowNets: loopback, MaxBytes: int64(len(data))})
	if _, err := f.Image(t.Context(), base); err != nil {
		t.Errorf("a picture of the largest size: %v", err)
	}
	f = New(Options{AllowNets: loopback, MaxBytes: int64(len(data)) - 1})
	_, err := f.Image(t.Context(), base)
	wantReason(t, err, TooLarge)
}

func TestSlow(t *testing.T) {
	tests := map[string]http.HandlerFunc{
		"no answer": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"stalled body": func(w http.ResponseWriter, r *http.Request) {
			w.Write(pngBytes(t))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"drop by drop": func(w http.ResponseWriter, r *http.Request) {
			w.Write(pngBytes(t))
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					w.Write([]byte{0})
					w.(http.Flusher).Flush()
				case <-r.Context().Done():
					return
				}
			}
		},
	}
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			base, _ := serve(t, h)
			f := New(Options{AllowNets: loopback, Timeout: 150 * time.Millisecond})
			_, err := f.Image(t.Context(), base)
			wantReason(t, err, Timeout)
		})
	}
}

func TestCallerGoesAway(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	f := New(Options{AllowNets: loopback})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := f.Image(ctx, base)
	wantReason(t, err, Canceled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not wrap context.Canceled", err)
	}
	<-gone // the connection was closed
}

// TestHandshakeEndsWithCaller checks that a TLS handshake with a server that accepts and then stays
// silent ends when the caller gives up.
func TestHandshakeEndsWithCaller(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			closed <- err
			return
		}
		defer c.Close()
		c.Read(make([]byte, 1)) // the client has sent its first byte, and waits for the server
		cancel()
		c.SetReadDeadline(time.Now().Add(5 * time.Second)) // less than the transport's own timeout
		_, err = io.Copy(io.Discard, c)
		closed <- err
	}()
	f := New(Options{AllowNets: loopback, Timeout: time.Minute})
	_, err = f.Image(ctx, "https://"+l.Addr().String())
	wantReason(t, err, Canceled)
	if err := <-closed; err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("connection was not closed: %v", err)
	}
}

func TestNobodyIsTold(t *testing.T) {
	proxy, proxied := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"} {
		t.Setenv(name, proxy)
	}
	var mu sync.Mutex
	var requests []*http.Request
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, r)
		mu.Unlock()
		if r.URL.Path == "/first" {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b", Path: "/"})
			http.Redirect(w, r, "/second", http.StatusFound)
			return
		}
		w.Write(pngBytes(t))
	})
	f := New(Options{AllowNets: loopback, Resolver: resolving("photos.test", "127.0.0.1")})
	if _, err := f.Image(t.Context(), "http://photos.test:"+port(t, base)+"/first?token=1#part"); err != nil {
		t.Fatal(err)
	}
	if n := proxied.Load(); n != 0 {
		t.Errorf("%d connections to the proxy of the environment", n)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(requests) != 2 {
		t.Fatalf("%d requests, want 2", len(requests))
	}
	for _, name := range []string{"Cookie", "Referer", "Authorization", "Accept-Encoding"} {
		if v := requests[1].Header.Get(name); v != "" {
			t.Errorf("second request carries %s: %s", name, v)
		}
	}
}

func TestCounter(t *testing.T) {
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Write(pngBytes(t)) })
	reg := prometheus.NewRegistry()
	f := New(Options{AllowNets: loopback, Registerer: reg})
	g := New(Options{Registerer: reg}) // shares the counter
	for range 3 {
		if _, err := f.Image(t.Context(), base); err != nil {
			t.Fatal(err)
		}
	}
	g.Image(t.Context(), base)
	g.Image(t.Context(), "ftp://example.com/")
	const want = `
# HELP patchbay_fetch_total Pictures fetched from addresses that came from outside, by result.
# TYPE patchbay_fetch_total counter
patchbay_fetch_total{result="bad_address"} 1
patchbay_fetch_total{result="cached"} 2
patchbay_fetch_total{result="forbidden_address"} 1
patchbay_fetch_total{result="ok"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
