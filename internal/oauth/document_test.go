package oauth

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener for connections within the process, which take no time.
type pipes struct {
	ends   chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.ends:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.ends <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A document that comes slowly is given up after five seconds, however its server spreads them, and
// one that comes in time is read.
func TestSlowDocuments(t *testing.T) {
	pattern := httptest.NewTLSServer(nil) // for its certificate
	defer pattern.Close()
	certificates := pattern.TLS.Certificates
	roots := pattern.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	const id = "https://example.com/client.json"
	const document = `{"client_id":"` + id + `","client_name":"An App","redirect_uris":["https://example.com/cb"]}`
	for name, c := range map[string]struct {
		before, between time.Duration // of the headers, and of the bytes
		inTime          bool
	}{
		"in time":             {time.Second, 10 * time.Millisecond, true},
		"silent":              {time.Hour, 0, false},
		"a byte now and then": {0, 200 * time.Millisecond, false},
		"almost in time":      {documentTimeout + time.Millisecond, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := &pipes{make(chan net.Conn), make(chan struct{})}
				server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Hour,
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						pause := func(d time.Duration) bool {
							select {
							case <-time.After(d):
								return true
							case <-r.Context().Done():
								return false
							}
						}
						if !pause(c.before) {
							return
						}
						for piece := range strings.SplitSeq(document, "") {
							_, err := io.WriteString(w, piece)
							if err != nil || http.NewResponseController(w).Flush() != nil || !pause(c.between) {
								return
							}
						}
					})}
				served := make(chan error, 1)
				secure := tls.NewListener(listener, &tls.Config{Certificates: certificates})
				go func() { served <- server.Serve(secure) }()
				s := New(Options{Dial: listener.dial})
				s.documents.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
				began := time.Now()
				client, err := s.readDocument(t.Context(), id)
				took := time.Since(began)
				if c.inTime && (err != nil || client.Name != "An App") {
					t.Errorf("after %v: %+v, %v", took, client, err)
				}
				if !c.inTime && (err == nil || took != documentTimeout) {
					t.Errorf("after %v: %+v, %v", took, client, err)
				}
				_ = server.Close()
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
				time.Sleep(time.Minute) // both sides of TLS wait 5 s to say goodbye
			})
		})
	}
}
