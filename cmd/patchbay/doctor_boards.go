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
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// staleAfter is after how long without contact a board is reported. Boards in use connect each time
// they are turned on.
const staleAfter = 30 * 24 * time.Hour

var (
	sayCheckBoards    = talk.Say{Zh: "语音设备", En: "voice boards"}
	sayBoardsGood     = talk.Say{Zh: "已批准 %d 台，在线 %d 台", En: "%d approved, %d awake"}
	sayBoardsApproved = talk.Say{Zh: "已批准 %d 台", En: "%d approved"}
	sayBoardsWaiting  = talk.Say{Zh: "有 %d 台正在显示验证码", En: "boards that show a code: %d"}
	sayBoardsUnseen   = talk.Say{Zh: "有 %d 台超过 30 天没有出现，例如 %s",
		En: "boards that were not seen for 30 days: %d, such as %s"}
	sayBoardsUnbound = talk.Say{Zh: "有 %d 台没有绑定机器人，例如 %s", En: "boards that no bot answers: %d, such as %s"}
	sayBoardsNoMQTT  = talk.Say{Zh: "有 %d 台设为用 MQTT，但没有 MQTT 端口，例如 %s",
		En: "boards that are set to MQTT, which is not on: %d, such as %s"}

	adviceApprove = talk.Say{Zh: "输入屏幕上的六位数字：patchbay device approve 验证码%s",
		En: "Type in the six digits on its display: patchbay device approve CODE%s"}
	adviceUnseen = talk.Say{Zh: "打开它，或移除：patchbay device rm %d%s",
		En: "Turn it on, or remove it: patchbay device rm %d%s"}
	adviceUnbound = talk.Say{Zh: "绑定一个：patchbay device bind %d 机器人%s",
		En: "Give it one: patchbay device bind %d BOT%s"}
	adviceNoMQTT = talk.Say{Zh: "设置 xiaozhi.mqtt 和 xiaozhi.audio，或改回：patchbay device set %d transport=default%s",
		En: "Set xiaozhi.mqtt and xiaozhi.audio, or take it back: patchbay device set %d transport=default%s"}
	adviceBoardURL = talk.Say{Zh: "设备会改连到它访问服务时用的地址；请给 public_url 一个名称或 IPv4 地址。",
		En: "Boards are told the address at which they found the server instead; give public_url a name or an IPv4 address."}
	adviceBoardConf = talk.Say{Zh: "否则服务无法启动；见 docs/boards.zh-CN.md。",
		En: "The server does not start with this; see docs/boards.md."}
)

