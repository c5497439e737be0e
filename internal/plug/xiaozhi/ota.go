// Package xiaozhi connects XiaoZhi voice boards. This file is their call home, by
// which they find everything else: each time a board is turned on it posts what it
// is to [Discovery], which answers what time it is, whether there is newer firmware,
// and where to connect with which credentials, or, as long as no owner has approved
// the board, a code to show.
//
// The firmware's ways decide about the answers: they have exactly the status 200 and
// fewer than 8 KiB, offer either WebSocket or MQTT and never both, and always have a
// challenge beside the code. Package wire checks each before it is sent.
//
// Nothing in the protocol proves who calls: a hardware address and a client id are
// all there is, so that who knows both of an approved board gets its credentials.
package xiaozhi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Kind is the kind of boards among devices.
const Kind = "xiaozhi"

// Where boards find what, below the server's address.
const (
	HomePath     = "/xiaozhi/ota/"
	SocketPath   = "/xiaozhi/v1/"
	FirmwarePath = "/xiaozhi/firmware/"
)

const (
	// maxHome is how much of a call home is read, in bytes. Real ones have some 2 KB.
	maxHome = 64 << 10
	// maxIgnored is how much more is read without being looked at, in bytes.
	maxIgnored = 1 << 20
	// readLimit is how long a board may take to send it.
	readLimit = 30 * time.Second
	// activationTimeout is in each activation, and firmware does not look at it.
	activationTimeout = 30 * time.Second
	// mqttTopic is what all boards publish to; they are told apart by their logins.
	mqttTopic = "device-server"
)

// sayCode is what a board shows, and speaks the digits of.
var sayCode = talk.Say{Zh: "请在 %s 输入验证码\n%s", En: "Enter this code at %s\n%s"}

// DiscoveryOptions make a Discovery. Accounts, Logger and Registerer are required.
type DiscoveryOptions struct {
	Accounts   *account.Service
	Logger     *slog.Logger
	Registerer prometheus.Registerer

	// PublicURL is where boards reach the server, such as https://board.example.org.
	// If it is empty, that is where the call came to.
	PublicURL string
	Lang      talk.Lang      // for boards that tell none
	Zone      *time.Location // of the boards' clocks; nil: the server's

	// Transport is how boards connect whose owner has not chosen:
	// store.TransportSocket, also if it is empty, or store.TransportMQTT.
	Transport string
	// Framing is that of the WebSocket; 0 means wire.FramingBare.
	Framing wire.Framing
	// MQTT is the broker: a host and a port, or only a colon and a port if it is
	// where the server is. Empty: there is none, and every board gets the WebSocket.
	MQTT      string
	Keepalive time.Duration // of MQTT; 0: wire.DefaultKeepalive
	// OwnTopics has each board publish below a topic of its own, as brokers want it
	// that are not ours, to tell boards apart.
	OwnTopics bool

	// Firmware says what a family of boards could be running instead of a version:
	// digits and dots, and an http or https URL, or one of the files that
	// [Discovery.ServeFirmware] serves. A nil one finds the newest in FirmwareFolder.
	Firmware func(family, version string) (newer, url string, ok bool)
	// FirmwareFolder has files named as their family, a dash, a version and ".bin":
	// bread-compact-wifi-2.4.3.bin. Everybody may fetch them. Empty: there are none.
	FirmwareFolder string

	// Auto is the id of a person who gets every board that calls, without a code: for
	// demonstrations and tests. Boards of somebody else still show one. AutoBot is
	// the bot that answers them; 0: none.
	Auto    string
	AutoBot int64

	// CallsPerMinute bounds calls home, and downloads, from one address; 0: 120, which
	// is a household of boards that are all turned on at once, behind one router.
	CallsPerMinute int
	// AsksPerMinute bounds how often boards of one address ask whether they are
	// approved; 0: 600. A board that waits asks 20 times.
	AsksPerMinute int
	// Address finds a request's client, behind trusted proxies too. Nil: the other
	// end of the connection.
	Address func(*http.Request) netip.Addr
	Now     func() time.Time // nil: time.Now
}

// Discovery answers boards that call home. It is safe for concurrent use.
type Discovery struct {
	DiscoveryOptions
	public  *place // nil: where the call came to
	calls   *account.Guard
	asks    *account.Guard
	metrics discoveryMetrics
}

type discoveryMetrics struct{ calls, asks, firmware *prometheus.CounterVec }

