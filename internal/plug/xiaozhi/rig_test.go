package xiaozhi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var ctx = context.Background()

// full is the OTA request body of firmware 2.4.2.
const full = `{"version":2,"language":"zh-CN","flash_size":16777216,"minimum_free_heap_size":"8318916","mac_address":"aa:bb:cc:dd:ee:ff","uuid":"11111111-1111-4111-8111-111111111111","chip_model_name":"esp32s3",` +
	`"chip_info":{"model":9,"cores":2,"revision":2,"features":18},"application":{"name":"xiaozhi","version":"2.4.2","compile_time":"Aug  6 2026T10:00:00Z","idf_version":"v5.5.2","elf_sha256":"c8a8"},` +
	`"partition_table":[{"label":"nvs","type":1,"subtype":2,"address":36864,"size":16384}],"ota":{"label":"ota_0"},"display":{"monochrome":false,"width":320,"height":240},` +
	`"board":{"type":"bread-compact-wifi","name":"bread-compact-wifi-128x64","manufacturer":"x","ssid":"home","rssi":-52,"channel":6,"ip":"192.168.1.77","mac":"aa:bb:cc:dd:ee:ff"}}`

const mac, uuid1, uuid2 = "aa:bb:cc:dd:ee:ff", "11111111-1111-4111-8111-111111111111",
	"22222222-2222-4222-8222-222222222222"

// clock is a clock that the test sets.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// log records log output.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a server for OTA requests.
type rig struct {
	t        testing.TB
	db       *store.DB
	accounts *account.Service
	home     *xiaozhi.Discovery
	metrics  *prometheus.Registry
	log      *log
	clock    *clock
	person   string
	bot      int64
	*httptest.Server
}

func newRig(t testing.TB, change func(*xiaozhi.DiscoveryOptions)) *rig {
	t.Helper()
	return newRigOn(t, storetest.SQLite(t), change)
}

