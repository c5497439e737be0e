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

	"patchbay/internal/plug/xiaozhi/wire"
)

const (
	// homeLimit is how long a board waits for the answer to its call home, and
	// homeQuick how long a server should take at most.
	homeLimit = 30 * time.Second
	homeQuick = 300 * time.Millisecond
	// homePause is the first pause between two tries; each is twice the one before.
	homePause = 10 * time.Second
	// activatePolls is how often a board asks whether the code was typed in before it
	// calls home again, and the pauses are those after "not yet" and after an error.
	activatePolls = 10
	pauseNotYet   = 3 * time.Second
	pauseError    = 10 * time.Second
	// maxUpgrades bounds how often firmware may be replaced in one boot.
	maxUpgrades = 3
)

// Boot turns the board on, or off and on: it calls home, shows its activation code
// until that was typed in, takes new firmware, and connects to MQTT if that is what
// it was told. A [Crash] is an answer that real boards do not survive.
func (b *Board) Boot(ctx context.Context) error {
	b.mu.Lock()
	if b.ctx.Err() != nil {
		b.mu.Unlock()
		return ErrClosed
	}
	b.dropAll()
	b.current, b.vision = nil, vision{}
	b.state, b.entries = Starting, nil
	b.set(Activating)
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
					b.complain("C20", "the firmware is never the right one")
					return &Crash{"there is always newer firmware"}
				}
				continue
			}
		}
		if a.Activation == nil || a.Activation.Code == "" && a.Activation.Challenge == "" {
			break
		}
		if activated {
			b.complain("C1", "there is an activation after the activation")
		}
		if activated, err = b.activate(ctx, *a.Activation); err != nil {
			return err
		}
	}
	b.mu.Lock()
	b.set(Idle)
	overMQTT := b.overMQTT
	b.mu.Unlock()
	if overMQTT {
		return b.connectMQTT(ctx)
	}
	return nil
}

func (b *Board) complain(check, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.violate(check, format, args...)
}

// callHome calls until there is an answer.
func (b *Board) callHome(ctx context.Context) (wire.Answer, error) {
	pause := homePause
	for try := 1; ; try++ {
		a, err := b.callOnce(ctx)
		var crash *Crash
		if err == nil || errors.As(err, &crash) || try >= b.opt.Tries {
			return a, err
		}
		if !sleep(ctx, b.scaled(pause)) {
			return a, context.Cause(ctx)
		}
		pause *= 2
	}
}

// callOnce calls once, and keeps what the answer says.
func (b *Board) callOnce(ctx context.Context) (wire.Answer, error) {
	begin := time.Now()
	res, err := b.do(ctx, request{method: http.MethodPost, url: b.opt.OTA, header: b.homeHeaders(), body: b.about(), limit: homeLimit})
	if err != nil {
		if ctx.Err() == nil {
			b.complain("C1", "the call home fails: %v", err)
		}
		return wire.Answer{}, fmt.Errorf("the call home: %w", err)
	}
	took := time.Since(begin)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report.CallHome = took
	if took > homeQuick+b.opt.Slack {
		b.violate("C1", "the answer to the call home takes %v", took.Round(time.Millisecond))
	}
	if res.status != http.StatusOK {
		b.violate("C1", "the answer to the call home has the status %d", res.status)
		return wire.Answer{}, fmt.Errorf("the call home: status %d", res.status)
	}
	for _, fault := range wire.CheckAnswer(res.body) {
		b.violate("C1", "%s", fault)
	}
	return b.keep(res.body)
}

