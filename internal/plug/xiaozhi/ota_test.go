package xiaozhi_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// A new board until its first connection, on both databases and across a restart.
func TestFromTheBox(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		r := newRigOn(t, db, nil)
		h := headers(mac, uuid1)
		a := r.call(h, full)
		if a.Activation == nil || len(a.Activation.Code) != 6 ||
			!strings.Contains(a.Activation.Message, a.Activation.Code) ||
			!strings.Contains(a.Activation.Message, "配对码") {
			t.Fatalf("activation %+v", a.Activation)
		}
		if a.Time.Timestamp != r.clock.now().UnixMilli() || a.Time.Offset != 480 {
			t.Errorf("time %+v", a.Time)
		}
		if a.Firmware != (wire.Firmware{Version: "2.4.2"}) {
			t.Errorf("firmware %+v", a.Firmware)
		}
		if status := r.activate(h, "{}"); status != http.StatusAccepted {
			t.Errorf("before the code was typed in: %d", status)
		}
		// The server restarts before the code is entered.
		r.Close()
		db.Close()
		db = storetest.Open(t, o)
		r2 := newRigOn(t, db, nil)
		r2.bot = r.bot
		if again := r2.call(h, full); again.Activation == nil || again.Activation.Code != a.Activation.Code {
			t.Fatalf("after a restart: %+v, before %+v", again.Activation, a.Activation)
		}
		d := r2.approve(a)
		if d.Family != "bread-compact-wifi" || d.Article != "bread-compact-wifi-128x64" || d.Version != "2.4.2" ||
			d.Language != "zh-CN" || d.Address != "127.0.0.1" ||
			!strings.Contains(string(d.Features), `"width":320`) || d.Name != "bread-compact-wifi-128x64 eeff" {
			t.Errorf("kept %+v %s", d, d.Features)
		}
		if status := r2.activate(h, "{}"); status != http.StatusOK {
			t.Errorf("after the code was typed in: %d", status)
		}
		got := r2.call(h, full)
		if got.WebSocket == nil || got.WebSocket.URL != "ws://127.0.0.1:"+r2.port()+"/xiaozhi/v1/" ||
			got.WebSocket.Version != wire.FramingBare {
			t.Fatalf("websocket %+v", got.WebSocket)
		}
		if who, err := r2.accounts.CheckSocket(ctx, account.DeviceID{Kind: xiaozhi.Kind, Hardware: mac, Client: uuid1},
			got.WebSocket.Token); err != nil || who.Number != d.Number {
			t.Errorf("the token: %+v %v", who, err)
		}
		r2.counted("patchbay_xiaozhi_ota_requests_total", map[string]int{"waiting": 1, "approved": 1})
		r2.counted("patchbay_xiaozhi_activation_requests_total", map[string]int{"approved": 1})
		for _, l := range []*log{r.log, r2.log} {
			for _, secret := range []string{a.Activation.Code, a.Activation.Challenge, got.WebSocket.Token, uuid1} {
				if strings.Contains(l.String(), secret) {
					t.Errorf("the log has %q:\n%s", secret, l)
				}
			}
		}
	})
}

// A board gets MQTT if its owner or the server chose it and there is a broker, and never both
// transports.
func TestTransports(t *testing.T) {
	for _, c := range []struct{ server, broker, owner, endpoint string }{
		{"", "", "", ""},
		{"", "", store.TransportMQTT, ""}, // no broker
		{"", "mqtt.example.org", "", ""},
		{"", "mqtt.example.org", store.TransportMQTT, "mqtt.example.org"},
		{store.TransportMQTT, ":1883", "", "127.0.0.1:1883"},
		{store.TransportMQTT, "192.0.2.9:8883", store.TransportMQTT, "192.0.2.9:8883"},
		{store.TransportMQTT, ":1883", store.TransportSocket, ""},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			r := newRig(t, func(o *xiaozhi.DiscoveryOptions) {
				o.Transport, o.MQTT, o.AutoOwner, o.Keepalive, o.Framing = c.server, c.broker, "me", 90*time.Second,
					wire.FramingShort
			})
			h := headers(mac, uuid1)
			r.call(h, full)
			d, err := r.db.Devices.ByHardware(ctx, xiaozhi.Kind, mac)
			must(t, err)
			must(t, r.db.Devices.SetTransport(ctx, d.Number, c.owner))
			a := r.call(h, full)
			if c.endpoint == "" {
				if a.WebSocket == nil || a.WebSocket.Version != wire.FramingShort {
					t.Fatalf("%+v", a)
				}
				return
			}
			m := a.MQTT
			if m == nil || m.Endpoint != c.endpoint || m.Publish != "device-server" || m.Subscribe != "null" ||
				m.Keepalive != 90 {
				t.Fatalf("%+v", m)
			}
			login := account.MQTTLogin{ClientID: m.ClientID, Username: m.Username, Password: m.Password}
			if who, err := r.accounts.CheckMQTT(ctx, xiaozhi.Kind, login); err != nil || who.Number != d.Number {
				t.Errorf("the login: %+v %v", who, err)
			}
		})
	}
}

