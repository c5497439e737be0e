package mqtt

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// patience is the timeout for what happens soon, on a busy machine.
const patience = 20 * time.Second

// event is a call of a session.
type event struct {
	what string // "connected", "message", "gone"
	text string
	err  error
	conn *Conn
}

// watcher is a session that records its calls.
type watcher struct {
	r    *rig
	conn *Conn
}

func (w *watcher) Message(payload []byte) {
	if w.r.hold != nil {
		w.r.stuck <- struct{}{}
		<-w.r.hold
	}
	if string(payload) == "echo" {
		_ = w.conn.Push([]byte("echoed"))
	}
	w.r.events <- event{what: "message", text: string(payload), conn: w.conn}
}

func (w *watcher) Closed(err error) { w.r.events <- event{what: "gone", err: err, conn: w.conn} }

// rig is a server on a socket.
type rig struct {
	t      *testing.T
	s      *Server
	addr   string
	conf   *tls.Config
	events chan event
	hold   chan struct{} // if not nil, Message waits until it is closed
	stuck  chan struct{} // reports that Message waits
	reg    *prometheus.Registry
}

// byPassword accepts the password "secret"; the username is the id.
func byPassword(_ context.Context, i ConnectInfo) (string, error) {
	switch {
	case i.Password == "secret":
		return i.Username, nil
	case i.Password == "broken":
		return "", errors.New("no database")
	case i.Password == "forbidden":
		return "", fmt.Errorf("not you: %w", Forbidden)
	}
	return "", BadCredentials
}

func newRig(t *testing.T, opt Options, conf *tls.Config) *rig {
	t.Helper()
	r := &rig{t: t, events: make(chan event, 1000), stuck: make(chan struct{}, 10), reg: prometheus.NewRegistry(),
		conf: conf}
	opt.Registerer = r.reg
	if opt.Auth == nil {
		opt.Auth = byPassword
	}
	if opt.NewSession == nil {
		opt.NewSession = func(c *Conn) Session {
			r.events <- event{what: "connected", conn: c}
			return &watcher{r, c}
		}
	}
	r.s = New(opt)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.s.Serve(context.Background(), l, conf) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r
}

func (r *rig) next(what string) event {
	r.t.Helper()
	select {
	case e := <-r.events:
		if e.what != what {
			r.t.Fatalf("%s %q %v, want %s", e.what, e.text, e.err, what)
		}
		return e
	case <-time.After(patience):
		r.t.Fatalf("no %s", what)
	}
	panic("unreachable")
}

// count returns a metric; label is the value of its label, if it has one.
func (r *rig) count(name, label string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "patchbay_mqtt_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); len(l) == 0 || l[0].GetValue() == label {
				return value(m)
			}
		}
	}
	return 0
}

func value(m *dto.Metric) float64 {
	if m.Gauge != nil {
		return m.GetGauge().GetValue()
	}
	return m.GetCounter().GetValue()
}

// client is the peer of a connection.
type client struct {
	t    *testing.T
	conn net.Conn
}

// connectBody returns the body of a CONNECT.
func connectBody(name string, level, flags byte, keepalive uint16, texts ...string) []byte {
	b := append(appendText(nil, name), level, flags)
	b = binary.BigEndian.AppendUint16(b, keepalive)
	for _, s := range texts {
		b = appendText(b, s)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func packet(kind, flags byte, body []byte) []byte {
	return append(appendHead(nil, kind, flags, len(body)), body...)
}

func message(topic, payload string) []byte {
	return packet(kindPublish, 0, append(appendText(nil, topic), payload...))
}

func (r *rig) dial() *client {
	r.t.Helper()
	conn, err := net.Dial("tcp4", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.conf != nil {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a certificate of the test's
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &client{r.t, conn}
}

func (c *client) send(p []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(p); err != nil {
		c.t.Fatal(err)
	}
}

// read returns the next packet.
func (c *client) read() (head, []byte, error) {
	var buf [2]byte
	h, err := readHead(c.conn, &buf)
	if err != nil {
		return h, nil, err
	}
	body := make([]byte, h.length)
	_, err = io.ReadFull(c.conn, body)
	return h, body, err
}

// expect reads a packet, which must be want.
func (c *client) expect(want []byte) {
	c.t.Helper()
	h, body, err := c.read()
	if err != nil {
		c.t.Fatalf("no packet: %v; want %x", err, want)
	}
	if got := packet(h.kind, h.flags, body); string(got) != string(want) {
		c.t.Fatalf("packet %x, want %x", got, want)
	}
}

// closed expects the end of the connection.
func (c *client) closed() {
	c.t.Helper()
	h, body, err := c.read()
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatalf("not closed: packet %v %x, error %v", h, body, err)
	}
}

var connAck = []byte{kindConnAck << 4, 2, 0, 0}

// board connects as a board does.
func (r *rig) board(id string) (*client, *Conn) {
	r.t.Helper()
	c := r.dial()
	c.send(packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "GID@@@"+id, id, "secret")))
	c.expect(connAck)
	return c, r.next("connected").conn
}

func certificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion: tls.VersionTLS12}
}

// pipes is a listener in memory, for synctest.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

var longText = strings.Repeat("x", 9<<10)
