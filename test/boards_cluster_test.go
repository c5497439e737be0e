package test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/proxytest"
	"patchbay/internal/store/storetest"
)

// A board remains one board for its owner, whichever instance it is connected to, and whichever
// instance dies.
func TestBoardsOfTwoInstances(t *testing.T) {
	t.Parallel()
	o := storetest.Postgres(t)
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	env := []string{"PATCHBAY_SECRET=" + strings.Repeat("5e", 32), "PATCHBAY_XIAOZHI_MQTT=127.0.0.1:0",
		"PATCHBAY_XIAOZHI_AUDIO=127.0.0.1:0"}
	at, err := url.Parse(urls[0])
	must(t, err)
	bus := proxytest.New(t, at.Host)
	first := newInstallation(o, append(env, "PATCHBAY_BUS_URL=nats://"+bus.Addr())...)
	o.Folder = t.TempDir()
	second := newInstallation(o, append(env, "PATCHBAY_BUS_URL="+urls[1])...)
	first.run(t, "user", "add", "ada")
	var admin, desk addedKey
	first.json(t, &admin, "key", "add", "--name", "admin", "--scope", "admin")
	first.json(t, &desk, "key", "add", "--name", "desk", "--scope", "mcp")
	one := &boardServer{t, first, first.serve(t), admin.Key}
	two := &boardServer{t, second, second.serve(t), admin.Key}
	t.Run("websocket", func(t *testing.T) { wanders(t, one, two, bus, desk.Key, "websocket") })
	one.server = one.serve(t)
	t.Run("mqtt", func(t *testing.T) { wanders(t, one, two, bus, desk.Key, "mqtt") })
}

// wanders moves a board from one instance to the other and back, also while the instances are
// disconnected from each other, and kills its instance.
func wanders(t *testing.T, one, two *boardServer, bus *proxytest.Proxy, key, transport string) {
	one.t, two.t = t, t
	limit := limited(t, 60*time.Second)
	way := route{}
	way.lead(one.server, one.server)
	name := "Kitchen-" + transport
	b := one.online(limit, name, transport, sim.Options{Dial: way.dial})
	wake := func(h *boardServer) {
		t.Helper()
		if transport == "websocket" {
			must(t, b.Wake(limit))
		}
		must(t, h.awaitTools(limit, name))
	}
	volume := 0
	called := func(h *boardServer) { // by command line and by a program
		t.Helper()
		h.until(name+" is online", func() bool { return strings.Contains(h.run(t, "device", "show", name), "online") })
		volume += 2
		h.says("true", "device", "call", name, "self.audio_speaker.set_volume", fmt.Sprint("volume=", volume))
		at := &program{url: h.url, key: key}
		_, _, at.session = at.post(t, "/mcp", initialize)
		tool := h.tools(name)["self.screen.set_brightness"].Name
		if status, body, _ := at.post(t, "/mcp", callOf(1, tool,
			fmt.Sprintf(`{"brightness":%d}`, volume))); status != 200 || !strings.Contains(body, `"text":"true"`) {
			t.Errorf("a call at %s: %d %s", h.url, status, body)
		}
		if v := b.View(); v.Volume != volume || v.Brightness != volume {
			t.Errorf("volume %d, brightness %d, want %d", v.Volume, v.Brightness, volume)
		}
	}
	holds := func(h *boardServer, n float64) {
		t.Helper()
		h.until("an instance has let go", func() bool { return h.metric("patchbay_xiaozhi_boards") == n })
	}
	wake(one)
	holds(one, 1)
	called(two)
	called(one)

	must(t, b.Lose(sim.Vanished)) // the first instance does not notice
	way.lead(one.server, two.server)
	must(t, b.Boot(limit))
	wake(two)
	holds(two, 1)
	holds(one, 0)
	called(one)

	must(t, b.Lose(sim.Reset))
	way.lead(one.server, one.server)
	must(t, b.Boot(limit))
	wake(one)
	holds(one, 1)
	holds(two, 0)
	called(two)

	bus.Cut()
	must(t, b.Lose(sim.Vanished))
	way.lead(one.server, two.server)
	must(t, b.Boot(limit))
	wake(two)
	holds(two, 1)
	bus.Pass()
	holds(one, 0)
	called(one)
	must(t, b.Lose(sim.Reset))
	way.lead(one.server, one.server)
	must(t, b.Boot(limit))
	wake(one)
	holds(two, 0)
	called(two)

	one.kill()
	killed := time.Now()
	two.until("calls of a board whose instance died are refused", func() bool {
		_, err := two.call(limit, name, "self.get_device_status", nil)
		return refused(err) == "offline"
	})
	calls := time.Since(killed)
	two.until("a board whose instance died is asleep", func() bool {
		return strings.Contains(two.run(t, "device",
			"show", name), "asleep")
	})
	t.Logf("after the kill, calls are refused after %v, and it is listed as asleep after %v", calls, time.Since(killed))
	if calls > 5*time.Second || time.Since(killed) > 15*time.Second {
		t.Error("that is too late")
	}
	way.lead(one.server, two.server)
	must(t, b.Boot(limit))
	wake(two)
	called(two)
	pleased(t, b, "C12")
	b.Close()
	holds(two, 0)
}
