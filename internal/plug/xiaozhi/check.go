package xiaozhi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

// CheckOptions are what [Check] needs: the settings for boards, and the state of the running
// server.
type CheckOptions struct {
	Store    *store.DB
	Accounts *account.Service
	// Awake returns the numbers of the boards that are awake; nil: no server runs.
	Awake func(context.Context) (map[int64]bool, error)
	// PublicURL is where boards reach the server; empty: where it listens, at Listen, by https if
	// Secure is set. Cert and Key are the files of its certificate; empty: it has none in files.
	PublicURL, Listen, Cert, Key string
	Secure                       bool
	// Transport, MQTT, MQTTTLS, Broker, Join, Audio, AudioHost, AudioPort and Firmware are those of
	// the settings.
	Transport, MQTT, MQTTTLS, Broker, Join, Audio, AudioHost string

	AudioPort int
	Firmware  string
}

// hasMQTT reports whether boards can be given an MQTT server.
func (o *CheckOptions) hasMQTT() bool { return o.MQTT+o.MQTTTLS+o.Broker+o.Join != "" }

// isConfigured reports whether anything is set for boards.
func (o *CheckOptions) isConfigured() bool {
	return o.hasMQTT() || o.Audio+o.Firmware != "" || o.Transport == store.TransportMQTT
}

// checker checks what concerns boards.
type checker struct {
	CheckOptions
	*check.Report
	boards  []store.Device // approved ones
	waiting int
	awake   map[int64]bool // nil: unknown
}

// staleAfter is after how long without contact a board is reported. Boards in use connect each time
// they are turned on.
const staleAfter = 30 * 24 * time.Hour

const (
	msgCheckBoards    = i18n.Message("voice boards")
	msgBoardsGood     = i18n.Message("%d approved, %d awake")
	msgBoardsApproved = i18n.Message("%d approved")
	msgBoardsWaiting  = i18n.Message("boards that show a code: %d")
	msgBoardsUnseen   = i18n.Message("boards that were not seen for 30 days: %d, such as %s")
	msgBoardsUnbound  = i18n.Message("boards that no bot answers: %d, such as %s")
	msgBoardsNoMQTT   = i18n.Message("boards that are set to MQTT, which is not on: %d, such as %s")

	adviceApprove = i18n.Message("Type in the six digits on its display: patchbay device approve CODE%s")
	adviceUnseen  = i18n.Message("Turn it on, or remove it: patchbay device rm %d%s")
	adviceUnbound = i18n.Message("Give it one: patchbay device bind %d BOT%s")
	adviceNoMQTT  = i18n.Message("Set xiaozhi.mqtt and xiaozhi.audio, or take it back: patchbay device set %d transport=default%s")
)

// Check checks what concerns boards. Without any board or setting for them there is nothing to
// check.
func Check(ctx context.Context, r *check.Report, o CheckOptions) {
	c := &checker{CheckOptions: o, Report: r}
	there, err := c.read(ctx)
	if err != nil {
		r.Error(msgCheckBoards.With(), err, check.AdviceLog.With())
		return
	}
	if !there && c.waiting == 0 && !c.isConfigured() {
		return
	}
	c.checkBoards()
	c.checkAddress(ctx)
	c.checkMQTT()
	c.checkSound(ctx)
	c.checkFirmware()
	c.checkRecordings(ctx)
}

// boardsAtOnce is how many boards are read at once.
const boardsAtOnce = 1000

// read reads the boards and their states. there means that there are any, approved or not.
func (c *checker) read(ctx context.Context) (there bool, err error) {
	for after := int64(0); ; {
		page, err := c.Store.Devices.Page(ctx, after, boardsAtOnce)
		if err != nil {
			return false, err
		}
		for _, d := range page {
			there, after = true, d.Number
			if d.Owner != "" {
				c.boards = append(c.boards, d)
			}
		}
		if len(page) < boardsAtOnce {
			break
		}
	}
	waiting, err := c.Store.Devices.Waiting(ctx, time.Now())
	c.waiting = len(waiting)
	if err == nil && c.Awake != nil {
		c.awake, err = c.Awake(ctx)
	}
	return there, err
}