// boards checks what concerns boards. Without any board or setting for them there is nothing to
// check.
func (d *doctor) boards(ctx context.Context, b *app.Base) {
	rows, err := localDevices(ctx, d.sh, b)
	if err != nil {
		d.fail(sayCheckBoards, d.errorText(err), adviceLook)
		return
	}
	waiting, err := b.Store.Devices.Waiting(ctx, time.Now())
	if err != nil {
		d.fail(sayCheckBoards, d.errorText(err), adviceLook)
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

// boardList checks each board, and reports each problem once: there may be thousands of boards.
func (d *doctor) boardList(rows []deviceRow, waiting int) {
	awake, known := 0, true
	for _, r := range rows {
		if known = r.Online != nil; known && *r.Online {
			awake++
		}
	}
	if known {
		d.ok(sayCheckBoards, sayBoardsGood, len(rows), awake)
	} else {
		d.ok(sayCheckBoards, sayBoardsApproved, len(rows))
	}
	if waiting > 0 {
		d.warn(sayCheckBoards, sayBoardsWaiting.In(d.sh.lang, waiting), adviceApprove, d.retryFlags)
	}
	for _, c := range []struct {
		found, advice talk.Say
		is            func(deviceRow) bool
	}{
		{sayBoardsUnseen, adviceUnseen, func(r deviceRow) bool {
			return time.Since(r.Seen) > staleAfter && (r.Online == nil || !*r.Online)
		}},
		{sayBoardsUnbound, adviceUnbound, func(r deviceRow) bool { return r.Bot == 0 }},
		{sayBoardsNoMQTT, adviceNoMQTT, func(r deviceRow) bool {
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
			d.warn(sayCheckBoards, c.found.In(d.sh.lang, len(with), with[0].Name), c.advice, with[0].Number,
				d.retryFlags)
		}
	}
}

// hasMQTT reports whether boards can be given an MQTT server.
func hasMQTT(c *config.Config) bool {
	return c.XiaoZhi.MQTT+c.XiaoZhi.MQTTTLS+c.XiaoZhi.Broker+c.XiaoZhi.Join != ""
}

var (
	sayCheckHome   = talk.Say{Zh: "设备的服务器地址", En: "address for boards"}
	sayBoardsAt    = talk.Say{Zh: "在设备的 Wi-Fi 页面填入 %s", En: "%s is for the Wi-Fi page of boards"}
	sayHomeHere    = talk.Say{Zh: "服务只监听 %s，设备连不上", En: "the server listens on %s only, which boards cannot reach"}
	sayHomeAway    = talk.Say{Zh: "%s 的回答不对：%s", En: "%s does not answer as it should: %s"}
	sayHomeCert    = talk.Say{Zh: "设备不信任证书：%s", En: "boards do not trust the certificate: %s"}
	adviceHomeHere = talk.Say{Zh: "运行 patchbay serve --listen :3000%s，或设置反向代理和 public_url。",
		En: "Run patchbay serve --listen :3000%s, or set a reverse proxy up, and public_url."}
	adviceHomeAway = talk.Say{Zh: "设备不跟随跳转，只接受状态 200；检查反向代理。",
		En: "Boards follow no redirect and take the status 200 alone; see what the reverse proxy does."}
	adviceBoardCert = talk.Say{Zh: "设备只信任公共机构签发的证书；局域网里可以用 http。",
		En: "They trust those of public authorities alone; within a network of your own, http will do."}
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
			d.fail(sayCheckHome, talk.Say{Zh: "语音设备不能使用公开网址：%v",
				En: "boards cannot use the public URL: %v"}.In(d.sh.lang, err), adviceBoardURL)
			return
		}
	}
	_, err := xiaozhi.NewDiscovery(xiaozhi.DiscoveryOptions{
		Accounts: b.Accounts, Logger: d.sh.logger(), PublicURL: c.PublicURL, Transport: c.XiaoZhi.Transport, MQTT: told,
	})
	if err != nil {
		d.fail(sayCheckHome, d.errorText(err), adviceBoardConf)
		return
	}
	if err := checkCertificate(c, time.Now()); err != nil {
		d.warn(sayCheckHome, sayHomeCert.In(d.sh.lang, singleLine(d.errorText(err))), adviceBoardCert)
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
		d.warn(sayCheckHome, sayHomeHere.In(d.sh.lang, listen), adviceHomeHere, d.retryFlags)
		return
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = ownAddress()
	}
	scheme := "http://"
	if c.TLS.Cert != "" {
		scheme = "https://"
	}
	d.ok(sayCheckHome, sayBoardsAt, scheme+net.JoinHostPort(host, port)+xiaozhi.OTAPath)
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
		d.fail(sayCheckHome, d.errorText(err), adviceHomeAway)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		d.warn(sayCheckHome, sayHomeAway.In(d.sh.lang, address, singleLine(unwrapURL(err).Error())), adviceAway)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // missing content shows below
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "boards call home here") {
		d.warn(sayCheckHome, sayHomeAway.In(d.sh.lang, address, resp.Status), adviceHomeAway)
		return
	}
	d.ok(sayCheckHome, sayBoardsAt, address)
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

var (
	sayCheckMQTT = talk.Say{Zh: "设备的 MQTT", En: "MQTT for boards"}
	sayMQTTOff   = talk.Say{Zh: "没有打开：设备只在对话时可达",
		En: "is off: boards can be reached only while somebody talks with them"}
	sayMQTTGood  = talk.Say{Zh: "设备连接端口 %d", En: "boards connect to port %d"}
	sayMQTTTLS   = talk.Say{Zh: "设备用 TLS 连接端口 %d", En: "boards connect to port %d with TLS"}
	sayMQTTPlain = talk.Say{Zh: "设备会不加密地连接 TLS 端口 %d",
		En: "boards would speak without TLS to the port %d, which wants it"}
	sayMQTTSecret = talk.Say{Zh: "设备会用 TLS 连接 8883 端口，而那里没有 TLS",
		En: "boards would speak TLS to port 8883, which has none"}
	sayMQTTMute = talk.Say{Zh: "没有声音用的 UDP 端口，用 MQTT 的设备不能说话",
		En: "there is no UDP port for sound: boards on MQTT cannot talk"}
	sayPortHere = talk.Say{Zh: "%s 只有本机能连", En: "%s can be reached from this machine only"}
	advicePort  = talk.Say{Zh: "设备要能连到：只写端口，例如 :1883。",
		En: "Boards have to reach it: give the port alone, such as :1883."}
	adviceMQTTTLS = talk.Say{Zh: "设备只在 8883 端口用 TLS：mqtt_tls 用 :8883 加公共证书，mqtt 用别的端口。",
		En: "Boards use TLS on port 8883 alone: give mqtt_tls :8883 and a public certificate, and mqtt another port."}
	adviceAudio = talk.Say{Zh: "例如 xiaozhi.audio: \":8884\"，防火墙放行 UDP。",
		En: "Set xiaozhi.audio, such as :8884, and let UDP through the firewall."}
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
			d.ok(sayCheckMQTT, sayMQTTOff)
		}
		return
	}
	port := mqttPort(c)
	theirs := x.Broker != "" || x.Join != "" // the broker may have any settings
	switch {
	case x.MQTTTLS != "" && port != tlsPort && !theirs:
		d.fail(sayCheckMQTT, sayMQTTPlain.In(d.sh.lang, port), adviceMQTTTLS)
	case x.MQTTTLS == "" && port == tlsPort && !theirs:
		d.fail(sayCheckMQTT, sayMQTTSecret.In(d.sh.lang), adviceMQTTTLS)
	case x.Audio == "":
		d.fail(sayCheckMQTT, sayMQTTMute.In(d.sh.lang), adviceAudio)
	case !theirs && x.MQTTTLS == "" && isLoopback(x.MQTT):
		d.warn(sayCheckMQTT, sayPortHere.In(d.sh.lang, x.MQTT), advicePort)
	case port == tlsPort:
		d.ok(sayCheckMQTT, sayMQTTTLS, port)
	default:
		d.ok(sayCheckMQTT, sayMQTTGood, port)
	}
}

