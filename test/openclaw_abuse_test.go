package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// abusers is the number of invented devices, each with a key pair of its own; PATCHBAY_ABUSERS
// overrides it.
const abusers = 10_000

// Inventing devices, with a valid API key or with guessed ones, fills neither the memory nor the
// list of pending requests, and others are served meanwhile.
func TestOpenClawAbuse(t *testing.T) {
	if testing.Short() {
		t.Skip("connects thousands of times")
	}
	count := abusers
	if s := os.Getenv("PATCHBAY_ABUSERS"); s != "" {
		var err error
		count, err = strconv.Atoi(s)
		must(t, err)
	}
	h := newClawServer(t, "PATCHBAY_NODES_APPROVE_LOCAL=false")
	h.run(t, "user", "add", "bob")
	good := h.add("bob", "invents", "node")
	n := sim.NewNode(sim.Options{URL: h.socket(), Token: h.add("ada", "hall", "node"),
		Name: "Hall", MinBackoff: 50 * time.Millisecond, MaxBackoff: time.Second})
	t.Cleanup(n.Close)
	waiting := h.awaitDevice("Hall")

	before := h.resident()
	others := h.bystander(t)
	began := time.Now()
	answers := h.invent(t, count, 40, good)
	if answers[wire.DetailPairing] != count {
		t.Errorf("with a good key, they are told %v", answers)
	}
	paired := time.Since(began)
	// Only as many requests are pending as one person may have, and ada's is still among them.
	p := h.pairs()
	if len(p.Devices) != 201 {
		t.Errorf("%d devices wait", len(p.Devices))
	}
	if h.awaitDevice("Hall").RequestID != waiting.RequestID {
		t.Error("another person's device has to ask again")
	}
	between := h.resident()

	// Wrong keys are answered with a growing delay, and one address may have few unauthenticated
	// connections. So however long it takes, only few devices are connected.
	began = time.Now()
	answers = h.invent(t, count, 250, "wrong") // more concurrently than one address may have
	guessed := time.Since(began)
	const atATime, late = 200, 5 * time.Second // limits per address, as in the manual
	if most := int(atATime * (2 + guessed/late)); answers[wire.DetailTokenMismatch] > most {
		t.Errorf("%d wrong keys were looked at within %v, and %d may be", answers[wire.DetailTokenMismatch], guessed,
			most)
	}
	if answers[wire.DetailTokenMismatch] == 0 || answers[wire.DetailTokenMismatch]+answers["429"] != count {
		t.Errorf("with a wrong key, they are told %v", answers)
	}
	// The garbage goes with the next collections, for which somebody else's questions are enough.
	const most = 64 << 20
	after := h.resident()
	for until := time.Now().Add(time.Minute); after-before > most && time.Now().Before(until); after = h.resident() {
		must(t, netx.Wait(t.Context(), 200*time.Millisecond))
	}
	slowest, asked := others()
	t.Logf("%d devices: %v with a good key, %v with a wrong one (%v); memory before %d MiB, then %d and %d; somebody else asked %d times, and waited %v at most",
		count, paired.Round(time.Millisecond), guessed.Round(time.Millisecond), answers, before>>20, between>>20,
		after>>20, asked, slowest.Round(time.Millisecond))
	if after-before > most {
		t.Errorf("it needs %d MiB more than before", (after-before)>>20)
	}
	if asked < 10 {
		t.Errorf("somebody else has asked %d times", asked)
	}
	h.run(t, "pair", "approve", waiting.RequestID)
	must(t, n.AwaitConnected(limited(t, time.Minute)))
}

// invent connects many devices, some concurrently, and counts the results: the detail of the
// refusal, or the HTTP status.
func (h *clawServer) invent(t *testing.T, count, atATime int, key string) map[string]int {
	t.Helper()
	limit := limited(t, 5*time.Minute)
	var mu sync.Mutex
	answers := map[string]int{}
	var left atomic.Int64
	left.Store(int64(count))
	var work sync.WaitGroup
	for range atATime {
		work.Go(func() {
			for left.Add(-1) >= 0 {
				got := h.tryIn(limit, key)
				mu.Lock()
				answers[got]++
				mu.Unlock()
			}
		})
	}
	work.Wait()
	return answers
}

// tryIn connects one invented device.
func (h *clawServer) tryIn(ctx context.Context, key string) string {
	me := wire.NewIdentity()
	hello := *nodeHello(key)
	c, err := sim.Dial(ctx, h.socket(), hello, &me, nil)
	var refused *wire.Error
	switch {
	case err == nil:
		c.Cut()
		return "let in"
	case errors.As(err, &refused):
		return refused.Detail()
	case strings.Contains(err.Error(), "status 429"):
		return "429"
	}
	return err.Error()
}

// bystander asks a bot repeatedly. The returned function ends that, and returns the longest wait
// and the number of answers.
func (h *clawServer) bystander(t *testing.T) func() (slowest time.Duration, asked int) {
	t.Helper()
	var bot addedBot
	h.json(t, &bot, "bot", "add", "--user", "ada", "--name", "parrot", "--kind", "echo")
	key := h.add("ada", "glasses", "lingzhu")
	stop := make(chan struct{})
	var work sync.WaitGroup
	var slowest time.Duration
	asked := 0
	work.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			began := time.Now()
			a, err := h.server.ask(key, question(fmt.Sprint(bot.ID), "", strconv.Itoa(i), "hello"), nil)
			if err != nil || a.text != "hello" {
				t.Errorf("somebody else hears %q (%v)", a.text, err)
				return
			}
			slowest, asked = max(slowest, time.Since(began)), asked+1
		}
	})
	return func() (time.Duration, int) {
		close(stop)
		work.Wait()
		return slowest, asked
	}
}

// resident returns the server's resident memory, in bytes.
func (s *server) resident() int64 {
	data, err := os.Open(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0 // only available on Linux
	}
	defer data.Close()
	for lines := bufio.NewScanner(data); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
