package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Acknowledged changes survive kill -9 at any time: turns, bindings, new keys and new bots. The
// server and the commands are killed repeatedly, and each time everything acknowledged is looked
// up.
func TestKillLosesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		p := newInstallation(o)
		p.run(t, "user", "add", "ada")
		var bot addedBot
		p.json(t, &bot, "bot", "add", "--name", "parrot", "--kind", "echo", "--set", "shared=true")
		var key addedKey
		p.json(t, &key, "key", "add", "--name", "glasses", "--scope", "lingzhu")
		d := &ackedWork{t: t, p: p, bot: bot.ID, key: key.Key}
		for round := range 3 {
			s := p.serve(t)
			d.work(s, round)
			d.check(t)
		}
		t.Logf("nothing lost of %d turns, %d bindings, %d keys, %d bots", len(d.turns), len(d.bound), len(d.keys),
			len(d.bots))
	})
}

// ackedWork is what was acknowledged.
type ackedWork struct {
	t   *testing.T
	p   *installation
	bot int64
	key string

	mu    sync.Mutex
	turns []string // sessions of completed turns
	bound []string // wearers
	keys  []addedKey
	bots  []addedBot
	heads []string // heads of the audit trail at the last check
}

// work does all kinds of changes concurrently until enough are acknowledged, and kills the server
// during the rest.
func (d *ackedWork) work(s *server, round int) {
	stop := make(chan struct{})
	acknowledged := make(chan string, 1000)
	var wg sync.WaitGroup
	loop := func(kind string, do func(i int) bool) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if do(i) {
					select {
					case acknowledged <- kind:
					default: // enough
					}
				}
			}
		})
	}
	for worker := range 4 {
		loop("turn", func(i int) bool { return d.turn(s, fmt.Sprintf("s-%d-%d-%d", round, worker, i)) })
	}
	loop("binding", func(i int) bool { return d.bind(s, fmt.Sprintf("U-%d-%d", round, i)) })
	loop("key", func(i int) bool { return d.addKey(fmt.Sprintf("k-%d-%d", round, i)) })
	loop("bot", func(i int) bool { return d.addBot(fmt.Sprintf("b-%d-%d", round, i)) })
	missing := map[string]int{"turn": 50, "binding": 3, "key": 3, "bot": 3}
	timeout := time.After(60 * time.Second)
	for len(missing) > 0 {
		select {
		case kind := <-acknowledged:
			if missing[kind]--; missing[kind] <= 0 {
				delete(missing, kind)
			}
		case <-timeout:
			d.t.Fatalf("too little was acknowledged to prove anything; missing %v", missing)
		}
	}
	s.kill()
	close(stop)
	wg.Wait()
}