// NewDiscovery makes a Discovery. The error says which option boards cannot use.
func NewDiscovery(o DiscoveryOptions) (*Discovery, error) {
	d := &Discovery{DiscoveryOptions: o}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Zone == nil {
		d.Zone = time.Local
	}
	if d.Lang == "" {
		d.Lang = talk.English
	}
	if d.Framing == 0 {
		d.Framing = wire.FramingBare
	}
	if d.Keepalive == 0 {
		d.Keepalive = wire.DefaultKeepalive
	}
	if d.CallsPerMinute == 0 {
		d.CallsPerMinute = 120
	}
	if d.AsksPerMinute == 0 {
		d.AsksPerMinute = 600
	}
	if d.Address == nil {
		d.Address = remoteAddress
	}
	if d.Firmware == nil && d.FirmwareFolder != "" {
		d.Firmware = d.newest
	}
	switch d.Transport {
	case "", store.TransportSocket:
	case store.TransportMQTT:
		if d.MQTT == "" {
			return nil, errors.New("boards are to use MQTT, and there is no broker")
		}
	default:
		return nil, fmt.Errorf("no transport is called %q", d.Transport)
	}
	if d.MQTT != "" {
		if _, err := wire.ParseEndpoint("host" + d.MQTT[max(0, strings.IndexByte(d.MQTT, ':')):]); err != nil {
			return nil, fmt.Errorf("boards cannot use the MQTT broker %q: %w", d.MQTT, err)
		}
	}
	if d.PublicURL != "" {
		p, err := publicPlace(d.PublicURL)
		if err != nil {
			return nil, fmt.Errorf("boards cannot use the public URL: %w", err)
		}
		d.public = &p
	}
	d.calls, d.asks = account.NewGuard(d.CallsPerMinute, d.Now), account.NewGuard(d.AsksPerMinute, d.Now)
	d.metrics = discoveryMetrics{
		calls:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_xiaozhi_calls_total", Help: "Calls home of voice boards, by how they ended."}, []string{"outcome"}),
		asks:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_xiaozhi_asks_total", Help: "Questions of voice boards whether they are approved, by the answer."}, []string{"outcome"}),
		firmware: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_xiaozhi_firmware_total", Help: "Firmware that voice boards were offered and fetched."}, []string{"outcome"}),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(d.metrics.calls, d.metrics.asks, d.metrics.firmware)
	}
	return d, nil
}

// ServeHTTP answers a call home, and at an address that ends in /activate the
// question whether the board is approved. It has to be reached without a redirect
// with and without a slash at the end: boards follow none. A GET, as people make it
// to see whether the address is right, is answered in words.
func (d *Discovery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	activate := strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/activate")
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		d.health(w, r)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "boards post what they are here", http.StatusMethodNotAllowed)
	case activate:
		d.activate(w, r)
	default:
		d.home(w, r)
	}
}

// health tells people that they have found the right address.
func (d *Discovery) health(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	p, err := d.place(r)
	if err != nil {
		fmt.Fprintf(w, "XiaoZhi boards call home here, but this address is none they can be told: %v.\n", err)
		return
	}
	fmt.Fprintf(w, "XiaoZhi boards call home here. Their WebSocket is at %s.\n", p.socket())
}

// home answers a call home.
func (d *Discovery) home(w http.ResponseWriter, r *http.Request) {
	if d.calls.Refuse(d.Address(r)) {
		d.refuse(w, r, d.metrics.calls, "too_many", http.StatusTooManyRequests)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readLimit)) // not every connection has one
	body, err := readBody(r)
	if err != nil {
		d.refuse(w, r, d.metrics.calls, "unreadable", http.StatusBadRequest)
		return
	}
	board := wire.ParseBoard(body)
	id, ok := identify(r, board)
	if !ok {
		d.refuse(w, r, d.metrics.calls, "nobody", http.StatusBadRequest)
		return
	}
	p, err := d.place(r)
	if err != nil {
		d.Logger.WarnContext(r.Context(), "a board came by an address that it cannot be told; set the public URL", "cause", err)
		d.refuse(w, r, d.metrics.calls, "failed", http.StatusInternalServerError)
		return
	}
	c := d.describe(r, board, id)
	answer, outcome, err := d.answer(r.Context(), c, p)
	var text []byte
	if err == nil {
		text, err = answer.Marshal()
	}
	if err != nil {
		if r.Context().Err() == nil {
			d.Logger.ErrorContext(r.Context(), "a board's call home failed", "board", id.Hardware, "error", err)
		}
		d.refuse(w, r, d.metrics.calls, "failed", http.StatusServiceUnavailable)
		return
	}
	d.metrics.calls.WithLabelValues(outcome).Inc()
	writeAnswer(w, http.StatusOK, text)
}

