package relay_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/netx"
	"patchbay/internal/relay"
	"patchbay/internal/relay/link"
	"patchbay/internal/relay/wire"
)

const domain = "relay.test"

// patience is how long anything may take on a busy machine.
const patience = 10 * time.Second

// eventually waits until look returns true.
func eventually(t testing.TB, what string, look func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !look(); {
		if time.Now().After(until) {
			t.Fatalf("%s: not after %v", what, patience)
		}
		netx.Wait(t.Context(), 5*time.Millisecond) //nolint:errcheck // the test ends then
	}
}

// rig is a relay with a folder that survives restarts.
type rig struct {
	t       *testing.T
	folder  relay.Folder
	limits  relay.Limits
	drain   time.Duration
	beat    time.Duration // the interval of the heartbeat
	address string        // fixed after the first start

	server   *relay.Server
	registry *prometheus.Registry
	stop     func() // drains
	kill     func() // and closes everything
}

// newRig starts a relay on loopback.
func newRig(t *testing.T, limits relay.Limits) *rig {
	t.Helper()
	r := &rig{t: t, folder: relay.Folder(t.TempDir()), limits: limits, beat: 100 * time.Millisecond, address: "127.0.0.1:0"}
	r.start()
	t.Cleanup(func() { r.kill() })
	return r
}

// start starts the relay again, on the same port.
func (r *rig) start() {
	r.t.Helper()
	key, err := r.folder.Key()
	if err != nil {
		r.t.Fatal(err)
	}
	var l net.Listener
	eventually(r.t, "the port is free", func() bool {
		l, err = net.Listen("tcp", r.address)
		return err == nil
	})
	r.address = l.Addr().String()
	r.registry = prometheus.NewRegistry()
	r.server, err = relay.New(relay.Options{Domain: domain, Folder: r.folder, Key: key, Limits: r.limits,
		Heartbeat: r.beat, Drain: r.drain, Logger: slog.New(slog.NewTextHandler(r.t.Output(),
			&slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: r.registry,
		Web: &tls.Config{Certificates: []tls.Certificate{certificate(r.t, domain)}}})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.server.Run(ctx, relay.Listener{Listener: l, Kind: wire.HTTPS}); err != nil {
			r.t.Error(err)
		}
	}()
	r.stop = cancel
	r.kill = func() {
		cancel()
		<-done
	}
}

// refused returns how many connections were refused for a reason.
func (r *rig) refused(reason string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "patchbay_relay_refused_total" && m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// authority signs the certificates of all homes, and of nobody else.
var authority = sync.OnceValues(func() (*x509.Certificate, ed25519.PrivateKey) {
	_, key, _ := ed25519.GenerateKey(rand.Reader) //nolint:errcheck // it never fails
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, _ := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key) //nolint:errcheck // likewise
	c, _ := x509.ParseCertificate(der)                                                   //nolint:errcheck // likewise
	return c, key
})

func certificate(t testing.TB, name string) tls.Certificate {
	t.Helper()
	ca, caKey := authority()
	_, key, _ := ed25519.GenerateKey(rand.Reader) //nolint:errcheck // it never fails
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2),
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}}, ca,
		key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// roots are what clients trust.
func roots() *x509.CertPool {
	pool := x509.NewCertPool()
	ca, _ := authority()
	pool.AddCert(ca)
	return pool
}

// atHome is a home: a web server behind links.
type atHome struct {
	t      *testing.T
	name   string
	memory sync.Map // by server
	links  *link.Links
	stop   func()
	code   []wire.Code
	to     []string // relays, or what stands before them
}

// newHome adds a home at the relay and starts it.
func (r *rig) newHome(name string, to ...string) *atHome {
	r.t.Helper()
	code, err := r.folder.Add(relay.Home{Name: name})
	if err != nil {
		r.t.Fatal(err)
	}
	if len(to) == 0 {
		to = []string{r.address}
	}
	h := &atHome{t: r.t, name: name, code: []wire.Code{code}, to: to}
	h.start()
	r.t.Cleanup(func() { h.stop() })
	h.linked()
	return h
}

// start starts the home, again with the same memory.
func (h *atHome) start() {
	h.t.Helper()
	h.links = link.New(link.Options{Servers: h.to, Codes: h.code, Instance: "one", Load: h.load, Save: h.save,
		Logger: slog.New(slog.NewTextHandler(h.t.Output(), nil))})
	ctx, cancel := context.WithCancel(context.Background())
	web := &http.Server{Handler: http.HandlerFunc(h.serve), ReadHeaderTimeout: patience, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{certificate(h.t, h.name+"."+domain)}},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	var running sync.WaitGroup
	running.Go(func() { h.links.Run(ctx) })                    //nolint:errcheck // it returns nil
	running.Go(func() { web.ServeTLS(h.links.HTTPS, "", "") }) //nolint:errcheck // it is closed
	h.stop = sync.OnceFunc(func() {
		cancel()
		web.Close()
		running.Wait()
	})
}

func (h *atHome) load(_ context.Context, server string) (link.Memory, error) {
	if m, ok := h.memory.Load(server); ok {
		return m.(link.Memory), nil
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	m := link.Memory{Key: key}
	h.memory.Store(server, m)
	return m, err
}

func (h *atHome) save(_ context.Context, server string, m link.Memory) error {
	h.memory.Store(server, m)
	return nil
}

// linked waits until all relays are connected.
func (h *atHome) linked() {
	h.t.Helper()
	eventually(h.t, h.name+" is linked", func() bool {
		for _, s := range h.links.Status() {
			if s.Since.IsZero() {
				return false
			}
		}
		return true
	})
}

// serve answers with the name of the home, the address of the client and the body. A path of /wait
// answers in two parts, the second one after the body.
func (h *atHome) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/wait" {
		w.WriteHeader(http.StatusOK)
		io.WriteString(w, "first\n")          //nolint:errcheck // the client may be gone
		http.NewResponseController(w).Flush() //nolint:errcheck // likewise
		<-r.Context().Done()
		return
	}
	fmt.Fprintf(w, "%s %s ", h.name, r.RemoteAddr)
	io.Copy(w, r.Body) //nolint:errcheck // the client may be gone
}

// client returns a client that trusts the authority and finds every host at an address. Each
// request has a connection of its own.
func client(t *testing.T, address string) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots()},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// ask asks a home by https and returns the answer.
func ask(t *testing.T, address, name, question string) (string, error) {
	t.Helper()
	resp, err := client(t, address).Post("https://"+name+"."+domain+"/", "text/plain", stringReader(question))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// open opens a stream to a home that lasts until it is closed.
func open(t *testing.T, address, name string) (*tls.Conn, *bufio.Reader) {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots(), ServerName: name + "." + domain})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // TCP has it
	fmt.Fprintf(c, "GET /wait HTTP/1.1\r\nHost: %s.%s\r\n\r\n", name, domain)
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "first\n" {
			return c, r
		}
	}
}

// ended waits for the end of a connection.
func ended(t *testing.T, r io.Reader) {
	t.Helper()
	_, err := io.Copy(io.Discard, r)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		t.Fatal("the connection goes on")
	}
}