func (d *ackedWork) turn(s *server, session string) bool {
	a, err := s.ask(d.key, question(fmt.Sprint(d.bot), "", session, "你好"), nil)
	if err != nil || !a.done {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turns = append(d.turns, session)
	return true
}

func (d *ackedWork) bind(s *server, user string) bool {
	var inv struct{ Code string }
	out, err := d.p.try("bind", fmt.Sprint(d.bot), "--json")
	if err != nil || !decode(out, &inv) {
		return false
	}
	a, err := s.ask(d.key, question("0123456789abcdef0123456789abcdef", user, "1", "绑定 "+inv.Code), nil)
	if err != nil || !a.done || !strings.HasPrefix(a.text, "绑定成功") {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bound = append(d.bound, user)
	return true
}

// addKey creates a key after killing another such command: a command that dies halfway must not
// affect others.
func (d *ackedWork) addKey(name string) bool {
	doomed := d.p.command("key", "add", "--name", name+"-doomed", "--scope", "lingzhu")
	if doomed.Start() == nil {
		doomed.Process.Kill()
		doomed.Wait()
	}
	var k addedKey
	out, err := d.p.try("key", "add", "--name", name, "--scope", "lingzhu", "--json")
	if err != nil || !decode(out, &k) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys = append(d.keys, k)
	return true
}

func (d *ackedWork) addBot(name string) bool {
	var b addedBot
	out, err := d.p.try("bot", "add", "--name", name, "--kind", "eyeclaw", "--json")
	if err != nil || !decode(out, &b) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bots = append(d.bots, b)
	return true
}

// check looks up everything acknowledged in the database.
func (d *ackedWork) check(t *testing.T) {
	// The audit trail verifies, and continues from its last head.
	verify := []string{"audit", "verify"}
	for _, h := range d.heads {
		verify = append(verify, "--expect", h)
	}
	var trail struct {
		Heads []string
		Rows  int
	}
	d.p.json(t, &trail, verify...)
	if d.heads = trail.Heads; trail.Rows == 0 {
		t.Error("the audit trail is empty")
	}
	t.Helper()
	db := storetest.Open(t, d.p.db)
	defer db.Close()
	traces, err := db.Traces.Newest(ctx, "", time.Now().Add(time.Hour), 100_000)
	must(t, err)
	traced := map[string]bool{}
	for _, tr := range traces {
		traced[tr.Conversation] = true
	}
	for _, session := range d.turns {
		if !traced[session] {
			t.Errorf("the finished trace of %s is lost", session)
		}
	}
	people, err := db.People.All(ctx)
	must(t, err)
	for _, user := range d.bound {
		if _, err := db.Bindings.Of(ctx, store.Wearer{Publisher: people[0].ID, UserID: user}); err != nil {
			t.Errorf("the binding of %s: %v", user, err)
		}
	}
	kept, err := db.Keys.ByPerson(ctx, "")
	must(t, err)
	ids := map[string]bool{}
	for _, k := range kept {
		ids[k.ID] = true
	}
	for _, k := range d.keys {
		if !ids[k.ID] {
			t.Errorf("the key %s is lost", k.ID)
		}
	}
	for _, b := range d.bots {
		if _, err := db.Bots.ByNumber(ctx, b.ID); err != nil {
			t.Errorf("the bot %d: %v", b.ID, err)
		}
	}
}

func decode(text string, into any) bool { return json.Unmarshal([]byte(text), into) == nil }

// A turn that is cut off by the death of the server has a trace.
func TestKilledTurnIsRecorded(t *testing.T) {
	model, err := openaitest.Start()
	must(t, err)
	t.Cleanup(model.Close)
	model.Answer = func(*openaitest.Request) openaitest.Reply {
		return openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("One, "), openaitest.Wait(t.Context().Done())}}
	}
	storetest.Each(t, func(t *testing.T, o store.Options) {
		p := newInstallation(o)
		p.run(t, "user", "add", "ada")
		var bot addedBot
		p.json(t, &bot, "bot", "add", "--name", "lobster", "--kind", "openai", "--set", "base_url="+model.URL,
			"--set", "model=m")
		var key addedKey
		p.json(t, &key, "key", "add", "--name", "glasses", "--scope", "lingzhu")
		s := p.serve(t)
		begun, over := make(chan struct{}), make(chan struct{})
		once := sync.OnceFunc(func() { close(begun) })
		go func() {
			defer close(over)
			_, _ = s.ask(key.Key, question(fmt.Sprint(bot.ID), "U", "cut", "count"), func(string) { once() }) // it is killed
		}()
		select {
		case <-begun:
		case <-over:
			t.Fatal("the answer has not begun")
		}
		s.kill()
		<-over
		p.serve(t)
		db := storetest.Open(t, o)
		defer db.Close()
		waitWithin(t, time.Minute, "the turn has a trace", func() bool {
			list, err := db.Traces.Newest(ctx, "", time.Now().Add(time.Hour), 10)
			must(t, err)
			return len(list) == 1 && list[0].Conversation == "cut" && list[0].Outcome == "failed" &&
				list[0].Code == "lost" && strings.Contains(list[0].Cause, "killed")
		})
	})
}
