package test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/plug/eyeclaw/sim"
	"patchbay/internal/store/storetest"
)

// Glasses ask at the first instance; the plugin is connected to the second. The answer streams. The
// second instance is killed during an answer, and the asker gets an error message within two
// seconds. After both restart, all data is still there.
func TestTwoInstances(t *testing.T) {
	o := storetest.Postgres(t)
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	secret := "PATCHBAY_SECRET=" + strings.Repeat("5e", 32)
	first := newInstallation(o, secret, "PATCHBAY_BUS_URL="+urls[0])
	o.Folder = t.TempDir()
	second := newInstallation(o, secret, "PATCHBAY_BUS_URL="+urls[1])

	first.run(t, "user", "add", "ada")
	var bot addedBot
	first.json(t, &bot, "bot", "add", "--name", "claw", "--kind", "eyeclaw")
	var key addedKey
	first.json(t, &key, "key", "add", "--name", "glasses", "--scope", "lingzhu", "--bot", fmt.Sprint(bot.ID))

	one, two := first.serve(t), second.serve(t)
	asked, release := make(chan struct{}, 10), make(chan struct{})
	connect := func(s *server) (disconnect func()) {
		plugin := sim.New(sim.Options{Server: s.url, Token: bot.SDKToken, Scale: 0.02,
			Upstream: func(ctx context.Context, c sim.Chat, piece func(string)) error {
				for _, word := range []string{"one ", "two ", "three "} {
					piece(word)
				}
				if strings.Contains(c.Message, "slow") {
					asked <- struct{}{}
					select {
					case <-release:
					case <-ctx.Done():
					}
				}
				piece("four")
				return nil
			}})
		running, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { plugin.Run(running) })
		return func() { stop(); wg.Wait() }
	}
	disconnect := connect(two)
	const want = "one two three four"
	awaitAnswer(t, one, key.Key, want)

	// The instance with the plugin dies during the answer.
	heard := make(chan string, 100)
	result := make(chan answer, 1)
	go func() {
		a, err := one.ask(key.Key, question("x", "U", "2", "slow"), func(piece string) { heard <- piece })
		if err != nil {
			t.Error(err)
		}
		result <- a
	}()
	for got := ""; !strings.Contains(got, "three"); {
		got += <-heard
	}
	two.kill()
	killed := time.Now()
	a := <-result
	if took := time.Since(killed); took > 2*time.Second {
		t.Errorf("the asker was told after %v", took)
	} else {
		t.Logf("told %v after the kill", took)
	}
	if !a.done || a.text != "one two three \n连接中断，回答没有说完，请再问一次。" {
		t.Errorf("the asker was told %q, done %t", a.text, a.done)
	}
	disconnect()
	close(release)

	// Both restart, and the next question is answered.
	two = second.serve(t)
	defer connect(two)()
	awaitAnswer(t, one, key.Key, want)
	if err := one.stop(); err != nil {
		t.Errorf("the first did not stop in order: %v", err)
	}
	one = first.serve(t)
	awaitAnswer(t, one, key.Key, want)

	db := storetest.Open(t, o)
	traces, err := db.Traces.Newest(ctx, "", time.Now().Add(time.Hour), 1000)
	must(t, err)
	outcomes := map[string]int{}
	for _, tr := range traces {
		outcomes[tr.Outcome+tr.Code]++
	}
	if outcomes["done"] < 3 || outcomes["failedlost"] != 1 {
		t.Errorf("traces: %v", outcomes)
	}
}

// awaitAnswer asks until the plugin is connected and the answer is complete.
func awaitAnswer(t *testing.T, s *server, key, want string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for i := 0; ; i++ {
		a, err := s.ask(key, question("x", "U", fmt.Sprint(time.Now().UnixNano()), "hello"), nil)
		must(t, err)
		if a.text == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("heard %q", a.text)
		}
	}
}