func newRigOn(t testing.TB, db *store.DB, change func(*xiaozhi.DiscoveryOptions)) *rig {
	t.Helper()
	box, err := seal.New(strings.Repeat("5e", 32))
	must(t, err)
	r := &rig{t: t, db: db, metrics: prometheus.NewRegistry(), log: &log{},
		clock: &clock{t: time.Date(2026, 3, 23, 14, 5, 9, 0, time.UTC)}}
	r.accounts = account.New(db, box, r.clock.now)
	if people, err := db.People.All(ctx); err != nil {
		t.Fatal(err)
	} else if len(people) > 0 {
		r.person = people[0].ID
	} else {
		p, err := r.accounts.AddPerson(ctx, "ada", "", "en", "")
		must(t, err)
		b, err := db.Bots.Add(ctx, store.Bot{Owner: p.ID, Name: "one", Kind: "echo", Settings: []byte(`{}`),
			Created: r.clock.now()})
		must(t, err)
		r.person, r.bot = p.ID, b.Number
	}
	o := xiaozhi.DiscoveryOptions{
		Accounts: r.accounts, Logger: slog.New(slog.NewTextHandler(r.log,
			&slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: r.metrics,
		Zone: time.FixedZone("", 8*3600), Now: r.clock.now,
	}
	if change != nil {
		change(&o)
	}
	if o.AutoOwner == "me" {
		o.AutoOwner, o.AutoBot = r.person, r.bot
	}
	r.home, err = xiaozhi.NewDiscovery(o)
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle("/xiaozhi/ota", r.home)
	mux.Handle(xiaozhi.OTAPath, r.home)
	mux.HandleFunc(xiaozhi.FirmwarePath, r.home.ServeFirmware)
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answered is a response. Redirects are not followed.
type answered struct {
	status int
	header http.Header
	length int64
	body   []byte
}

// headers returns the headers of firmware 2.4.2.
func headers(mac, client string) http.Header {
	h := http.Header{"Activation-Version": {"1"}, "User-Agent": {"bread-compact-wifi/2.4.2"},
		"Accept-Language": {"zh-CN"}, "Content-Type": {"application/json"}}
	h.Set(wire.HeaderDevice, mac)
	h.Set(wire.HeaderClient, client)
	return h
}

func (r *rig) do(method, path string, h http.Header, body string) answered {
	r.t.Helper()
	url := path
	if !strings.Contains(path, "://") {
		url = r.URL + path
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	must(r.t, err)
	req.Header = h
	req.Close = true
	if host := h.Get("Host"); host != "" {
		req.Host = host
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	must(r.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(r.t, err)
	return answered{res.StatusCode, res.Header, res.ContentLength, b}
}

// call sends an OTA request, and checks the response.
func (r *rig) call(h http.Header, body string) wire.OTAResponse {
	r.t.Helper()
	return r.check(r.do(http.MethodPost, xiaozhi.OTAPath, h, body))
}

func (r *rig) check(res answered) wire.OTAResponse {
	r.t.Helper()
	if res.status != http.StatusOK || res.length != int64(len(res.body)) ||
		res.header.Get("Content-Type") != "application/json" {
		r.t.Fatalf("status %d, %d bytes announced, %v, %s", res.status, res.length, res.header, res.body)
	}
	if faults := wire.CheckOTAResponse(res.body); len(faults) > 0 {
		r.t.Fatalf("%s\n%v", res.body, faults)
	}
	a, err := wire.ParseOTAResponse(res.body)
	must(r.t, err)
	if a.WebSocket != nil && a.MQTT != nil {
		r.t.Fatalf("both transports: %s", res.body)
	}
	if a.Activation != nil && (a.WebSocket != nil || a.MQTT != nil) {
		r.t.Fatalf("credentials before the approval: %s", res.body)
	}
	if (a.Activation == nil) == (a.WebSocket == nil && a.MQTT == nil) || a.Time == nil {
		r.t.Fatalf("something is missing: %s", res.body)
	}
	return a
}

func (r *rig) activate(h http.Header, body string) int {
	r.t.Helper()
	res := r.do(http.MethodPost, xiaozhi.OTAPath+"activate", h, body)
	if res.length <= 0 {
		r.t.Errorf("%d: %d bytes announced", res.status, res.length)
	}
	return res.status
}

func (r *rig) approve(a wire.OTAResponse) store.Device {
	r.t.Helper()
	if a.Activation == nil {
		r.t.Fatal("there is no code to type in")
	}
	d, err := r.accounts.ApproveDevice(ctx, account.NewDevice{Person: r.person, Code: a.Activation.Code, Bot: r.bot})
	must(r.t, err)
	return d
}

// counted compares counters.
func (r *rig) counted(name string, want map[string]int) {
	r.t.Helper()
	var text strings.Builder
	help := map[string]string{
		"patchbay_xiaozhi_ota_requests_total":        "Calls home of voice boards, by how they ended.",
		"patchbay_xiaozhi_activation_requests_total": "Questions of voice boards whether they are approved, by the answer.",
		"patchbay_xiaozhi_firmware_total":            "Firmware that voice boards were offered and fetched.",
	}[name]
	fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s counter\n", name, help, name)
	for outcome, n := range want {
		fmt.Fprintf(&text, "%s{outcome=%q} %d\n", name, outcome, n)
	}
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(text.String()), name); err != nil {
		r.t.Error(err)
	}
}

// from returns the client address from a header of the request.
func from(r *http.Request) netip.Addr {
	if a, err := netip.ParseAddr(r.Header.Get("X-From")); err == nil {
		return a
	}
	return netip.MustParseAddr("192.0.2.1")
}

// port returns the server's port.
func (r *rig) port() string {
	_, port, err := net.SplitHostPort(r.Listener.Addr().String())
	must(r.t, err)
	return port
}

// StartTLSAgain serves over TLS on another port.
func (r *rig) StartTLSAgain() {
	r.Server = httptest.NewTLSServer(r.Config.Handler)
	r.t.Cleanup(r.Server.Close)
}

// readAnswer reads a response from a connection.
func readAnswer(t testing.TB, conn net.Conn) answered {
	t.Helper()
	must(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(t, err)
	return answered{res.StatusCode, res.Header, res.ContentLength, b}
}
