package cli

import (
	"patchbay/internal/store/storetest"
	"strings"
	"testing"
	"time"

	nats "github.com/nats-io/nats-server/v2/server"
)

// With a bus, doctor reports whether NATS lets the instance in, and whether the running server is
// cut off from it.
func TestDoctorOnTheBus(t *testing.T) {
	bus, err := nats.NewServer(&nats.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	bus.Start()
	defer bus.WaitForShutdown()
	defer bus.Shutdown()
	if !bus.ReadyForConnections(10 * time.Second) {
		t.Fatal("a NATS server did not get ready")
	}
	d := blankDesk(t)
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t), "PATCHBAY_DATABASE_URL="+storetest.Postgres(t).URL,
		"PATCHBAY_SECRET="+strings.Repeat("ab", 32))
	d.ok("user", "add", "ada")
	if got := d.found("bus"); got != "" {
		t.Errorf("without a bus doctor says %q", got)
	}
	d.env = append(d.env, "PATCHBAY_BUS_URL="+bus.ClientURL())
	if got := d.found("bus"); !strings.HasPrefix(got, "ok NATS lets us in, instances that run: 0") {
		t.Errorf("without a server: %s", got)
	}
	d.serve()
	if got := d.found("bus"); !strings.HasPrefix(got, "ok the server is connected, other instances: 0") {
		t.Errorf("with a server: %s", got)
	}
	bus.Shutdown()
	d.until("the cut", func() bool {
		return strings.HasPrefix(d.found("bus"), "fail NATS cannot be reached → See whether it runs")
	})
	if got := d.found("server"); !strings.Contains(got, "is not ready: bus") {
		t.Errorf("the server is %s", got)
	}
}
