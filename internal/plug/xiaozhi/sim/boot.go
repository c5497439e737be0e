package sim

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
)

const (
	// otaTimeout is how long a board waits for an OTA response (esp-ml307 include/http_client.h,
	// timeout_ms_), and otaLatencyLimit the response time above which the server is at fault, which
	// is this package's.
	otaTimeout      = 30 * time.Second
	otaLatencyLimit = 300 * time.Millisecond
	// otaRetryPause is the first pause between two tries; each next one is twice as long
	// (xiaozhi-esp32 main/application.cc, Application::CheckNewVersion).
	otaRetryPause = 10 * time.Second
	// activatePolls is the number of activation requests before the next OTA request; the pauses
	// follow a status 202 and an error (xiaozhi-esp32 main/application.cc,
	// Application::CheckNewVersion).
	activatePolls = 10
	pauseNotYet   = 3 * time.Second
	pauseError    = 10 * time.Second
	// maxUpgrades limits the upgrades in one boot.
	maxUpgrades = 3
)

// Boot turns the board on, or off and on: it sends OTA requests, shows its activation code until
// the code is entered, upgrades the firmware, and connects to MQTT if configured. The error is a
// [Crash] for responses that real boards do not survive.
func (b *Board) Boot(ctx context.Context) error {
	b.mu.Lock()
	if b.ctx.Err() != nil {
		b.mu.Unlock()
		return ErrClosed
	}
	b.dropAll()
	b.current, b.vision = nil, visionTarget{}
	b.state, b.entries = Starting, nil
	b.setState(Activating)
	b.report.Boots++
	b.mu.Unlock()
	return b.onLoop(ctx, b.boot)
}

func (b *Board) boot(ctx context.Context) error {
	activated := false
	for upgrades := 0; ; {
		a, err := b.callHome(ctx)
		if err != nil {
			return err
		}
		if a.Firmware.URL != "" {
			newer, err := b.upgrade(ctx, a.Firmware)
			if err != nil {
				return err
			}
			if newer {
				if upgrades++; upgrades >= maxUpgrades {
					b.reportViolation("C20", "the firmware is never the right one")
					return &Crash{"there is always newer firmware"}
				}
				continue
			}
		}
		if a.Activation == nil || a.Activation.Code == "" && a.Activation.Challenge == "" {
			break
		}
		if activated {
			b.reportViolation("C1", "there is an activation after the activation")
		}
		if activated, err = b.activate(ctx, *a.Activation); err != nil {
			return err
		}
	}
	b.mu.Lock()
	b.setState(Idle)
	overMQTT := b.overMQTT
	b.mu.Unlock()
	if overMQTT {
		return b.connectMQTT(ctx)
	}
	return nil
}

func (b *Board) reportViolation(check, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.violate(check, format, args...)
}

// callHome sends OTA requests until one succeeds, at most Options.Tries times.
func (b *Board) callHome(ctx context.Context) (wire.OTAResponse, error) {
	pause := netx.Backoff{First: otaRetryPause}
	for try := 1; ; try++ {
		a, err := b.callOnce(ctx)
		var crash *Crash
		if err == nil || errors.As(err, &crash) || try >= b.opt.Tries {
			return a, err
		}
		if err := netx.Wait(ctx, b.scaled(pause.Next())); err != nil {
			return a, err
		}
	}
}

// callOnce sends one OTA request, and stores the configuration in the response.
func (b *Board) callOnce(ctx context.Context) (wire.OTAResponse, error) {
	begin := time.Now()
	res, err := b.do(ctx, request{method: http.MethodPost, url: b.opt.OTA, header: b.otaHeaders(), body: b.otaBody(),
		limit: otaTimeout})
	if err != nil {
		if ctx.Err() == nil {
			b.reportViolation("C1", "the call home fails: %v", err)
		}
		return wire.OTAResponse{}, fmt.Errorf("the call home: %w", err)
	}
	took := time.Since(begin)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report.CallHome = took
	if took > otaLatencyLimit+b.opt.Slack {
		b.violate("C1", "the answer to the call home takes %v", took.Round(time.Millisecond))
	}
	if res.status != http.StatusOK {
		b.violate("C1", "the answer to the call home has the status %d", res.status)
		return wire.OTAResponse{}, fmt.Errorf("the call home: status %d", res.status)
	}
	for _, fault := range wire.CheckOTAResponse(res.body) {
		b.violate("C1", "%s", fault)
	}
	return b.applyAnswer(res.body)
}

