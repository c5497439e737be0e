// Package xiaozhi connects XiaoZhi voice boards. This file serves their OTA requests, by which they
// discover everything else: at each boot a board posts a description of itself to [Discovery]. The
// response has the time, newer firmware if there is some, and where to connect with which
// credentials, or, as long as no owner has approved the board, a code to show.
//
// The firmware (xiaozhi-esp32 main/ota.cc, Ota::CheckVersion and Activate) restricts the responses:
// they have exactly the status 200 and fewer than 8 KiB (wire.MaxHTTPBody), offer either WebSocket
// or MQTT and never both, and always have a challenge beside the code. Package wire checks each
// before it is sent, and names the revisions of the sources that comments cite.
//
// Nothing in the protocol authenticates the request: a hardware address and a client id are all
// there is, so a client that knows both of an approved board gets its credentials.
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
	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

// Kind is the device kind of XiaoZhi boards.
const Kind = "xiaozhi"

// Paths of the boards' endpoints, below the server's address.
const (
	OTAPath      = "/xiaozhi/ota/"
	SocketPath   = "/xiaozhi/v1/"
	FirmwarePath = "/xiaozhi/firmware/"
)

const (
	// maxOTABody limits the part of an OTA request that is read, in bytes. Real ones have 2 KB.
	maxOTABody = 64 << 10
	// maxDiscarded limits what is read and discarded after that, in bytes.
	maxDiscarded = 1 << 20
	// readTimeout is how long a board may take to send a request.
	readTimeout = 30 * time.Second
	// activationTimeout is sent in each activation; firmware stores and ignores it (xiaozhi-esp32
	// main/ota.cc, activation_timeout_ms_).
	activationTimeout = 30 * time.Second
	// mqttTopic is the topic that all boards publish to; see mqtt.DefaultTopic. Their logins tell
	// them apart.
	mqttTopic = "device-server"
)

// msgCode is what a board shows with its code; it speaks the digits.
const msgCode = i18n.Message("Enter this code at %s\n%s")

// DiscoveryOptions configure a Discovery. Accounts and Logger are required.
type DiscoveryOptions struct {
	Accounts   *account.Service
	Logger     *slog.Logger
	Registerer prometheus.Registerer

	// PublicURL is where boards reach the server, such as https://board.example.org. If it is
	// empty, that is the address of the request.
	PublicURL string
	Lang      i18n.Lang      // for boards that report no language; empty: English
	Zone      *time.Location // of the boards' clocks; nil: time.Local

	// Transport is how boards connect whose owner has not chosen: store.TransportSocket (also if it
	// is empty) or store.TransportMQTT.
	Transport string
	// Framing is the framing of the WebSocket; 0 means wire.FramingBare.
	Framing wire.Framing
	// MQTT is the broker's host and port, or only a colon and a port if it runs on the server's
	// host. Empty: there is no broker, and every board gets the WebSocket.
	MQTT      string
	Keepalive time.Duration // of MQTT; 0: wire.DefaultKeepalive
	// PerBoardTopics gives each board a topic of its own to publish to, by which an external broker
	// tells boards apart.
	PerBoardTopics bool

	// Firmware returns the firmware to offer to a family of boards that runs a version: newer is
	// digits and dots, url is an http or https URL, or a file name that [Discovery.ServeFirmware]
	// serves. Nil: the newest file in FirmwareFolder.
	Firmware func(family, version string) (newer, url string, ok bool)
	// FirmwareFolder has files named <family>-<version>.bin, such as bread-compact-wifi-2.4.3.bin.
	// They are public. Empty: there are none.
	FirmwareFolder string

	// AutoOwner is the id of a person who becomes the owner of every board that calls, without a
	// code: for demonstrations and tests. Boards of another owner still get a code. AutoBot is the
	// bot that answers them; 0: none.
	AutoOwner string
	AutoBot   int64

	// CallsPerMinute limits OTA requests and downloads from one address; 0: 120, which is enough
	// for a household of boards behind one router that all boot at once.
	CallsPerMinute int
	// ActivationsPerMinute limits activation requests from one address; 0: 600. A board that waits
	// for approval sends 20: one every 3 s (xiaozhi-esp32 main/application.cc,
	// Application::CheckNewVersion).
	ActivationsPerMinute int
	// Address returns a request's client address, also behind trusted proxies. Nil: the peer of the
	// connection.
	Address func(*http.Request) netip.Addr
	Now     func() time.Time // nil: time.Now
}

// Discovery serves OTA requests of boards. It is safe for concurrent use.
type Discovery struct {
	DiscoveryOptions
	publicURL       *serverURL // nil: the address of each request
	otaGuard        *account.Guard
	activationGuard *account.Guard
	metrics         discoveryMetrics
}