// keep takes an answer as the firmware does. The caller holds b.mu.
func (b *Board) keep(body []byte) (wire.Answer, error) {
	if len(body) >= wire.MaxAnswer {
		return wire.Answer{}, &Crash{"the answer to the call home is too long"}
	}
	var sections map[string]json.RawMessage
	if json.Unmarshal(body, &sections) != nil {
		return wire.Answer{}, errors.New("the answer to the call home is no JSON object")
	}
	if err := merge(&b.flash.websocket, sections["websocket"]); err != nil {
		return wire.Answer{}, err
	}
	if err := merge(&b.flash.mqtt, sections["mqtt"]); err != nil {
		return wire.Answer{}, err
	}
	a, err := wire.ParseAnswer(body)
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

// homeHeaders are the headers of a call home.
func (b *Board) homeHeaders() [][2]string {
	version := "1"
	if b.opt.Serial != "" {
		version = "2"
	}
	h := append([][2]string{{wire.HeaderActivation, version}}, b.identity()...)
	if b.opt.Serial != "" {
		h = append(h, [2]string{wire.HeaderSerial, b.opt.Serial})
	}
	return append(h, [2]string{"User-Agent", b.userAgent()}, [2]string{"Accept-Language", b.opt.Lang}, [2]string{"Content-Type", "application/json"})
}

// about is what a board says of itself.
func (b *Board) about() []byte {
	const template = `{"version":2,"language":%q,"flash_size":16777216,"minimum_free_heap_size":"8318916","mac_address":%q,"uuid":%q,"chip_model_name":"esp32s3",` +
		`"chip_info":{"model":9,"cores":2,"revision":2,"features":18},"application":{"name":"xiaozhi","version":%q,"compile_time":"Aug  6 2026T10:00:00Z","idf_version":"v5.5.2","elf_sha256":%q},` +
		`"partition_table":[{"label":"nvs","type":1,"subtype":2,"address":36864,"size":16384},{"label":"ota_0","type":0,"subtype":16,"address":131072,"size":4128768}],"ota":{"label":"ota_0"},` +
		`"display":{"monochrome":false,"width":320,"height":240},"board":{"type":%q,"name":%q,"manufacturer":"sim","ssid":"home","rssi":-52,"channel":6,"ip":"192.168.1.77","mac":%q}}`
	return fmt.Appendf(nil, template, b.opt.Lang, b.opt.MAC, b.opt.UUID, b.firmware, b.build, b.opt.Name, b.opt.Name, b.opt.MAC)
}

// activate shows the code and asks until somebody typed it in, or until it is time
// to call home again.
func (b *Board) activate(ctx context.Context, a wire.Activation) (bool, error) {
	b.mu.Lock()
	b.display(EventCode, a.Code)
	b.mu.Unlock()
	for range activatePolls {
		pause := pauseError
		if a.Challenge != "" {
			res, err := b.do(ctx, request{
				method: http.MethodPost, url: strings.TrimSuffix(b.opt.OTA, "/") + "/activate", header: b.homeHeaders(), body: b.proof(a.Challenge), limit: homeLimit,
			})
			switch {
			case err != nil:
			case res.status == http.StatusOK:
				return true, nil
			case res.status == http.StatusAccepted:
				pause = pauseNotYet
			default:
				b.complain("C1", "the answer to activate has the status %d", res.status)
			}
		}
		if !sleep(ctx, b.scaled(pause)) {
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

// proof is the answer to a challenge.
func (b *Board) proof(challenge string) []byte {
	if b.opt.Serial == "" {
		return []byte("{}")
	}
	mac := hmac.New(sha256.New, b.opt.Key)
	mac.Write([]byte(challenge))
	body, _ := json.Marshal(wire.Proof{Algorithm: "hmac-sha256", Serial: b.opt.Serial, Challenge: challenge, HMAC: hex.EncodeToString(mac.Sum(nil))})
	return body
}

// upgrade takes firmware if it is newer, or has to be taken.
func (b *Board) upgrade(ctx context.Context, f wire.Firmware) (bool, error) {
	newer, err := wire.Newer(f.Version, b.firmware)
	if err != nil {
		return false, &Crash{err.Error()}
	}
	if !newer && f.Force != 1 {
		return false, nil
	}
	b.mu.Lock()
	b.set(Upgrading)
	b.event(EventUpgrade, f.Version)
	b.mu.Unlock()
	err = b.download(ctx, f.URL)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.firmware = f.Version
	}
	b.set(Activating)
	return err == nil && newer, nil // a board that cannot upgrade goes on as it is
}

// download fetches firmware.
func (b *Board) download(ctx context.Context, url string) error {
	res, err := b.do(ctx, request{method: http.MethodGet, url: url, header: [][2]string{{"User-Agent", b.userAgent()}}, limit: time.Minute})
	switch {
	case err != nil:
	case res.status != http.StatusOK:
		err = fmt.Errorf("the status is %d", res.status)
	case res.length <= 0:
		err = errors.New("there is no Content-Length")
	}
	if err != nil {
		b.complain("C20", "the firmware cannot be fetched: %v", err)
	}
	return err
}

// reboot turns the board off and on, when nobody waits for it.
func (b *Board) reboot() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() == nil {
		b.wg.Go(func() { _ = b.Boot(b.ctx) }) // what is wrong is in the report
	}
}

// Probe tries what a right server refuses, and what it has to put up with: the call
// home with an empty body, or as a browser makes it, and tokens that are wrong or
// belong to another board. The board must have booted.
func (b *Board) Probe(ctx context.Context) error {
	for _, r := range []request{
		{method: http.MethodGet, url: b.opt.OTA, limit: homeLimit},
		{method: http.MethodPost, url: b.opt.OTA, header: b.homeHeaders(), body: []byte("{}"), limit: homeLimit},
		{method: http.MethodPost, url: b.opt.OTA, header: b.homeHeaders(), body: []byte(`{"version":"2","application":7,"board":[]}`), limit: homeLimit},
	} {
		res, err := b.do(ctx, r)
		if err != nil {
			return err
		}
		if res.status != http.StatusOK {
			b.complain("C1", "%s with the body %q has the status %d", r.method, r.body, res.status)
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

func (b *Board) probeSocket(ctx context.Context, plan wire.SocketPlan) error {
	other := [][2]string{{wire.HeaderDevice, randomMAC()}, {wire.HeaderClient, b.opt.UUID}}
	wrong := plan
	wrong.Token = "wrong"
	for _, c := range []struct {
		what string
		plan wire.SocketPlan
		who  [][2]string
	}{{"a wrong token", wrong, b.identity()}, {"the token of another board", plan, other}} {
		s, err := b.connectSocket(ctx, c.plan, c.who)
		var no *refused
		switch {
		case err == nil:
			s.drop(false)
			b.complain("C2", "the server takes %s", c.what)
		case !errors.As(err, &no):
			return err
		case !strings.Contains(no.status, " 401"):
			b.complain("C2", "the server refuses %s with %q", c.what, no.status)
		}
	}
	return nil
}

func (b *Board) probeMQTT(ctx context.Context, plan wire.MQTTPlan) error {
	conn, err := b.shakeMQTT(ctx, plan, "wrong")
	if err == nil {
		dropTCP(conn, false)
		b.complain("C2", "the broker takes a wrong password")
	}
	return ctx.Err()
}
