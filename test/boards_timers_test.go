package test

import (
	"strings"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// A timer rings once, at the instance that has the board, and survives kill -9.
func TestTimersOfTwoInstances(t *testing.T) {
	t.Parallel()
	o := storetest.Postgres(t)
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	env := []string{"PATCHBAY_SECRET=" + strings.Repeat("5e", 32), "PATCHBAY_XIAOZHI_MQTT=127.0.0.1:0",
		"PATCHBAY_XIAOZHI_AUDIO=127.0.0.1:0"}
	first := newInstallation(o, append(env, "PATCHBAY_BUS_URL="+urls[0])...)
	o.Folder = t.TempDir()
	second := newInstallation(o, append(env, "PATCHBAY_BUS_URL="+urls[1])...)
	first.run(t, "user", "add", "ada")
	var admin addedKey
	first.json(t, &admin, "key", "add", "--name", "admin", "--scope", "admin")
	one := &boardServer{t, first, first.serve(t), admin.Key}
	two := &boardServer{t, second, second.serve(t), admin.Key}
	limit := limited(t, 90*time.Second)
	way := route{}
	way.lead(one.server, one.server)
	b := one.online(limit, "Kitchen", store.TransportMQTT, sim.Options{Dial: way.dial, Lang: "en-US"})
	must(t, one.awaitTools(limit, "Kitchen"))
	rings := func(text string) bool { return strings.Contains(b.Displayed(), text) }
	over := func() bool {
		return strings.Contains(two.run(t, "device", "timers", "Kitchen"), "No timer is set")
	}

	// Set at the other instance.
	two.says("rings on", "device", "timers", "Kitchen", "--in", "2s", "--text", "Tea")
	one.until("the timer rings", func() bool { return rings("Reminder: Tea") })
	must(t, b.Wake(limit)) // somebody comes, so it stops
	two.until("it is over", over)

	one.says("rings on", "device", "timers", "Kitchen", "--in", "5s", "--text", "Cake")
	one.kill()
	way.lead(one.server, two.server)
	must(t, b.Boot(limit))
	must(t, two.awaitTools(limit, "Kitchen"))
	two.until("the timer rings after the kill", func() bool { return rings("Reminder: Cake") })
	must(t, b.Wake(limit))
	two.until("it is over", over)
	b.Close()
}
