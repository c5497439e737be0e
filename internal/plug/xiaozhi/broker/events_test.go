package broker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

// publishEvent publishes a presence event like EMQX.
func (h *fakeBroker) publishEvent(name, what, more string) {
	h.publishText("$SYS/brokers/emqx@127.0.0.1/clients/"+name+"/"+what,
		fmt.Sprintf(`{"username":"u","ts":1,"sockport":1883,"proto_ver":4,"ipaddress":"192.0.2.7","clientid":%q,%s}`,
			name, more), false)
}

// Presence events start and end sessions, in whatever order they arrive.
func TestEvents(t *testing.T) {
	h := newFakeBroker(t)
	r := newRig(t, Options{URL: h.url(), Events: true}, nil)
	r.until("up", "", 1)
	h.publishEvent("somebody", "connected", `"connected_at":1`)
	h.publishText("$SYS/brokers/emqx@127.0.0.1/clients/"+name1+"/connected", "no JSON", false)
	h.publishEvent(name1, "connected", `"connected_at":1000`)
	first := r.next("connected").conn
	if first.ID() != mac1 || first.RemoteAddr().String() != "192.0.2.7:0" {
		t.Errorf("%s from %v", first.ID(), first.RemoteAddr())
	}
	h.publishEvent(name1, "connected", `"connected_at":1000`)    // repeated
	h.publishEvent(name1, "connected", `"connected_at":900`)     // late
	h.publishEvent(name1, "disconnected", `"disconnected_at":5`) // of a previous connection
	h.publishEvent("GID@@@aa_bb_cc_dd_ee_01@@@other", "disconnected", `"disconnected_at":2000`)
	h.publishEvent(name1, "connected", `"connected_at":2000`)
	if e := r.next("gone"); e.conn != first || !errors.Is(e.err, mqtt.ErrTakenOver) {
		t.Errorf("gone: %v", e.err)
	}
	second := r.next("connected").conn
	h.publishEvent(name1, "disconnected", `"disconnected_at":2001,"reason":"discarded"`)
	h.publishEvent(name1, "disconnected", `"disconnected_at":3000,"reason":"tcp_closed"`)
	if e := r.next("gone"); e.conn != second || !errors.Is(e.err, ErrBoardDisconnected) {
		t.Errorf("gone: %v", e.err)
	}
	h.publishEvent(name1, "disconnected", `"disconnected_at":3000,"reason":"tcp_closed"`)

	h.publishText("device-server/"+name2, "faster", false)
	third := r.next("connected").conn
	r.next("message")
	h.publishEvent(name2, "connected", `"connected_at":1000`) // of the same connection
	h.publishEvent(name2, "disconnected", `"disconnected_at":3000,"reason":"normal"`)
	if e := r.next("gone"); e.conn != third || e.err != nil {
		t.Errorf("gone: %v", e.err)
	}
	if n := r.count("dropped_messages_total", "event"); n != 1 {
		t.Errorf("%d events were not understood", n)
	}
}

// A connect event long after a board's first message begins a new session.
func TestEventTakesOver(t *testing.T) {
	h := newFakeBroker(t)
	r := newRig(t, Options{URL: h.url(), Events: true}, func(c *Client) { c.timings.adoptWindow = time.Nanosecond })
	r.until("up", "", 1)
	h.publishText("device-server/"+name1, "hello", false)
	r.next("connected")
	r.next("message")
	h.publishEvent(name1, "connected", `"connected_at":1000`)
	if e := r.next("gone"); !errors.Is(e.err, mqtt.ErrTakenOver) {
		t.Errorf("gone: %v", e.err)
	}
	r.next("connected")
}

func TestIdentify(t *testing.T) {
	for name, want := range map[string]string{
		name1: mac1, name2: mac2, "GID@@@aa_bb_cc_dd_ee_01@@@": mac1, "@@@aa_bb_cc_dd_ee_01@@@x": mac1,
		"": "", "aa:bb:cc:dd:ee:01": "", "aa_bb_cc_dd_ee_0": "", "aa_bb_cc_dd_ee_0g": "", "AA_BB_CC_DD_EE_01": "",
		"aabbccddee01": "", "aa_bb_cc_dd_ee_01@@@x": "", "x@@@aa_bb_cc_dd_ee_01@@@y@@@z": "",
		"aa_bb_cc_dd_ee_01@@@aa_bb_cc_dd_ee_02@@@aa_bb_cc_dd_ee_03": mac2,
		"GID@@@aa_bb_cc_dd_ee_01@@@+":                               "", "GID@@@aa_bb_cc_dd_ee_01@@@a/b": "", "#": "",
		"patchbay": "",
	} {
		if id, ok := identify(name); id != want || ok != (want != "") {
			t.Errorf("%q: %q %v", name, id, ok)
		}
	}
}