// applyAnswer applies an OTA response as the firmware does. Requires b.mu.
func (b *Board) applyAnswer(body []byte) (wire.OTAResponse, error) {
	if len(body) >= wire.MaxHTTPBody {
		return wire.OTAResponse{}, &Crash{"the answer to the call home is too long"}
	}
	var sections map[string]json.RawMessage
	if json.Unmarshal(body, &sections) != nil {
		return wire.OTAResponse{}, errors.New("the answer to the call home is no JSON object")
	}
	if err := merge(&b.flash.websocket, sections["websocket"]); err != nil {
		return wire.OTAResponse{}, err
	}
	if err := merge(&b.flash.mqtt, sections["mqtt"]); err != nil {
		return wire.OTAResponse{}, err
	}
	a, err := wire.ParseOTAResponse(body)
	if err != nil {
		return a, err
	}
	if a.Firmware.Version != "" && a.Firmware.URL != "" {
		if _, err := wire.Newer(a.Firmware.Version, b.firmware); err != nil {
			return a, &Crash{err.Error()}
		}
	}
	b.overMQTT = a.MQTT != nil || a.WebSocket == nil && len(b.flash.mqtt) > 0
	if a.MQTT == nil && a.WebSocket == nil && a.Activation == nil && !b.overMQTT {
		return a, errors.New("the answer to the call home says nowhere to connect to")
	}
	return a, nil
}

// otaHeaders returns the headers of an OTA request.
func (b *Board) otaHeaders() [][2]string {
	version := "1"
	if b.opt.Serial != "" {
		version = "2"
	}
	h := append([][2]string{{wire.HeaderActivation, version}}, b.identity()...)
	if b.opt.Serial != "" {
		h = append(h, [2]string{wire.HeaderSerial, b.opt.Serial})
	}
	return append(h, [2]string{"User-Agent", b.userAgent()}, [2]string{"Accept-Language", b.opt.Lang},
		[2]string{"Content-Type", "application/json"})
}

// otaBody returns the body of an OTA request.
func (b *Board) otaBody() []byte {
	const template = `{"version":2,"language":%q,"flash_size":16777216,"minimum_free_heap_size":"8318916","mac_address":%q,"uuid":%q,"chip_model_name":"esp32s3",` +
		`"chip_info":{"model":9,"cores":2,"revision":2,"features":18},"application":{"name":"xiaozhi","version":%q,"compile_time":"Aug  6 2026T10:00:00Z","idf_version":"v5.5.2","elf_sha256":%q},` +
		`"partition_table":[{"label":"nvs","type":1,"subtype":2,"address":36864,"size":16384},{"label":"ota_0","type":0,"subtype":16,"address":131072,"size":4128768}],"ota":{"label":"ota_0"},` +
		`"display":{"monochrome":false,"width":320,"height":240},"board":{"type":%q,"name":%q,"manufacturer":"sim","ssid":"home","rssi":-52,"channel":6,"ip":"192.168.1.77","mac":%q}}`
	return fmt.Appendf(nil, template, b.opt.Lang, b.opt.MAC, b.opt.UUID, b.firmware, b.build, b.opt.Name, b.opt.Name,
		b.opt.MAC)
}

