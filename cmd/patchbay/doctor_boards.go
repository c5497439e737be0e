package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

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

	adviceApprove   = i18n.Message("Type in the six digits on its display: patchbay device approve CODE%s")
	adviceUnseen    = i18n.Message("Turn it on, or remove it: patchbay device rm %d%s")
	adviceUnbound   = i18n.Message("Give it one: patchbay device bind %d BOT%s")
	adviceNoMQTT    = i18n.Message("Set xiaozhi.mqtt and xiaozhi.audio, or take it back: patchbay device set %d transport=default%s")
	adviceBoardURL  = i18n.Message("Boards are told the address at which they found the server instead; give public_url a name or an IPv4 address.")
	adviceBoardConf = i18n.Message("The server does not start with this; see docs/boards.md.")
)

// boards checks what concerns boards. Without any board or setting for them there is nothing to
// check.
func (d *doctor) boards(ctx context.Context, b *app.Base) {
	rows, err := d.devices(ctx, b)
	if err != nil {
		d.fail(msgCheckBoards.With(), d.errorText(err), adviceLook)
		return
	}
	waiting, err := b.Store.Devices.Waiting(ctx, time.Now())
	if err != nil {
		d.fail(msgCheckBoards.With(), d.errorText(err), adviceLook)
		return
	}
	x := d.settings.XiaoZhi
	if len(rows) == 0 && len(waiting) == 0 && x.MQTT+x.MQTTTLS+x.Audio+x.Broker+x.Join+x.Firmware == "" &&
		x.Transport != store.TransportMQTT {
		return
	}
	rows = slices.DeleteFunc(rows, func(r deviceRow) bool { return r.Owner == "" })
	d.boardList(rows, len(waiting))
	awake := func(r deviceRow) bool { return r.Online != nil && *r.Online }
	d.checkBoardAddress(ctx, b, slices.ContainsFunc(rows, awake))
	d.boardMQTT(slices.ContainsFunc(rows, func(r deviceRow) bool { return r.Transport == store.TransportMQTT }))
	d.boardSound(ctx)
	d.boardFirmware()
}

// devices lists all devices. Only a running server knows which are online.
func (d *doctor) devices(ctx context.Context, b *app.Base) ([]deviceRow, error) {
	running, err := connectRunning(ctx, d.sh, d.settings)
	if err != nil {
		return nil, err
	}
	if running != nil {
		return (&conn{Client: running}).devices(ctx)
	}
	l, err := app.NewLocal(ctx, b, d.sh.logger())
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return (&conn{Client: l.Client(d.sh.lang), local: true}).devices(ctx)
}

// boardList checks each board, and reports each problem once: there may be thousands of boards.
func (d *doctor) boardList(rows []deviceRow, waiting int) {
	awake, known := 0, true
	for _, r := range rows {
		if known = r.Online != nil; known && *r.Online {
			awake++
		}
	}
	if known {
		d.ok(msgCheckBoards.With(), msgBoardsGood, len(rows), awake)
	} else {
		d.ok(msgCheckBoards.With(), msgBoardsApproved, len(rows))
	}
	if waiting > 0 {
		d.warn(msgCheckBoards.With(), msgBoardsWaiting.In(d.sh.lang, waiting), adviceApprove, d.retryFlags)
	}
	for _, c := range []struct {
		found, advice i18n.Message
		is            func(deviceRow) bool
	}{
		{msgBoardsUnseen, adviceUnseen, func(r deviceRow) bool {
			return time.Since(r.Seen) > staleAfter && (r.Online == nil || !*r.Online)
		}},
		{msgBoardsUnbound, adviceUnbound, func(r deviceRow) bool { return r.Bot == 0 }},
		{msgBoardsNoMQTT, adviceNoMQTT, func(r deviceRow) bool {
			return r.Transport == store.TransportMQTT && !hasMQTT(d.settings) && (r.Online == nil || !*r.Online)
		}},
	} {
		var with []deviceRow
		for _, r := range rows {
			if c.is(r) {
				with = append(with, r)
			}
		}
		if len(with) > 0 {
			d.warn(msgCheckBoards.With(), c.found.In(d.sh.lang, len(with), with[0].Name), c.advice, with[0].Number,
				d.retryFlags)
		}
	}
}