// readBody returns the first maxHome bytes of what a board sends. Up to maxIgnored more
// are read and discarded: a client that is still sending when the connection is closed
// often loses the answer.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxHome))
	if err != nil || len(body) < maxHome {
		return body, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(r.Body, maxIgnored))
	return body, err
}

// refuse answers with a status at which boards try again later. Anything else
// would have them go on with what they were told once.
func (d *Discovery) refuse(w http.ResponseWriter, r *http.Request, counter *prometheus.CounterVec, outcome string, status int) {
	counter.WithLabelValues(outcome).Inc()
	message := "that did not work; try again later"
	switch outcome {
	case "too_many":
		w.Header().Set("Retry-After", "60")
		message = "too many calls from this address; wait a minute"
	case "nobody":
		message = "the headers Device-Id (a MAC address) and Client-Id (a UUID) say who calls, and one is missing or wrong"
	case "unreadable":
		message = "the body could not be read"
	}
	d.Logger.DebugContext(r.Context(), "a board's request was refused", "cause", outcome, "address", d.Address(r))
	http.Error(w, message, status)
}

// writeAnswer writes JSON whose length is known: without one, boards may wait for
// more.
func writeAnswer(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the board has gone, or not
}

// describe takes from a call what is kept about a board.
func (d *Discovery) describe(r *http.Request, b wire.Board, id account.DeviceID) store.DeviceCall {
	article, version, _ := strings.Cut(r.UserAgent(), "/")
	if b.Board.Name != "" {
		article = b.Board.Name
	}
	if b.Application.Version != "" {
		version = b.Application.Version
	}
	family := b.Board.Type
	if family == "" {
		family = article
	}
	language := b.Language
	if language == "" {
		language, _, _ = strings.Cut(r.Header.Get("Accept-Language"), ",")
		language, _, _ = strings.Cut(language, ";")
	}
	features, err := json.Marshal(struct {
		Chip    string        `json:"chip,omitempty"`
		Flash   int64         `json:"flash,omitempty"` // bytes
		Display *wire.Display `json:"display,omitempty"`
		Maker   string        `json:"maker,omitempty"`
		Carrier string        `json:"carrier,omitempty"`
		Serial  string        `json:"serial,omitempty"`
		IDF     string        `json:"idf,omitempty"`
		Build   string        `json:"build,omitempty"` // the hash of the firmware
	}{
		clip(b.Chip), b.FlashSize, some(b.Display), clip(b.Board.Maker), clip(b.Board.Carrier),
		clip(r.Header.Get(wire.HeaderSerial)), clip(b.Application.IDF), clip(b.Application.SHA256),
	})
	if err != nil {
		panic(err) // texts and numbers
	}
	return store.DeviceCall{
		Kind: id.Kind, Hardware: id.Hardware, Client: id.Client,
		Family: clip(family), Article: clip(article), Version: clip(version), Language: clip(language),
		Features: features, Address: d.Address(r).String(), At: d.Now(),
	}
}

