package bus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"patchbay/internal/bus"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/seal"
)

func TestCheck(t *testing.T) {
	url := bustest.Cluster(t, 1)
	o := bus.Options{URL: url, Installation: "one", Signer: seal.NewBox(key(t, "ab"))}
	see := func(o bus.Options, running *bus.Running, state check.State, found, advice string) {
		t.Helper()
		r := &check.Report{Lang: i18n.English}
		bus.Check(t.Context(), r, o, running)
		if len(r.Findings) != 1 || r.Findings[0].Check != "bus" || r.Findings[0].State != state ||
			!strings.Contains(r.Findings[0].Found, found) || !strings.Contains(r.Findings[0].Advice, advice) {
			t.Errorf("found %+v, want %s, %q and %q", r.Findings, state, found, advice)
		}
	}
	see(o, nil, check.OK, "NATS lets us in, instances that run: 0", "")
	here, there := open(t, url, "here"), open(t, url, "there")
	defer here.Close()
	defer there.Close()
	for _, other := range []*bus.Bus{
		openOf(t, url, "neighbour", "two", key(t, "ab")), openOf(t, url, "forger", "one", key(t, "cd")),
	} {
		defer other.Close()
	}
	see(o, nil, check.OK, "instances that run: 2", "")
	if n := len(here.Peers()); n != 1 {
		t.Errorf("there is 1 other instance, and the check made %d of it", n)
	}
	see(o, &bus.Running{Others: 3}, check.OK, "the server is connected, other instances: 3", "")
	see(o, &bus.Running{Cut: true}, check.Fail, "cut off", "log")

	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, Username: "u", Password: "right", NoLog: true,
		NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("a NATS server did not get ready")
	}
	o.URL = strings.Replace(s.ClientURL(), "://", "://u:wrong@", 1)
	see(o, nil, check.Fail, "NATS does not let us in", "password")
	o.URL = "nats://127.0.0.1:1"
	see(o, nil, check.Fail, "NATS cannot be reached", "bus.url")
	see(o, &bus.Running{Cut: true}, check.Fail, "NATS cannot be reached", "bus.url")
	o.CA = "missing.pem"
	see(o, nil, check.Fail, "NATS cannot be used", "bus.ca")
}