// hasMQTT reports whether boards can be given an MQTT server.
func hasMQTT(c *config.Config) bool {
	return c.XiaoZhi.MQTT+c.XiaoZhi.MQTTTLS+c.XiaoZhi.Broker+c.XiaoZhi.Join != ""
}

const (
	msgCheckHome    = i18n.Message("address for boards")
	msgBoardsAt     = i18n.Message("%s is for the Wi-Fi page of boards")
	msgHomeHere     = i18n.Message("the server listens on %s only, which boards cannot reach")
	msgHomeAway     = i18n.Message("%s does not answer as it should: %s")
	msgHomeCert     = i18n.Message("boards do not trust the certificate: %s")
	adviceHomeHere  = i18n.Message("Run patchbay serve --listen :3000%s, or set a reverse proxy up, and public_url.")
	adviceHomeAway  = i18n.Message("Boards follow no redirect and take the status 200 alone; see what the reverse proxy does.")
	adviceBoardCert = i18n.Message("They trust those of public authorities alone; within a network of your own, http will do.")
)

// checkBoardAddress checks the address that boards connect to, by the server's own rules. A running
// server may have other settings: boards that are awake prove that they can connect.
func (d *doctor) checkBoardAddress(ctx context.Context, b *app.Base, awake bool) {
	c := d.settings
	told := c.XiaoZhi.Broker
	if told == "" && hasMQTT(c) {
		told = ":" + strconv.Itoa(max(1, mqttPort(c)))
	}
	if c.PublicURL != "" {
		if err := xiaozhi.CheckPublicURL(c.PublicURL); err != nil {
			d.fail(msgCheckHome.With(), i18n.Message("boards cannot use the public URL: %v").In(d.sh.lang, err),
				adviceBoardURL)
			return
		}
	}
	_, err := xiaozhi.NewDiscovery(xiaozhi.DiscoveryOptions{
		Accounts: b.Accounts, Logger: d.sh.logger(), PublicURL: c.PublicURL, Transport: c.XiaoZhi.Transport, MQTT: told,
	})
	if err != nil {
		d.fail(msgCheckHome.With(), d.errorText(err), adviceBoardConf)
		return
	}
	if err := checkCertificate(c, time.Now()); err != nil {
		d.warn(msgCheckHome.With(), msgHomeCert.In(d.sh.lang, singleLine(d.errorText(err))), adviceBoardCert)
	}
	if c.PublicURL != "" {
		d.checkBoardEndpoint(ctx, strings.TrimRight(c.PublicURL, "/")+xiaozhi.OTAPath)
		return
	}
	listen := c.Listen
	if at, err := app.FindRunning(c.Data); err == nil && at.Listen != "" {
		listen = at.Listen // it may have been started with other settings
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return // the check of the server reports it
	}
	if !awake && isLoopback(listen) {
		d.warn(msgCheckHome.With(), msgHomeHere.In(d.sh.lang, listen), adviceHomeHere, d.retryFlags)
		return
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = ownAddress()
	}
	scheme := "http://"
	if c.TLS.Cert != "" {
		scheme = "https://"
	}
	d.ok(msgCheckHome.With(), msgBoardsAt, scheme+net.JoinHostPort(host, port)+xiaozhi.OTAPath)
}