type discoveryMetrics struct{ calls, activations, firmware *prometheus.CounterVec }

// NewDiscovery makes a Discovery. It fails if boards cannot use an option.
func NewDiscovery(o DiscoveryOptions) (*Discovery, error) {
	d := &Discovery{DiscoveryOptions: o}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Zone == nil {
		d.Zone = time.Local
	}
	if d.Lang == "" {
		d.Lang = i18n.English
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
	if d.ActivationsPerMinute == 0 {
		d.ActivationsPerMinute = 600
	}
	if d.Address == nil {
		d.Address = remoteAddress
	}
	if d.Firmware == nil && d.FirmwareFolder != "" {
		d.Firmware = d.newestFirmware
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
		p, err := parsePublicURL(d.PublicURL)
		if err != nil {
			return nil, fmt.Errorf("boards cannot use the public URL: %w", err)
		}
		d.publicURL = &p
	}
	d.otaGuard, d.activationGuard = account.NewGuard(d.CallsPerMinute, d.Now), account.NewGuard(d.ActivationsPerMinute,
		d.Now)
	d.metrics = discoveryMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_xiaozhi_ota_requests_total",
			Help: "Calls home of voice boards, by how they ended."}, []string{"outcome"}),
		activations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_xiaozhi_activation_requests_total",
			Help: "Questions of voice boards whether they are approved, by the answer."}, []string{"outcome"}),
		firmware: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_xiaozhi_firmware_total",
			Help: "Firmware that voice boards were offered and fetched."}, []string{"outcome"}),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(d.metrics.calls, d.metrics.activations, d.metrics.firmware)
	}
	return d, nil
}

// ServeHTTP serves OTA requests, and activation requests at a path that ends in /activate
// (xiaozhi-esp32 main/ota.cc, Ota::Activate). Route it with and without a slash at the end: boards
// follow no redirects. A GET, by which people check the address in a browser, gets a plain text.
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
		d.serveOTA(w, r)
	}
}

// health tells people that the address is right.
func (d *Discovery) health(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	p, err := d.serverURL(r)
	if err != nil {
		fmt.Fprintf(w, "XiaoZhi boards call home here, but this address is none they can be told: %v.\n", err)
		return
	}
	fmt.Fprintf(w, "XiaoZhi boards call home here. Their WebSocket is at %s.\n", p.webSocket())
}

// serveOTA serves an OTA request.
func (d *Discovery) serveOTA(w http.ResponseWriter, r *http.Request) {
	if d.otaGuard.Refuse(d.Address(r)) {
		d.refuse(w, r, d.metrics.calls, "too_many", http.StatusTooManyRequests)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)) // not always supported
	body, err := readBody(r)
	if err != nil {
		d.refuse(w, r, d.metrics.calls, "unreadable", http.StatusBadRequest)
		return
	}
	board := wire.ParseOTARequest(body)
	id, ok := identifyDevice(r, board)
	if !ok {
		d.refuse(w, r, d.metrics.calls, "nobody", http.StatusBadRequest)
		return
	}
	p, err := d.serverURL(r)
	if err != nil {
		d.Logger.WarnContext(r.Context(), "a board called an address that cannot be given to boards; set public_url",
			"cause", err)
		d.refuse(w, r, d.metrics.calls, "failed", http.StatusInternalServerError)
		return
	}
	c := d.deviceCall(r, board, id)
	answer, outcome, err := d.buildAnswer(r.Context(), c, p)
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

// readBody returns the first maxOTABody bytes of a request. It reads and discards up to
// maxDiscarded more: a client that is still sending when the connection closes often loses the
// response.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxOTABody))
	if err != nil || len(body) < maxOTABody {
		return body, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(r.Body, maxDiscarded))
	return body, err
}

// refuse answers with an error status, after which boards try again later (xiaozhi-esp32
// main/application.cc, Application::CheckNewVersion). A response without a protocol section would
// make them continue with their stored configuration.
func (d *Discovery) refuse(w http.ResponseWriter, r *http.Request, counter *prometheus.CounterVec, outcome string,
	status int) {
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

// writeAnswer writes JSON with a Content-Length: without one, boards may wait for more.
func writeAnswer(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // fails only if the board has disconnected
}

// deviceCall returns what is stored of an OTA request.
func (d *Discovery) deviceCall(r *http.Request, b wire.OTARequest, id account.DeviceID) store.DeviceCall {
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
		Build   string        `json:"build,omitempty"` // hash of the firmware
	}{
		clip(b.Chip), b.FlashSize, nonZero(b.Display), clip(b.Board.Maker), clip(b.Board.Carrier),
		clip(r.Header.Get(wire.HeaderSerial)), clip(b.Application.IDF), clip(b.Application.SHA256),
	})
	if err != nil {
		panic(err) // strings and numbers
	}
	return store.DeviceCall{
		Kind: id.Kind, Hardware: id.Hardware, Client: id.Client,
		Family: clip(family), Article: clip(article), Version: clip(version), Language: clip(language),
		Features: features, Address: d.Address(r).String(), At: d.Now(),
	}
}

