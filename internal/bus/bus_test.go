package bus_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/bus"
	"patchbay/internal/bus/bustest"
)

func open(t *testing.T, url, name string) *bus.Bus {
	t.Helper()
	b, err := bus.Open(context.Background(), bus.Options{URL: url, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInProcess(t *testing.T) {
	b := open(t, "", "")
	defer b.Close()
	if !b.Alone() || b.Instance == "" {
		t.Fatalf("alone %t, instance %q", b.Alone(), b.Instance)
	}
	if _, err := b.Request("nobody", nil, time.Second); err != nats.ErrNoResponders {
		t.Fatalf("asking nobody: %v", err)
	}
}

func TestInstancesHearOfOneAnother(t *testing.T) {
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	here, there := open(t, urls[0], "here"), open(t, urls[1], "there")
	defer here.Close()
	lost := make(chan string, 1)
	here.OnLost(func(instance string) { lost <- instance })
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !slices.Contains(here.Peers(), there.Instance) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the other instance was not heard of")
		}
	}
	if !here.Lives(there.Instance) || !here.Lives(here.Instance) || here.Lives("nobody") {
		t.Error("who lives is wrong")
	}
	// It dies without a word.
	there.Conn.Close()
	died := time.Now()
	if got := <-lost; got != there.Instance || here.Lives(got) {
		t.Errorf("lost %q", got)
	}
	t.Logf("noticed after %v", time.Since(died))
	there.Close()

	// Another says farewell, which is noticed at once.
	polite := open(t, urls[2], "polite")
	for !here.Lives(polite.Instance) {
		<-tick.C
	}
	polite.Close()
	if got := <-lost; got != polite.Instance {
		t.Errorf("lost %q", got)
	}
}

func TestUnreachable(t *testing.T) {
	_, err := bus.Open(context.Background(), bus.Options{URL: "nats://user:hunter2@127.0.0.1:1"})
	if !errors.Is(err, bus.ErrUnreachable) || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("got %v", err)
	}
	if _, err := bus.Open(context.Background(), bus.Options{URL: "nats://127.0.0.1:1", CA: "/does/not/exist"}); err == nil {
		t.Fatal("a CA that is not there")
	}
}
