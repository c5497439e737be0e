package bus_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/bus"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/netx"
	"patchbay/internal/seal"
)

func open(t *testing.T, url, name string) *bus.Bus {
	t.Helper()
	return openOf(t, url, name, "one", key(t, "ab"))
}

func key(t *testing.T, digits string) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(strings.Repeat(digits, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// openOf opens the bus of an installation.
func openOf(t *testing.T, url, name, installation string, keys ...*seal.Key) *bus.Bus {
	t.Helper()
	b, err := bus.Open(context.Background(), bus.Options{URL: url, Name: name, Installation: installation,
		Signer: seal.NewBox(keys...)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInProcess(t *testing.T) {
	b := open(t, "", "")
	defer b.Close()
	if !b.IsStandalone() || b.Instance == "" {
		t.Fatalf("alone %t, instance %q", b.IsStandalone(), b.Instance)
	}
	limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := b.Request(limited, "nobody", nil); err != nats.ErrNoResponders {
		t.Fatalf("asking nobody: %v", err)
	}
}

func TestInstancesFindEachOther(t *testing.T) {
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	here, there := open(t, urls[0], "here"), open(t, urls[1], "there")
	defer here.Close()
	lost := make(chan string, 1)
	here.OnPeerLost(func(instance string) { lost <- instance })
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
	if !here.IsAlive(there.Instance) || !here.IsAlive(here.Instance) || here.IsAlive("nobody") {
		t.Error("who lives is wrong")
	}
	// It closes the connection without a leave message.
	there.Abort()
	died := time.Now()
	if got := <-lost; got != there.Instance || here.IsAlive(got) {
		t.Errorf("lost %q", got)
	}
	t.Logf("noticed after %v", time.Since(died))
	there.Close()

	// Another one sends a leave message, which has an immediate effect.
	polite := open(t, urls[2], "polite")
	for !here.IsAlive(polite.Instance) {
		<-tick.C
	}
	polite.Close()
	if got := <-lost; got != polite.Instance {
		t.Errorf("lost %q", got)
	}
}

func TestUnreachable(t *testing.T) {
	box := seal.NewBox(key(t, "ab"))
	_, err := bus.Open(context.Background(), bus.Options{URL: "nats://user:hunter2@127.0.0.1:1", Installation: "one",
		Signer: box})
	if !errors.Is(err, bus.ErrUnreachable) || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("got %v", err)
	}
	if _, err := bus.Open(context.Background(), bus.Options{URL: "nats://127.0.0.1:1", CA: "/does/not/exist",
		Installation: "one", Signer: box}); err == nil {
		t.Fatal("a CA that is not there")
	}
}

// TestInstallationsAreStrangers checks that two installations on the same servers are separate, and
// that messages of an instance that claims to belong to the other installation, without its secret,
// are rejected.
func TestInstallationsAreStrangers(t *testing.T) {
	url := bustest.Cluster(t, 1)
	here, brother := openOf(t, url, "here", "one", key(t, "ab")), openOf(t, url, "brother", "one", key(t, "ab"))
	stranger, liar := openOf(t, url, "stranger", "two", key(t, "cd")), openOf(t, url, "liar", "one", key(t, "cd"))
	for _, b := range []*bus.Bus{here, brother, stranger, liar} {
		defer b.Close()
	}
	heard := make(chan string, 100)
	for _, b := range []*bus.Bus{here, stranger, liar} {
		_, err := b.Subscribe("turn.1", func(m *nats.Msg) {
			if b != liar || string(m.Data) != brother.Instance { // the liar's own message
				heard <- b.Instance + " " + string(m.Data)
			}
			b.Respond(m, []byte("answer of "+b.Instance)) //nolint:errcheck // the test fails then
		})
		if err == nil {
			err = b.FlushTimeout(10 * time.Second)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if m, err := brother.Request(ctx, "turn.1", []byte("question")); err != nil ||
		string(m.Data) != "answer of "+here.Instance {
		t.Errorf("it is answered with %v, %v", m, err)
	}
	if got := <-heard; got != here.Instance+" question" {
		t.Errorf("heard by %q", got)
	}
	// The messages of the liar arrive before the next request, as both go through one server.
	for _, subject := range []string{"turn.1", "alive", "leave"} {
		if err := errors.Join(liar.Publish(subject, []byte(brother.Instance)),
			liar.FlushTimeout(10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := brother.Request(ctx, "turn.1", []byte("again")); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != here.Instance+" again" {
		t.Errorf("heard by %q", got)
	}
	if here.RejectedCount() < 3 || stranger.RejectedCount() != 0 {
		t.Errorf("it has refused %d, the stranger %d", here.RejectedCount(), stranger.RejectedCount())
	}
	for !here.IsAlive(brother.Instance) { // heartbeats are read on their own
		if err := netx.Wait(ctx, 5*time.Millisecond); err != nil {
			t.Fatal("it does not know the brother")
		}
	}
	if slices.Contains(here.Peers(), liar.Instance) || slices.Contains(here.Peers(), stranger.Instance) {
		t.Errorf("it knows %q", here.Peers())
	}
	select {
	case got := <-heard:
		t.Errorf("somebody else has heard: %q", got)
	default:
	}
}

// TestTwoSecrets checks that signatures of both secrets are valid while the secret is replaced.
func TestTwoSecrets(t *testing.T) {
	url := bustest.Cluster(t, 1)
	old, young := openOf(t, url, "old", "one", key(t, "ab"), key(t, "cd")), openOf(t, url, "young", "one", key(t, "cd"),
		key(t, "ab"))
	defer old.Close()
	defer young.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, b := range []*bus.Bus{old, young} {
		_, err := b.Subscribe("to."+b.Instance, func(m *nats.Msg) { b.Respond(m, m.Data) }) //nolint:errcheck // the test fails then
		if err = errors.Join(err, b.FlushTimeout(10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[*bus.Bus]*bus.Bus{old: young, young: old} {
		if m, err := from.Request(ctx, "to."+to.Instance, []byte("hello")); err != nil || string(m.Data) != "hello" {
			t.Errorf("from %s to %s: %v", from.Instance, to.Instance, err)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	k, err := seal.NewKey(strings.Repeat("ab", 32))
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 200)
	tag := k.Tag("subject", data)
	b.ReportAllocs()
	for b.Loop() {
		if !k.CheckTag("subject", data, tag) {
			b.Fatal("it is not good")
		}
	}
}

// TestSeveralSubjectsInOrder checks that the messages of one sender arrive in order, across several
// subjects and servers. No message with another signature arrives, and none after stop.
func TestSeveralSubjectsInOrder(t *testing.T) {
	const messages = 2000
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	here, there, stranger := open(t, urls[0], "here"), open(t, urls[1], "there"), openOf(t, urls[1], "stranger",
		"one", key(t, "cd"))
	for _, b := range []*bus.Bus{here, there, stranger} {
		defer b.Close()
	}
	came := make(chan string, 2*messages)
	stop, err := here.SubscribeInOrder(func(m *nats.Msg) { came <- string(m.Data) }, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	send := func(b *bus.Bus, i int, what string) {
		t.Helper()
		if err := b.Publish([]string{"a", "b"}[i%2], []byte(what)); err != nil {
			t.Fatal(err)
		}
	}
	// The other server has to know both subscriptions first.
	for i := range 2 {
		for heard := false; !heard; {
			send(there, i, "ready "+strconv.Itoa(i))
			select {
			case what := <-came:
				heard = what == "ready "+strconv.Itoa(i)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	send(stranger, 0, "wrong")
	for i := range messages {
		send(there, i, strconv.Itoa(i))
	}
	for next := 0; next < messages; {
		select {
		case got := <-came:
			if strings.HasPrefix(got, "ready") {
				continue
			}
			if got != strconv.Itoa(next) {
				t.Fatalf("%q came instead of %d", got, next)
			}
			next++
		case <-time.After(time.Minute):
			t.Fatalf("%d messages of %d came", next, messages)
		}
	}
	stop()
	send(here, 0, "late")
	if err := here.FlushTimeout(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	if len(came) > 0 {
		t.Errorf("%q came after the end", <-came)
	}
}