var (
	sayCheckSound   = talk.Say{Zh: "设备的声音", En: "sound of boards"}
	saySoundNowhere = talk.Say{Zh: "设备连的是别人的 MQTT 服务器，不知道把声音送到哪里",
		En: "boards connect to another MQTT server, and cannot be told where their sound goes"}
	saySoundNAT = talk.Say{Zh: "%s 不是本机的地址（NAT 或代理），设备会被告知内部地址",
		En: "%s is not an address of this machine (NAT, or a proxy): boards would be told an inner one"}
	saySoundGood = talk.Say{Zh: "UDP %s", En: "UDP %s"}
	adviceSound  = talk.Say{Zh: "设置 xiaozhi.audio_host：设备能把 UDP 送到的 IPv4 地址。",
		En: "Set xiaozhi.audio_host to the IPv4 address at which boards reach the UDP port."}
)

// boardSound checks that boards can be given an address for audio.
func (d *doctor) boardSound(ctx context.Context) {
	x := d.settings.XiaoZhi
	if x.Audio == "" {
		return
	}
	if isLoopback(x.Audio) {
		d.warn(sayCheckSound, sayPortHere.In(d.sh.lang, x.Audio), advicePort)
		return
	}
	if x.Join != "" && x.AudioHost == "" {
		d.fail(sayCheckSound, saySoundNowhere.In(d.sh.lang), adviceSound)
		return
	}
	if u, err := url.Parse(d.settings.PublicURL); err == nil && x.AudioHost == "" && d.settings.PublicURL != "" &&
		isOtherHost(ctx, u.Hostname()) {
		d.warn(sayCheckSound, saySoundNAT.In(d.sh.lang, u.Hostname()), adviceSound)
		return
	}
	d.ok(sayCheckSound, saySoundGood, net.JoinHostPort(x.AudioHost, strconv.Itoa(soundPort(x))))
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

var (
	sayCheckFirmware = talk.Say{Zh: "设备固件", En: "firmware for boards"}
	sayFirmwareFiles = talk.Say{Zh: "%d 个文件", En: "files: %d"}
	sayFirmwareNone  = talk.Say{Zh: "%s 里没有固件文件", En: "there is none in %s"}
	sayFirmwareBad   = talk.Say{Zh: "%s 不会提供给任何设备", En: "%s is offered to no board"}
	adviceFirmware   = talk.Say{Zh: "文件名要像 bread-compact-wifi-2.4.3.bin：系列、短横线、数字和点；不能是空文件。",
		En: "A name is like bread-compact-wifi-2.4.3.bin: family, dash, digits and dots; and the file is not empty."}
	adviceFirmwareDir = talk.Say{Zh: "检查 xiaozhi.firmware，并让运行服务的账户可以读。",
		En: "See whether xiaozhi.firmware is right, and let the account that runs the server read it."}
)

// boardFirmware checks the directory with firmware.
func (d *doctor) boardFirmware() {
	folder := d.settings.XiaoZhi.Firmware
	if folder == "" {
		return
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		d.fail(sayCheckFirmware, d.errorText(err), adviceFirmwareDir)
		return
	}
	usable := 0
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "."): // not meant for boards
		case isOfferable(e):
			usable++
		default:
			d.warn(sayCheckFirmware, sayFirmwareBad.In(d.sh.lang, e.Name()), adviceFirmware)
		}
	}
	if usable == 0 {
		d.warn(sayCheckFirmware, sayFirmwareNone.In(d.sh.lang, folder), adviceFirmware)
		return
	}
	d.ok(sayCheckFirmware, sayFirmwareFiles, usable)
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