// The board is identified by the headers or by the body.
func TestLenient(t *testing.T) {
	r := newRig(t, func(o *xiaozhi.DiscoveryOptions) { o.CallsPerMinute = 1000 })
	for name, body := range map[string]string{
		"nothing": "", "object": "{}", "null": "null", "array": "[]", "text": `"x"`, "number": "7",
		"broken":      `{"application":`,
		"other types": `{"version":"2","language":7,"application":7,"board":[],"display":"x","flash_size":{}}`,
		"old":         `{"flash_size":4194304,"application":{"name":"xiaozhi","version":"1.5.9"},"board":{"type":"bread-compact-wifi"}}`,
		"long":        strings.Repeat("x", 300<<10), "binary": "\x00\xff\xfe",
		"zero bytes": `{"language":"\u0000zh","application":{"version":"\u00002"},"board":{"name":"a\u0000b\ud800","type":"\u0001"}}`,
		"long texts": `{"application":{"version":"` + strings.Repeat("9", 3000) + `"},"board":{"name":"` +
			strings.Repeat("é", 3000) + `"}}`,
		"beta": `{"application":{"version":"2.0.0-beta"}}`, "huge": `{"application":{"version":"99999999999.1"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			a := r.call(headers(mac, uuid1), body)
			if a.Activation == nil || a.Firmware.URL != "" {
				t.Errorf("%+v", a)
			}
			if _, err := wire.Newer(a.Firmware.Version, "0"); err != nil {
				t.Error(err)
			}
		})
	}
	r.t = t
	for name, h := range map[string]http.Header{
		"upper case": {"Device-Id": {"AA:BB:CC:DD:EE:FF"}, "Client-Id": {uuid1}},
		"dashes":     {"Device-Id": {"aa-bb-cc-dd-ee-ff"}, "Client-Id": {uuid1}},
		"bare":       {"Device-Id": {"aabbccddeeff"}, "Client-Id": {uuid1}},
		"body alone": {},
		"half":       {"Device-Id": {mac}},
		"bad header": {"Device-Id": {"nonsense"}, "Client-Id": {"a|b"}},
	} {
		if a := r.call(h, full); a.Activation == nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
	a := r.check(r.do(http.MethodPost, "/xiaozhi/ota?device-id="+mac+"&client-id="+uuid1, http.Header{}, ""))
	if a.Activation == nil {
		t.Errorf("by query: %+v", a)
	}
	if all, err := r.db.Devices.Waiting(ctx, r.clock.now()); err != nil || len(all) != 1 {
		t.Errorf("one board is %d: %v", len(all), err)
	}
	for name, h := range map[string]http.Header{
		"nobody":         {},
		"no client":      {"Device-Id": {mac}},
		"no device":      {"Client-Id": {uuid1}},
		"a short device": {"Device-Id": {"aa:bb:cc:dd:ee"}, "Client-Id": {uuid1}},
		"no hex":         {"Device-Id": {"aa:bb:cc:dd:ee:fg"}, "Client-Id": {uuid1}},
		"a long device":  {"Device-Id": {mac + ":00"}, "Client-Id": {uuid1}},
		"separators":     {"Device-Id": {mac}, "Client-Id": {"a@@@b"}},
		"a long client":  {"Device-Id": {mac}, "Client-Id": {strings.Repeat("a", 65)}},
	} {
		for _, path := range []string{"/xiaozhi/ota/", "/xiaozhi/ota/activate"} {
			if res := r.do(http.MethodPost, path, h, "{}"); res.status != http.StatusBadRequest {
				t.Errorf("%s: %s: %d %s", name, path, res.status, res.body)
			}
		}
	}
	if res := r.do(http.MethodPut, "/xiaozhi/ota/", headers(mac, uuid1),
		full); res.status != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", res.status)
	}
}

// People open the URL in a browser, with or without the slash.
func TestHealth(t *testing.T) {
	r := newRig(t, nil)
	for _, path := range []string{"/xiaozhi/ota", "/xiaozhi/ota/", "/xiaozhi/ota/activate"} {
		res := r.do(http.MethodGet, path, http.Header{}, "")
		if res.status != http.StatusOK || !strings.HasPrefix(res.header.Get("Content-Type"), "text/plain") ||
			!strings.Contains(string(res.body), "ws://127.0.0.1:"+r.port()+"/xiaozhi/v1/") {
			t.Errorf("%s: %d %v %s", path, res.status, res.header, res.body)
		}
		if res := r.do(http.MethodPost, path, headers(mac, uuid1), full); res.status >= 300 {
			t.Errorf("POST %s: %d", path, res.status)
		}
	}
	if all, err := r.db.Devices.Waiting(ctx, r.clock.now()); err != nil || len(all) != 1 {
		t.Errorf("%d boards: %v", len(all), err)
	}
}

// py-xiaozhi has its own version in a header, wraps its proof, and sends few members.
func TestPyXiaozhi(t *testing.T) {
	r := newRig(t, nil)
	h := headers(mac, uuid1)
	h.Set("Activation-Version", "2.0.3")
	h.Set("User-Agent", "bread-compact-wifi/py-xiaozhi-2.0.3")
	a := r.call(h, `{"application":{"version":"2.0.3","elf_sha256":"unknown"},"board":{"type":"bread-compact-wifi","name":"py-xiaozhi","ip":"192.168.1.5","mac":"`+mac+`"}}`)
	const proof = `{"algorithm":"hmac-sha256","serial_number":"SN-1234-aabbccddeeff","challenge":"x","hmac":"00"}`
	bodies := []string{`{"Payload":` + proof + `}`, proof, `{}`, ``, `nonsense`, strings.Repeat("y", 300<<10)}
	for _, body := range bodies {
		if status := r.activate(h, body); status != http.StatusAccepted {
			t.Errorf("%.20s: %d", body, status)
		}
	}
	d := r.approve(a)
	if d.Article != "py-xiaozhi" || d.Version != "2.0.3" {
		t.Errorf("%+v", d)
	}
	for _, body := range bodies {
		if status := r.activate(h, body); status != http.StatusOK {
			t.Errorf("%.20s: %d", body, status)
		}
	}
}

// The URLs in the response depend on the request's address, or on the public URL.
func TestPlaces(t *testing.T) {
	call := func(public, host, proto string) (answered, *rig) {
		r := newRig(t, func(o *xiaozhi.DiscoveryOptions) {
			o.AutoOwner, o.PublicURL, o.MQTT, o.Transport = "me", public, "", ""
		})
		h := headers(mac, uuid1)
		if host != "" {
			h.Set("Host", host)
		}
		if proto != "" {
			h.Set("X-Forwarded-Proto", proto)
		}
		return r.do(http.MethodPost, xiaozhi.OTAPath, h, full), r
	}
	for _, c := range []struct{ public, host, proto, want string }{
		{"", "10.0.0.5:3000", "", "ws://10.0.0.5:3000/xiaozhi/v1/"},
		{"", "board.local", "", "ws://board.local/xiaozhi/v1/"},
		{"", "board.example.org", "https", "wss://board.example.org/xiaozhi/v1/"},
		{"https://board.example.org", "10.0.0.5:3000", "", "wss://board.example.org/xiaozhi/v1/"},
		{"https://board.example.org:8443/", "", "", "wss://board.example.org:8443/xiaozhi/v1/"},
		{"http://10.0.0.5:3000/patch", "", "", "ws://10.0.0.5:3000/patch/xiaozhi/v1/"},
		{"https://board.example.org/a:b", "", "", "wss://board.example.org:443/a:b/xiaozhi/v1/"},
		{"http://board.example.org/a:b", "", "", "ws://board.example.org:80/a:b/xiaozhi/v1/"},
	} {
		res, r := call(c.public, c.host, c.proto)
		if a := r.check(res); a.WebSocket == nil || a.WebSocket.URL != c.want {
			t.Errorf("%+v: %+v", c, a.WebSocket)
		}
	}
	for _, host := range []string{"[::1]:3000", "user@host", "host:x", "host:0", "host:99999", "%41"} {
		if res, r := call("", host, ""); res.status == http.StatusOK {
			t.Errorf("%s: %d %s %s", host, res.status, res.body, r.log)
		}
	}
	base := newRig(t, nil)
	for _, public := range []string{"ws://x", "x", "https://u:p@x", "https://[::1]", "https://x?y", "https://x:0",
		"https://"} {
		if _, err := xiaozhi.NewDiscovery(xiaozhi.DiscoveryOptions{Accounts: base.accounts,
			PublicURL: public}); err == nil {
			t.Errorf("the public URL %q was taken", public)
		}
	}
	for _, o := range []xiaozhi.DiscoveryOptions{{Transport: store.TransportMQTT}, {Transport: "pigeon"}, {MQTT: ":0"},
		{MQTT: "[::1]:1883"}} {
		if _, err := xiaozhi.NewDiscovery(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// Over TLS, boards get wss URLs.
func TestTLS(t *testing.T) {
	r := newRig(t, func(o *xiaozhi.DiscoveryOptions) { o.AutoOwner = "me" })
	r.Close()
	r.StartTLSAgain()
	conn, err := tls.Dial("tcp", r.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn,
		"POST /xiaozhi/ota/ HTTP/1.1\r\nHost: %s\r\nDevice-Id: %s\r\nClient-Id: %s\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", r.Listener.Addr(), mac, uuid1)
	res := readAnswer(t, conn)
	if a := r.check(res); a.WebSocket == nil || a.WebSocket.URL != "wss://"+r.Listener.Addr().String()+"/xiaozhi/v1/" {
		t.Errorf("%+v", a.WebSocket)
	}
}

// A request with the address of an approved board, but another client id, gets no credentials, and
// the board keeps working.
func TestStranger(t *testing.T) {
	r := newRig(t, nil)
	h := headers(mac, uuid1)
	d := r.approve(r.call(h, full))
	token := r.call(h, full).WebSocket.Token
	claim := r.call(headers(mac, uuid2), full)
	if claim.Activation == nil {
		t.Fatalf("the stranger gets %+v", claim)
	}
	if status := r.activate(headers(mac, uuid2), "{}"); status != http.StatusAccepted {
		t.Errorf("the stranger is approved: %d", status)
	}
	if a := r.call(h, full); a.WebSocket == nil {
		t.Fatalf("the board gets %+v", a)
	}
	id := account.DeviceID{Kind: xiaozhi.Kind, Hardware: mac, Client: uuid1}
	if _, err := r.accounts.CheckSocket(ctx, id, token); err != nil {
		t.Errorf("the board's token: %v", err)
	}
	if !strings.Contains(r.log.String(), "erased or is another") {
		t.Errorf("the log says nothing:\n%s", r.log)
	}
	// The same board, erased by its owner, is approved again.
	if again := r.approve(claim); again.Number != d.Number || again.Name != d.Name || again.Owner != r.person {
		t.Errorf("approved again: %+v", again)
	}
	if a := r.call(headers(mac, uuid2), full); a.WebSocket == nil {
		t.Errorf("after that: %+v", a)
	}
	if _, err := r.accounts.CheckSocket(ctx, id, token); !account.Refused(err) {
		t.Errorf("the former token: %v", err)
	}
}

// A board whose code has expired gets another.
func TestCodeExpires(t *testing.T) {
	r := newRig(t, nil)
	h := headers(mac, uuid1)
	first := r.call(h, full)
	r.clock.add(account.DeviceCodeLife)
	if status := r.activate(h, "{}"); status != http.StatusAccepted {
		t.Errorf("with a code that expired: %d", status)
	}
	if _, err := r.accounts.ApproveDevice(ctx, account.NewDevice{Person: r.person,
		Code: first.Activation.Code}); err == nil {
		t.Error("a code that expired was taken")
	}
	second := r.call(h, full)
	if second.Activation == nil || second.Activation.Code == first.Activation.Code {
		t.Fatalf("the second code: %+v", second.Activation)
	}
	r.approve(second)
}

// Boards approved automatically belong to AutoOwner, and boards of other owners keep their owner.
func TestAuto(t *testing.T) {
	r := newRig(t, func(o *xiaozhi.DiscoveryOptions) { o.AutoOwner = "me" })
	p, err := r.accounts.AddPerson(ctx, "bob", account.RoleMember, "en", "")
	must(t, err)
	_, code, err := r.accounts.DeviceSeen(ctx, store.DeviceCall{Kind: xiaozhi.Kind, Hardware: mac, Client: uuid1})
	must(t, err)
	_, err = r.accounts.ApproveDevice(ctx, account.NewDevice{Person: p.ID, Code: code})
	must(t, err)
	if a := r.call(headers(mac, uuid2), full); a.Activation == nil {
		t.Errorf("bob's board: %+v", a)
	}
	for range 2 {
		if a := r.call(headers("00:00:00:00:00:01", uuid1), full); a.WebSocket == nil {
			t.Errorf("a new board: %+v", a)
		}
	}
	d, err := r.db.Devices.ByHardware(ctx, xiaozhi.Kind, "00:00:00:00:00:01")
	must(t, err)
	if d.Owner != r.person || d.Bot != r.bot {
		t.Errorf("%+v", d)
	}
	// The owner's settings stay when the board is erased.
	must(t, r.db.Devices.Rename(ctx, d.Number, "hall"))
	if a := r.call(headers("00:00:00:00:00:01", uuid2), full); a.WebSocket == nil {
		t.Errorf("erased: %+v", a)
	}
	if d, err = r.db.Devices.ByNumber(ctx, d.Number); err != nil || d.Name != "hall" || !d.IsApprovedClient(uuid2) {
		t.Errorf("%+v %v", d, err)
	}
}

// Ten boards boot at once, and each gets its own credentials.
func TestTenBoards(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := newRigOn(t, storetest.Open(t, o), nil)
		name := func(i int) (string, string) {
			return fmt.Sprintf("aa:bb:cc:dd:ee:%02x", i), fmt.Sprintf("%08d-1111-4111-8111-111111111111", i)
		}
		all := func(each func(h http.Header) string) []string {
			out := make([]string, 10)
			var wg sync.WaitGroup
			for i := range out {
				wg.Go(func() { out[i] = each(headers(name(i))) })
			}
			wg.Wait()
			sorted := slices.Sorted(slices.Values(out))
			if len(slices.Compact(sorted)) != len(out) || sorted[0] == "" {
				t.Fatalf("not each its own: %q", out)
			}
			return out
		}
		post := func(h http.Header) wire.OTAResponse {
			res := r.do(http.MethodPost, xiaozhi.OTAPath, h, full)
			if res.status != http.StatusOK || len(wire.CheckOTAResponse(res.body)) > 0 {
				t.Errorf("%d %s", res.status, res.body)
			}
			a, _ := wire.ParseOTAResponse(res.body)
			return a
		}
		codes := all(func(h http.Header) string {
			if a := post(h); a.Activation != nil {
				return a.Activation.Code
			}
			return ""
		})
		for _, code := range codes {
			_, err := r.accounts.ApproveDevice(ctx, account.NewDevice{Person: r.person, Code: code})
			must(t, err)
		}
		tokens := all(func(h http.Header) string {
			if a := post(h); a.WebSocket != nil {
				return a.WebSocket.Token
			}
			return ""
		})
		for i := range tokens {
			for j, token := range tokens {
				hardware, client := name(i)
				if _, err := r.accounts.CheckSocket(ctx, account.DeviceID{Kind: xiaozhi.Kind, Hardware: hardware,
					Client: client}, token); (err == nil) != (i == j) {
					t.Errorf("board %d with the token of %d: %v", i, j, err)
				}
			}
		}
	})
}