// checkBoards checks each board, and reports each problem once: there may be thousands of boards.
func (c *checker) checkBoards() {
	name := msgCheckBoards.With()
	if c.awake == nil {
		c.OK(name, msgBoardsApproved.With(len(c.boards)))
	} else {
		c.OK(name, msgBoardsGood.With(len(c.boards), len(c.awake)))
	}
	if c.waiting > 0 {
		c.Warn(name, msgBoardsWaiting.With(c.waiting), adviceApprove.With(c.Flags))
	}
	for _, problem := range []struct {
		found, advice i18n.Message
		is            func(store.Device) bool
	}{
		{msgBoardsUnseen, adviceUnseen, func(d store.Device) bool {
			return time.Since(d.Seen) > staleAfter && !c.awake[d.Number]
		}},
		{msgBoardsUnbound, adviceUnbound, func(d store.Device) bool { return d.Bot == 0 }},
		{msgBoardsNoMQTT, adviceNoMQTT, func(d store.Device) bool {
			return d.Transport == store.TransportMQTT && !c.hasMQTT() && !c.awake[d.Number]
		}},
	} {
		var with []store.Device
		for _, d := range c.boards {
			if problem.is(d) {
				with = append(with, d)
			}
		}
		if len(with) > 0 {
			c.Warn(name, problem.found.With(len(with), with[0].Name), problem.advice.With(with[0].Number, c.Flags))
		}
	}
}

const (
	msgCheckHome = i18n.Message("address for boards")
	msgBoardsAt  = i18n.Message("%s is for the Wi-Fi page of boards")
	msgHomeURL   = i18n.Message("boards cannot use the public URL: %v")
	msgHomeHere  = i18n.Message("the server listens on %s only, which boards cannot reach")
	msgHomeAway  = i18n.Message("%s does not answer as it should: %s")
	msgHomeCert  = i18n.Message("boards do not trust the certificate: %s")

	adviceBoardURL  = i18n.Message("Boards are told the address at which they found the server instead; give public_url a name or an IPv4 address.")
	adviceBoardConf = i18n.Message("The server does not start with this; see docs/boards.md.")
	adviceHomeHere  = i18n.Message("Run patchbay serve --listen :3000%s, or set a reverse proxy up, and public_url.")
	adviceHomeAway  = i18n.Message("Boards follow no redirect and take the status 200 alone; see what the reverse proxy does.")
	adviceHomeCert  = i18n.Message("They trust those of public authorities alone; within a network of your own, http will do.")
)

// checkAddress checks the address that boards connect to, by the server's own rules. A running
// server may have other settings: boards that are awake prove that they can connect.
func (c *checker) checkAddress(ctx context.Context) {
	name := msgCheckHome.With()
	if c.PublicURL != "" {
		if err := CheckPublicURL(c.PublicURL); err != nil {
			c.Fail(name, msgHomeURL.With(err), adviceBoardURL.With())
			return
		}
	}
	told := c.Broker
	if told == "" && c.hasMQTT() {
		told = ":" + strconv.Itoa(max(1, c.mqttPort()))
	}
	_, err := NewDiscovery(DiscoveryOptions{Accounts: c.Accounts, Logger: slog.New(slog.DiscardHandler),
		PublicURL: c.PublicURL, Transport: c.Transport, MQTT: told})
	if err != nil {
		c.Error(name, err, adviceBoardConf.With())
		return
	}
	if err := c.verifyCertificate(time.Now()); err != nil {
		c.Warn(name, msgHomeCert.With(c.Explained(err)), adviceHomeCert.With())
	}
	if c.PublicURL != "" {
		c.checkEndpoint(ctx, strings.TrimRight(c.PublicURL, "/")+OTAPath)
		return
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return // the check of the server reports it
	}
	if len(c.awake) == 0 && isLoopback(c.Listen) {
		c.Warn(name, msgHomeHere.With(c.Listen), adviceHomeHere.With(c.Flags))
		return
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = ownAddress()
	}
	scheme := "http://"
	if c.Secure {
		scheme = "https://"
	}
	c.OK(name, msgBoardsAt.With(scheme+net.JoinHostPort(host, port)+OTAPath))
}