// isLoopback reports whether a listen address can be reached only from this machine.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// checkCertificate returns why boards do not trust the server's certificate, as far as known.
func checkCertificate(c *config.Config, now time.Time) error {
	if c.TLS.Cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
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

// checkBoardEndpoint checks that the public URL leads to the endpoint of boards, with requests like
// theirs: without following redirects.
func (d *doctor) checkBoardEndpoint(ctx context.Context, address string) {
	client := &http.Client{Timeout: probeLimit, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		d.fail(msgCheckHome.With(), d.errorText(err), adviceHomeAway)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		d.warn(msgCheckHome.With(), msgHomeAway.In(d.sh.lang, address, singleLine(unwrapURL(err).Error())), adviceAway)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // missing content shows below
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "boards call home here") {
		d.warn(msgCheckHome.With(), msgHomeAway.In(d.sh.lang, address, resp.Status), adviceHomeAway)
		return
	}
	d.ok(msgCheckHome.With(), msgBoardsAt, address)
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
	msgCheckMQTT  = i18n.Message("MQTT for boards")
	msgMQTTOff    = i18n.Message("is off: boards can be reached only while somebody talks with them")
	msgMQTTGood   = i18n.Message("boards connect to port %d")
	msgMQTTTLS    = i18n.Message("boards connect to port %d with TLS")
	msgMQTTPlain  = i18n.Message("boards would speak without TLS to the port %d, which wants it")
	msgMQTTSecret = i18n.Message("boards would speak TLS to port 8883, which has none")
	msgMQTTMute   = i18n.Message("there is no UDP port for sound: boards on MQTT cannot talk")
	msgPortHere   = i18n.Message("%s can be reached from this machine only")
	advicePort    = i18n.Message("Boards have to reach it: give the port alone, such as :1883.")
	adviceMQTTTLS = i18n.Message("Boards use TLS on port 8883 alone: give mqtt_tls :8883 and a public certificate, and mqtt another port.")
	adviceAudio   = i18n.Message("Set xiaozhi.audio, such as :8884, and let UDP through the firewall.")
)

// mqttPort returns the port that the server announces to boards.
func mqttPort(c *config.Config) int {
	x := c.XiaoZhi
	if x.Broker != "" {
		a, _ := wire.ParseEndpoint(x.Broker) // errors are reported elsewhere
		return a.Port
	}
	if u, err := url.Parse(x.Join); x.Join != "" && err == nil {
		switch port, _ := strconv.Atoi(u.Port()); {
		case port != 0:
			return port
		case u.Scheme == "mqtts" || u.Scheme == "wss":
			return tlsPort
		}
		return 1883
	}
	address := x.MQTTTLS
	if address == "" {
		address = x.MQTT
	}
	return portOf(address)
}

// portOf returns the port of a listen address; 0 means any free one.
func portOf(address string) int {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	return port
}

// tlsPort is the only port on which boards use TLS.
const tlsPort = 8883

// boardMQTT checks that boards use MQTT as the server expects; wanted means that an owner has
// chosen MQTT for a board.
func (d *doctor) boardMQTT(wanted bool) {
	c, x := d.settings, d.settings.XiaoZhi
	if !hasMQTT(c) {
		if x.Transport != store.TransportMQTT && !wanted { // reported elsewhere
			d.ok(msgCheckMQTT.With(), msgMQTTOff)
		}
		return
	}
	port := mqttPort(c)
	theirs := x.Broker != "" || x.Join != "" // the broker may have any settings
	switch {
	case x.MQTTTLS != "" && port != tlsPort && !theirs:
		d.fail(msgCheckMQTT.With(), msgMQTTPlain.In(d.sh.lang, port), adviceMQTTTLS)
	case x.MQTTTLS == "" && port == tlsPort && !theirs:
		d.fail(msgCheckMQTT.With(), msgMQTTSecret.In(d.sh.lang), adviceMQTTTLS)
	case x.Audio == "":
		d.fail(msgCheckMQTT.With(), msgMQTTMute.In(d.sh.lang), adviceAudio)
	case !theirs && x.MQTTTLS == "" && isLoopback(x.MQTT):
		d.warn(msgCheckMQTT.With(), msgPortHere.In(d.sh.lang, x.MQTT), advicePort)
	case port == tlsPort:
		d.ok(msgCheckMQTT.With(), msgMQTTTLS, port)
	default:
		d.ok(msgCheckMQTT.With(), msgMQTTGood, port)
	}
}

const (
	msgCheckSound   = i18n.Message("sound of boards")
	msgSoundNowhere = i18n.Message("boards connect to another MQTT server, and cannot be told where their sound goes")
	msgSoundNAT     = i18n.Message("%s is not an address of this machine (NAT, or a proxy): boards would be told an inner one")
	msgSoundGood    = i18n.Message("UDP %s")
	adviceSound     = i18n.Message("Set xiaozhi.audio_host to the IPv4 address at which boards reach the UDP port.")
)

// boardSound checks that boards can be given an address for audio.
func (d *doctor) boardSound(ctx context.Context) {
	x := d.settings.XiaoZhi
	if x.Audio == "" {
		return
	}
	if isLoopback(x.Audio) {
		d.warn(msgCheckSound.With(), msgPortHere.In(d.sh.lang, x.Audio), advicePort)
		return
	}
	if x.Join != "" && x.AudioHost == "" {
		d.fail(msgCheckSound.With(), msgSoundNowhere.In(d.sh.lang), adviceSound)
		return
	}
	if u, err := url.Parse(d.settings.PublicURL); err == nil && x.AudioHost == "" && d.settings.PublicURL != "" &&
		isOtherHost(ctx, u.Hostname()) {
		d.warn(msgCheckSound.With(), msgSoundNAT.In(d.sh.lang, u.Hostname()), adviceSound)
		return
	}
	d.ok(msgCheckSound.With(), msgSoundGood, net.JoinHostPort(x.AudioHost, strconv.Itoa(soundPort(x))))
}

// soundPort returns the port for audio that is announced to boards.
func soundPort(x config.XiaoZhi) int {
	if x.AudioPort != 0 {
		return x.AudioPort
	}
	return portOf(x.Audio)
}

// isOtherHost reports whether a host is known to have none of this machine's addresses.
func isOtherHost(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
	own, err2 := net.InterfaceAddrs()
	if err != nil || err2 != nil || len(found) == 0 {
		return false
	}
	return !slices.ContainsFunc(found, func(a netip.Addr) bool {
		return slices.ContainsFunc(own, func(o net.Addr) bool {
			n, ok := o.(*net.IPNet)
			return ok && n.IP.Equal(a.Unmap().AsSlice())
		})
	})
}

const (
	msgCheckFirmware  = i18n.Message("firmware for boards")
	msgFirmwareFiles  = i18n.Message("files: %d")
	msgFirmwareNone   = i18n.Message("there is none in %s")
	msgFirmwareBad    = i18n.Message("%s is offered to no board")
	adviceFirmware    = i18n.Message("A name is like bread-compact-wifi-2.4.3.bin: family, dash, digits and dots; and the file is not empty.")
	adviceFirmwareDir = i18n.Message("See whether xiaozhi.firmware is right, and let the account that runs the server read it.")
)

// boardFirmware checks the directory with firmware.
func (d *doctor) boardFirmware() {
	folder := d.settings.XiaoZhi.Firmware
	if folder == "" {
		return
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		d.fail(msgCheckFirmware.With(), d.errorText(err), adviceFirmwareDir)
		return
	}
	usable := 0
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "."): // not meant for boards
		case isOfferable(e):
			usable++
		default:
			d.warn(msgCheckFirmware.With(), msgFirmwareBad.In(d.sh.lang, e.Name()), adviceFirmware)
		}
	}
	if usable == 0 {
		d.warn(msgCheckFirmware.With(), msgFirmwareNone.In(d.sh.lang, folder), adviceFirmware)
		return
	}
	d.ok(msgCheckFirmware.With(), msgFirmwareFiles, usable)
}

// isOfferable reports whether a file can be offered to boards, by the server's rules.
func isOfferable(e os.DirEntry) bool {
	name, ok := strings.CutSuffix(e.Name(), ".bin")
	dash := strings.LastIndexByte(name, '-')
	info, err := e.Info()
	if !ok || dash < 1 || err != nil || !info.Mode().IsRegular() || info.Size() == 0 ||
		strings.ContainsAny(name, `/\:?#% `) {
		return false
	}
	_, err = wire.Newer(name[dash+1:], "0")
	return err == nil
}
