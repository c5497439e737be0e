package xiaozhi_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

func TestRates(t *testing.T) {
	r := newRig(t, func(o *xiaozhi.DiscoveryOptions) {
		o.CallsPerMinute, o.ActivationsPerMinute, o.Address = 3, 2,
			from
	})
	at := func(addr string) http.Header {
		h := headers(mac, uuid1)
		h.Set("X-From", addr)
		return h
	}
	for i, want := range []int{200, 200, 200, 429, 429} {
		res := r.do(http.MethodPost, xiaozhi.OTAPath, at("192.0.2.1"), full)
		if res.status != want || want == 429 && res.header.Get("Retry-After") == "" {
			t.Errorf("call %d: %d", i, res.status)
		}
	}
	for i, want := range []int{202, 202, 429} {
		if status := r.activate(at("192.0.2.1"), "{}"); status != want {
			t.Errorf("question %d: %d", i, status)
		}
	}
	r.call(at("192.0.2.2"), full)
	r.clock.add(time.Minute)
	r.call(at("192.0.2.1"), full)
	r.counted("patchbay_xiaozhi_ota_requests_total", map[string]int{"waiting": 5, "too_many": 2})
	r.counted("patchbay_xiaozhi_activation_requests_total", map[string]int{"waiting": 2, "too_many": 1})
}

// If the database fails, boards are told to retry, not that they need approval.
func TestDatabaseGone(t *testing.T) {
	r := newRig(t, nil)
	r.db.Close()
	if res := r.do(http.MethodPost, xiaozhi.OTAPath, headers(mac, uuid1),
		full); res.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", res.status, res.body)
	}
	if status := r.activate(headers(mac, uuid1), "{}"); status != http.StatusServiceUnavailable {
		t.Errorf("%d", status)
	}
	if !strings.Contains(r.log.String(), "level=ERROR") {
		t.Errorf("the log says nothing:\n%s", r.log)
	}
}

// No response reaches the length at which boards hang, however long the request is.
func TestLength(t *testing.T) {
	long := strings.Repeat("长", 60)
	r := newRig(t, func(o *xiaozhi.DiscoveryOptions) {
		o.AutoOwner, o.Transport, o.MQTT = "me", store.TransportMQTT, strings.Repeat("m", 200)+":1883"
		o.PublicURL = "https://" + strings.Repeat("h", 200) + "/" + strings.Repeat("p", 500)
	})
	texts := map[string]any{"language": long, "application": map[string]string{"version": long},
		"board": map[string]string{"type": long, "name": long}}
	body, err := json.Marshal(texts)
	must(t, err)
	res := r.do(http.MethodPost, xiaozhi.OTAPath, headers(mac, strings.Repeat("c", 64)), string(body))
	r.check(res)
	if len(res.body) > wire.MaxHTTPBody/2 {
		t.Errorf("%d bytes", len(res.body))
	}
}

// A board that sends half a request does not delay others, and its connection is closed.
func TestHalfACall(t *testing.T) {
	r := newRig(t, nil)
	conn, err := net.Dial("tcp", r.Listener.Addr().String())
	must(t, err)
	fmt.Fprintf(conn,
		"POST /xiaozhi/ota/ HTTP/1.1\r\nHost: x\r\nDevice-Id: %s\r\nClient-Id: %s\r\nContent-Length: 1000\r\n\r\n{\"ver", mac, uuid1)
	must(t, conn.(*net.TCPConn).CloseWrite())
	res := readAnswer(t, conn)
	if res.status != http.StatusBadRequest {
		t.Errorf("%d %s", res.status, res.body)
	}
	r.call(headers(mac, uuid1), full)
}
