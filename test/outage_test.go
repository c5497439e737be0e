package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/proxytest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// While PostgreSQL is unavailable, glasses whose key, bot and binding were used recently get
// answers, and their turns are in the database afterwards; others get an error message. A key
// revoked meanwhile is refused once the database is back.
func TestOutageIsNotHeard(t *testing.T) {
	o := storetest.Postgres(t)
	direct := newInstallation(o)
	_, rest, _ := strings.Cut(o.URL, "@")
	address, _, _ := strings.Cut(rest, "/")
	proxy := proxytest.New(t, address)
	through := o
	through.URL = strings.Replace(o.URL, address, proxy.Addr(), 1)
	p := newInstallation(through, "PATCHBAY_TRACE_CONTENT=true")

	direct.run(t, "user", "add", "ada")
	var bot addedBot
	direct.json(t, &bot, "bot", "add", "--name", "parrot", "--kind", "echo")
	var key addedKey
	direct.json(t, &key, "key", "add", "--name", "glasses", "--scope", "lingzhu")
	// The keys unknown to the server are created before it runs, because a new key clears its
	// cache.
	faults := map[string]func(){"refuses": proxy.Cut, "is mute": proxy.Mute}
	strange := map[string]addedKey{}
	for name := range faults {
		var key addedKey
		direct.json(t, &key, "key", "add", "--name", name, "--scope", "lingzhu")
		strange[name] = key
	}
	s := p.serve(t)
	defer proxy.Pass()

	number, answered := 0, map[string]bool{}
	ask := func(key string) string {
		number++
		text := fmt.Sprintf("question %d", number)
		a, err := s.ask(key, question(fmt.Sprint(bot.ID), "u", fmt.Sprint(number), text), nil)
		must(t, err)
		if a.text == text {
			answered[text] = true
			return ""
		}
		return a.text
	}
	if said := ask(key.Key); said != "" {
		t.Fatalf("before: %q", said)
	}
	for name, fail := range faults {
		fail()
		began, longest := time.Now(), time.Duration(0)
		for range 100 {
			at := time.Now()
			if said := ask(key.Key); said != "" {
				t.Errorf("while the database %s: %q", name, said)
			}
			longest = max(longest, time.Since(at))
		}
		t.Logf("while the database %s: 100 answers in %v, the slowest after %v", name,
			time.Since(began).Round(time.Millisecond), longest.Round(time.Millisecond))
		if said := ask(strange[name].Key); !strings.Contains(said, "请稍后重试") {
			t.Errorf("while the database %s somebody unknown heard %q", name, said)
		}
		proxy.Pass()
		waitUntil(t, "questions are answered again", func() bool { return ask(strange[name].Key) == "" })
	}

	proxy.Cut()
	if said := ask(key.Key); said != "" {
		t.Errorf("a third time: %q", said)
	}
	direct.run(t, "key", "revoke", key.ID, "--database-url", o.URL) // not through the server
	proxy.Pass()
	waitUntil(t, "the revoked key is refused", func() bool { return ask(key.Key) != "" })

	db := storetest.Open(t, o)
	waitUntil(t, "everything that was answered is in the database", func() bool {
		traces, err := db.Traces.Find(ctx, store.TraceFilter{Outcome: "done"}, 1000)
		must(t, err)
		there := 0
		for _, tr := range traces {
			if answered[tr.Question] {
				there++
			}
		}
		return there == len(answered)
	})
}