// isLoopback reports whether a listen address can be reached only from this machine.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && netx.IsLoopback(host)
}

// verifyCertificate returns why boards do not trust the server's certificate, as far as known.
func (c *checker) verifyCertificate(now time.Time) error {
	if c.Cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil // the check of the certificate reports it
	}
	o := x509.VerifyOptions{Intermediates: x509.NewCertPool(), CurrentTime: now}
	if u, err := url.Parse(c.PublicURL); err == nil {
		o.DNSName = u.Hostname()
	}
	for _, der := range pair.Certificate[1:] {
		if between, err := x509.ParseCertificate(der); err == nil {
			o.Intermediates.AddCert(between)
		}
	}
	_, err = pair.Leaf.Verify(o)
	return err
}

// checkTimeout is the timeout of a request of the checks.
const checkTimeout = 5 * time.Second

// checkEndpoint checks that the public URL leads to the endpoint of boards, with requests like
// theirs: without following redirects.
func (c *checker) checkEndpoint(ctx context.Context, address string) {
	name := msgCheckHome.With()
	client := &http.Client{Timeout: checkTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		c.Error(name, err, adviceHomeAway.With())
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		c.Warn(name, msgHomeAway.With(address, c.Explained(err)), check.AdviceOutside.With())
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // missing content shows below
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "boards call home here") {
		c.Warn(name, msgHomeAway.With(address, resp.Status), adviceHomeAway.With())
		return
	}
	c.OK(name, msgBoardsAt.With(address))
}

// ownAddress returns an address of this machine in its network.
func ownAddress() string {
	all, _ := net.InterfaceAddrs() // on an error none is found
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return "IP"
}

const (
	msgCheckFirmware = i18n.Message("firmware for boards")
	msgFirmwareFiles = i18n.Message("files: %d")
	msgFirmwareNone  = i18n.Message("there is none in %s")
	msgFirmwareBad   = i18n.Message("%s is offered to no board")

	adviceFirmware    = i18n.Message("A name is like bread-compact-wifi-2.4.3.bin: family, dash, digits and dots; and the file is not empty.")
	adviceFirmwareDir = i18n.Message("See whether xiaozhi.firmware is right, and let the account that runs the server read it.")
)

// checkFirmware checks the folder with firmware.
func (c *checker) checkFirmware() {
	if c.Firmware == "" {
		return
	}
	name := msgCheckFirmware.With()
	entries, err := os.ReadDir(c.Firmware)
	if err != nil {
		c.Error(name, err, adviceFirmwareDir.With())
		return
	}
	usable := 0
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "."): // not meant for boards
		case isOfferable(e):
			usable++
		default:
			c.Warn(name, msgFirmwareBad.With(e.Name()), adviceFirmware.With())
		}
	}
	if usable == 0 {
		c.Warn(name, msgFirmwareNone.With(c.Firmware), adviceFirmware.With())
		return
	}
	c.OK(name, msgFirmwareFiles.With(usable))
}

// isOfferable reports whether a file can be offered to boards.
func isOfferable(e os.DirEntry) bool {
	_, version, ok := firmwareName(e.Name())
	info, err := e.Info()
	if !ok || err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	_, err = wire.Newer(version, "0")
	return err == nil
}

const (
	msgCheckRecordings = i18n.Message("recordings of boards")
	msgRecordingsAre   = i18n.Message("%d turns, %.1f MiB in the database")
)

// checkRecordings tells how many recordings there are, and how much space they take.
func (c *checker) checkRecordings(ctx context.Context) {
	total, err := c.Store.Recordings.Total(ctx)
	switch {
	case err != nil:
		c.Error(msgCheckRecordings.With(), err, check.AdviceLog.With())
	case total.Turns > 0:
		c.OK(msgCheckRecordings.With(), msgRecordingsAre.With(total.Turns, float64(total.Bytes)/(1<<20)))
	}
}