// activate shows the code and sends activation requests. It returns true when the board is
// approved, and false when another OTA request is due.
func (b *Board) activate(ctx context.Context, a wire.Activation) (bool, error) {
	b.mu.Lock()
	b.display(EventCode, a.Code)
	b.mu.Unlock()
	for range activatePolls {
		pause := pauseError
		if a.Challenge != "" {
			res, err := b.do(ctx, request{
				method: http.MethodPost, url: strings.TrimSuffix(b.opt.OTA, "/") + "/activate", header: b.otaHeaders(),
				body: b.proof(a.Challenge), limit: otaTimeout,
			})
			switch {
			case err != nil:
			case res.status == http.StatusOK:
				return true, nil
			case res.status == http.StatusAccepted:
				pause = pauseNotYet
			default:
				b.reportViolation("C1", "the answer to activate has the status %d", res.status)
			}
		}
		if netx.Wait(ctx, b.scaled(pause)) != nil {
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

// proof returns the response to an activation challenge (xiaozhi-esp32 main/ota.cc,
// Ota::GetActivationPayload).
func (b *Board) proof(challenge string) []byte {
	if b.opt.Serial == "" {
		return []byte("{}")
	}
	mac := hmac.New(sha256.New, b.opt.Key)
	mac.Write([]byte(challenge))
	body, _ := json.Marshal(wire.ActivationProof{Algorithm: "hmac-sha256", Serial: b.opt.Serial, Challenge: challenge,
		HMAC: hex.EncodeToString(mac.Sum(nil))})
	return body
}

// upgrade installs firmware if it is newer or forced (xiaozhi-esp32 main/ota.cc,
// Ota::CheckVersion). It reports whether the firmware is newer now.
func (b *Board) upgrade(ctx context.Context, f wire.Firmware) (bool, error) {
	newer, err := wire.Newer(f.Version, b.firmware)
	if err != nil {
		return false, &Crash{err.Error()}
	}
	if !newer && f.Force != 1 {
		return false, nil
	}
	b.mu.Lock()
	b.setState(Upgrading)
	b.event(EventUpgrade, f.Version)
	b.mu.Unlock()
	err = b.download(ctx, f.URL)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.firmware = f.Version
	}
	b.setState(Activating)
	return err == nil && newer, nil // a failed upgrade changes nothing
}

// download downloads firmware and discards it.
func (b *Board) download(ctx context.Context, url string) error {
	res, err := b.do(ctx, request{method: http.MethodGet, url: url, header: [][2]string{{"User-Agent", b.userAgent()}},
		limit: time.Minute})
	switch {
	case err != nil:
	case res.status != http.StatusOK:
		err = fmt.Errorf("the status is %d", res.status)
	case res.length <= 0:
		err = errors.New("there is no Content-Length")
	}
	if err != nil {
		b.reportViolation("C20", "the firmware cannot be fetched: %v", err)
	}
	return err
}

// reboot turns the board off and on in the background.
func (b *Board) reboot() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() == nil {
		b.wg.Go(func() { _ = b.Boot(b.ctx) }) // violations are in the report
	}
}

// Probe tests requests that a server must tolerate or refuse: OTA requests by GET and with an empty
// or odd body, and connections with wrong tokens or those of another board. The board must have
// booted.
func (b *Board) Probe(ctx context.Context) error {
	for _, r := range []request{
		{method: http.MethodGet, url: b.opt.OTA, limit: otaTimeout},
		{method: http.MethodPost, url: b.opt.OTA, header: b.otaHeaders(), body: []byte("{}"), limit: otaTimeout},
		{method: http.MethodPost, url: b.opt.OTA, header: b.otaHeaders(),
			body: []byte(`{"version":"2","application":7,"board":[]}`), limit: otaTimeout},
	} {
		res, err := b.do(ctx, r)
		if err != nil {
			return err
		}
		if res.status != http.StatusOK {
			b.reportViolation("C1", "%s with the body %q has the status %d", r.method, r.body, res.status)
		}
	}
	b.mu.Lock()
	socket, mqtt, overMQTT := b.flash.socketPlan(), b.flash.mqttPlan(), b.overMQTT
	b.mu.Unlock()
	if overMQTT {
		return b.probeMQTT(ctx, mqtt)
	}
	return b.probeSocket(ctx, socket)
}

func (b *Board) probeSocket(ctx context.Context, plan wire.WebSocketConfig) error {
	other := [][2]string{{wire.HeaderDevice, randomMAC()}, {wire.HeaderClient, b.opt.UUID}}
	wrong := plan
	wrong.Token = "wrong"
	for _, c := range []struct {
		what string
		plan wire.WebSocketConfig
		who  [][2]string
	}{{"a wrong token", wrong, b.identity()}, {"the token of another board", plan, other}} {
		s, err := b.connectSocket(ctx, c.plan, c.who)
		var no *handshakeError
		switch {
		case err == nil:
			s.drop(false)
			b.reportViolation("C2", "the server takes %s", c.what)
		case !errors.As(err, &no):
			return err
		case !strings.Contains(no.status, " 401"):
			b.reportViolation("C2", "the server refuses %s with %q", c.what, no.status)
		}
	}
	return nil
}

func (b *Board) probeMQTT(ctx context.Context, plan wire.MQTTConfig) error {
	conn, err := b.handshakeMQTT(ctx, plan, "wrong")
	if err == nil {
		dropTCP(conn, false)
		b.reportViolation("C2", "the broker takes a wrong password")
	}
	return ctx.Err()
}