// nonZero returns nil for a zero value.
func nonZero[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

// clip makes a string from a board fit for lists and logs.
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

// buildAnswer records the OTA request and returns the response.
func (d *Discovery) buildAnswer(ctx context.Context, c store.DeviceCall,
	p serverURL) (a *wire.OTAResponse, outcome string, err error) {
	device, code, err := d.Accounts.DeviceSeen(ctx, c)
	if err != nil {
		return nil, "", err
	}
	if code != "" && d.AutoOwner != "" {
		if device, code, err = d.autoApprove(ctx, device, code); err != nil {
			return nil, "", err
		}
	}
	d.logCall(ctx, c, device, code)
	_, offset := c.At.In(d.Zone).Zone()
	a = &wire.OTAResponse{
		Time:     &wire.ServerTime{Timestamp: c.At.UnixMilli(), Offset: offset / 60},
		Firmware: wire.Firmware{Version: safeVersion(c.Version)},
	}
	if code != "" {
		lang := i18n.ParseLang(c.Language, d.Lang)
		a.Activation = &wire.Activation{
			Code: code, Message: msgCode.In(lang, p.host, code), Challenge: rand.Text(),
			TimeoutMS: int(activationTimeout.Milliseconds()),
		}
		return a, "waiting", nil
	}
	d.offerFirmware(ctx, &a.Firmware, device, c, p)
	if d.usesMQTT(device) {
		login := d.Accounts.MQTTLogin(device, c.Address)
		a.MQTT = &wire.MQTTConfig{
			Endpoint: d.mqttEndpoint(p), ClientID: login.ClientID, Username: login.Username, Password: login.Password,
			Publish: d.publishTopic(login.ClientID), Subscribe: "null", Keepalive: int(d.Keepalive.Seconds()),
		}
	} else {
		a.WebSocket = &wire.WebSocketConfig{URL: p.webSocket(), Token: d.Accounts.SocketToken(device),
			Version: d.Framing}
	}
	return a, "approved", nil
}

// autoApprove approves a board for AutoOwner, unless it belongs to another person.
func (d *Discovery) autoApprove(ctx context.Context, device store.Device, code string) (store.Device, string, error) {
	n := account.NewDevice{Person: d.AutoOwner, Code: code}
	if device.Bot == 0 {
		n.Bot = d.AutoBot
	}
	let, err := d.Accounts.ApproveByCode(ctx, n)
	if errors.Is(err, account.ErrDeviceTaken) {
		return device, code, nil
	}
	return let, "", err
}

// logCall logs an OTA request.
func (d *Discovery) logCall(ctx context.Context, c store.DeviceCall, device store.Device, code string) {
	about := []any{"device", device.Number, "board", c.Hardware, "article", c.Article, "firmware", c.Version,
		"address", c.Address}
	switch {
	case code != "" && device.Owner != "":
		d.Logger.WarnContext(ctx,
			"a board called as one that is approved, but was erased or is another; it waits for a code", about...)
	case device.Created.UnixMilli() == c.At.UnixMilli():
		d.Logger.InfoContext(ctx, "a new board called home", about...)
	default:
		d.Logger.DebugContext(ctx, "a board called home", about...)
	}
}

// safeVersion returns the version that a board is told it has. Firmware aborts on one that is not
// digits and dots, even its own (xiaozhi-esp32 main/ota.cc, Ota::ParseVersion).
func safeVersion(version string) string {
	if _, err := wire.Newer(version, "0"); err != nil {
		return "0"
	}
	return version
}

// usesMQTT reports whether a board gets the MQTT configuration.
func (d *Discovery) usesMQTT(device store.Device) bool {
	want := device.Transport
	if want == "" {
		want = d.Transport
	}
	return want == store.TransportMQTT && d.MQTT != ""
}

// publishTopic returns the topic that a board publishes to.
func (d *Discovery) publishTopic(clientID string) string {
	if d.PerBoardTopics {
		return mqttTopic + "/" + clientID
	}
	return mqttTopic
}

// mqttEndpoint returns the broker's address for boards.
func (d *Discovery) mqttEndpoint(p serverURL) string {
	if strings.HasPrefix(d.MQTT, ":") {
		return p.name + d.MQTT
	}
	return d.MQTT
}