// some is nil for a value that was not told.
func some[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

// clip makes a text that a board sent fit for lists and logs.
func clip(s string) string {
	const longest = 64
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if r := []rune(s); len(r) > longest {
		s = string(r[:longest])
	}
	return strings.TrimSpace(s)
}

// answer notes the call and says what the board is told.
func (d *Discovery) answer(ctx context.Context, c store.DeviceCall, p place) (a *wire.Answer, outcome string, err error) {
	device, code, err := d.Accounts.DeviceSeen(ctx, c)
	if err != nil {
		return nil, "", err
	}
	if code != "" && d.Auto != "" {
		if device, code, err = d.letIn(ctx, device, code); err != nil {
			return nil, "", err
		}
	}
	d.note(ctx, c, device, code)
	_, offset := c.At.In(d.Zone).Zone()
	a = &wire.Answer{
		Time:     &wire.ServerTime{Timestamp: c.At.UnixMilli(), Offset: offset / 60},
		Firmware: wire.Firmware{Version: echo(c.Version)},
	}
	if code != "" {
		lang := talk.ParseLang(c.Language, d.Lang)
		a.Activation = &wire.Activation{
			Code: code, Message: sayCode.In(lang, p.host, code), Challenge: rand.Text(), TimeoutMS: int(activationTimeout.Milliseconds()),
		}
		return a, "waiting", nil
	}
	d.offer(ctx, &a.Firmware, device, c, p)
	if d.overMQTT(device) {
		login := d.Accounts.MQTTLogin(device, c.Address)
		a.MQTT = &wire.MQTTPlan{
			Endpoint: d.endpoint(p), ClientID: login.ClientID, Username: login.Username, Password: login.Password,
			Publish: d.topic(login.ClientID), Subscribe: "null", Keepalive: int(d.Keepalive.Seconds()),
		}
	} else {
		a.WebSocket = &wire.SocketPlan{URL: p.socket(), Token: d.Accounts.SocketToken(device), Version: d.Framing}
	}
	return a, "approved", nil
}

// letIn approves a board without asking, unless it is somebody else's.
func (d *Discovery) letIn(ctx context.Context, device store.Device, code string) (store.Device, string, error) {
	n := account.NewDevice{Person: d.Auto, Code: code}
	if device.Bot == 0 {
		n.Bot = d.AutoBot
	}
	let, err := d.Accounts.ApproveShown(ctx, n)
	if errors.Is(err, account.ErrDeviceTaken) {
		return device, code, nil
	}
	return let, "", err
}

// note logs what an owner may want to know of a call.
func (d *Discovery) note(ctx context.Context, c store.DeviceCall, device store.Device, code string) {
	about := []any{"device", device.Number, "board", c.Hardware, "article", c.Article, "firmware", c.Version, "address", c.Address}
	switch {
	case code != "" && device.Owner != "":
		d.Logger.WarnContext(ctx, "a board called as one that is approved, but was erased or is another; it waits for a code", about...)
	case device.Created.UnixMilli() == c.At.UnixMilli():
		d.Logger.InfoContext(ctx, "a new board called home", about...)
	default:
		d.Logger.DebugContext(ctx, "a board called home", about...)
	}
}

// echo is the version that a board is told it has. Boards crash on one that is not
// digits and dots, even on their own.
func echo(version string) string {
	if _, err := wire.Newer(version, "0"); err != nil {
		return "0"
	}
	return version
}

// overMQTT says whether a board is to use MQTT.
func (d *Discovery) overMQTT(device store.Device) bool {
	want := device.Transport
	if want == "" {
		want = d.Transport
	}
	return want == store.TransportMQTT && d.MQTT != ""
}

// topic is what a board publishes to.
func (d *Discovery) topic(clientID string) string {
	if d.OwnTopics {
		return mqttTopic + "/" + clientID
	}
	return mqttTopic
}

// endpoint is the broker as boards are told it.
func (d *Discovery) endpoint(p place) string {
	if strings.HasPrefix(d.MQTT, ":") {
		return p.name + d.MQTT
	}
	return d.MQTT
}

// activate answers a board that asks whether somebody has typed its code in. What
// boards with a serial number prove in the body only their maker can check, and
// py-xiaozhi wraps it; it is not looked at.
func (d *Discovery) activate(w http.ResponseWriter, r *http.Request) {
	if d.asks.Refuse(d.Address(r)) {
		d.refuse(w, r, d.metrics.asks, "too_many", http.StatusTooManyRequests)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readLimit)) // not every connection has one
	if _, err := readBody(r); err != nil {
		d.refuse(w, r, d.metrics.asks, "unreadable", http.StatusBadRequest)
		return
	}
	id, ok := Who(r)
	if !ok {
		d.refuse(w, r, d.metrics.asks, "nobody", http.StatusBadRequest)
		return
	}
	approved, err := d.Accounts.DeviceApproved(r.Context(), id)
	switch {
	case err != nil:
		if r.Context().Err() == nil {
			d.Logger.ErrorContext(r.Context(), "it could not be seen whether a board is approved", "board", id.Hardware, "error", err)
		}
		d.refuse(w, r, d.metrics.asks, "failed", http.StatusServiceUnavailable)
	case approved:
		d.metrics.asks.WithLabelValues("approved").Inc()
		writeAnswer(w, http.StatusOK, []byte(`{"message":"approved"}`))
	default:
		// A board whose code has expired waits too: it calls home after some more
		// questions, and sooner than after an error.
		d.metrics.asks.WithLabelValues("waiting").Inc()
		writeAnswer(w, http.StatusAccepted, []byte(`{"message":"not yet"}`))
	}
}
