package test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/proxytest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// longestSilence is how long a wearer who waits hears nothing, at most.
const longestSilence = 10 * time.Second

// Plugins, bots and the server restart at random moments while wearers ask all the time: nobody
// waits in silence, and what a bot has finished is told, once. RESTARTS is the number of restarts,
// RESTARTS_SEED repeats a run.
func TestRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	restarts, seed := 12, uint64(time.Now().UnixNano())
	if os.Getenv("CHECK_ALL") != "" {
		restarts = 100
	}
	for name, set := range map[string]func(uint64){
		"RESTARTS":      func(n uint64) { restarts = int(n) },
		"RESTARTS_SEED": func(n uint64) { seed = n },
	} {
		if s := os.Getenv(name); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			must(t, err)
			set(n)
		}
	}
	t.Logf("RESTARTS_SEED=%d", seed)
	l := newRestarted(t, seed)
	l.load(3)
	l.restart(restarts)
	l.stopLoad()
	l.awaitOwed()
	l.checkTraces()
	l.summarize()
}

// restarted is an installation whose parts restart while wearers ask.
type restarted struct {
	t      *testing.T
	p      *installation
	listen string
	key    string
	bots   []*countingBot
	server *server
	random *rand.Rand // of the restarts
	seed   uint64
	stalls *stalls

	claws   *claws
	eyes    *eyes
	gateway *countingGateway
	model   *proxytest.Proxy

	stopLoad func()
	wearers  []*wearer

	mu        sync.Mutex
	questions map[string]*askedToCount
	counts    map[string]int
	longest   time.Duration // silence
}

// countingBot is a bot, and what happens to it.
type countingBot struct {
	number string
	kind   string
	// disturbed is odd while something that the bot's answers need is restarted.
	disturbed atomic.Int64
}

// askedToCount is a question, and what has become of it.
type askedToCount struct {
	counting
	bot       *countingBot
	by        *wearer
	reports   map[string]bool
	heard     map[int]int // how often each piece was heard
	last      int         // piece that was heard
	connected bool        // the server has begun a response
}

// owed reports whether a wearer has yet to hear what the bot has finished.
func (q *askedToCount) owed() bool {
	return q.reports[reportFinished] && len(q.heard) < q.pieces
}

func newRestarted(t *testing.T, seed uint64) *restarted {
	l := &restarted{t: t, listen: freeAddress(t), seed: seed, random: rand.New(rand.NewPCG(seed, 0)),
		stalls: watchStalls(t), questions: map[string]*askedToCount{}, counts: map[string]int{}}
	l.p = newInstallation(store.Options{Folder: storetest.Folder(t, t.TempDir())}, "PATCHBAY_TRACE_CONTENT=true",
		// A question that an EyeClaw plugin has lost with its process ends then.
		"PATCHBAY_TURN_GRACE=15s")
	l.p.run(t, "user", "add", "ada")
	var token struct{ claw, eye string }
	l.gateway = newCountingGateway(t, l.report)
	model := newCountingModel(t, l.report)
	for kind, settings := range map[string][]string{
		"connector": {}, "eyeclaw": {},
		"openai":   {"--set", "base_url=http://" + model.Addr() + "/v1", "--set", "model=m"},
		"openclaw": {"--set", "url=ws://" + l.gateway.proxy.Addr(), "--set", "token=" + "token-of-a-test"},
	} {
		var bot addedBot
		l.p.json(t, &bot, append([]string{"bot", "add", "--name", kind, "--kind", kind}, settings...)...)
		switch kind {
		case "connector":
			token.claw = bot.SDKToken
		case "eyeclaw":
			token.eye = bot.SDKToken
		}
		l.bots = append(l.bots, &countingBot{number: fmt.Sprint(bot.ID), kind: kind})
	}
	slices.SortFunc(l.bots, func(a, b *countingBot) int { return strings.Compare(a.kind, b.kind) })
	var key addedKey
	l.p.json(t, &key, "key", "add", "--name", "glasses", "--scope", "lingzhu")
	l.key = key.Key
	l.server = l.p.serve(t, "--listen", l.listen)
	l.claws = newClaws(t, l.listen, token.claw, l.report)
	l.claws.awaitUp(l.claws.now)
	l.eyes = newEyes(t, l.listen, token.eye, l.report)
	l.model = model
	return l
}

// report takes what happens to a question at its bot.
func (l *restarted) report(question, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.questions[question]; q != nil {
		q.reports[what] = true
	}
}

// disturb runs a restart that affects the bots of some kinds; none means all.
func (l *restarted) disturb(do func(), kinds ...string) {
	change := func() {
		for _, b := range l.bots {
			if len(kinds) == 0 || slices.Contains(kinds, b.kind) {
				b.disturbed.Add(1)
			}
		}
	}
	change()
	do()
	change()
}

// restart restarts parts at random moments.
func (l *restarted) restart(times int) {
	ways := l.ways()
	names := slices.Sorted(maps.Keys(ways))
	slices.Reverse(names) // the server first: it stops faster as long as nothing is waited for
	for i := range times {
		netx.Wait(ctx, time.Duration(l.random.Int64N(int64(time.Second)))) //nolint:errcheck // ctx does not end
		// At first it is each way in turn, so that a short run has all of them.
		name := names[i%len(names)]
		if i >= len(names) {
			name = names[l.random.IntN(len(names))]
		}
		began := time.Now()
		ways[name]()
		l.count("restart: "+name, 1)
		if testing.Verbose() {
			l.t.Logf("%d: %s took %v", i+1, name, time.Since(began).Round(time.Millisecond))
		}
		if l.t.Failed() {
			l.t.Logf("stopped after %d restarts", i+1)
			return
		}
	}
}

// pause waits while something is down: mostly a moment, sometimes as long as an OpenClaw needs to
// start.
func (l *restarted) pause() {
	d := time.Duration(l.random.Int64N(int64(500 * time.Millisecond)))
	if l.random.IntN(20) == 0 {
		d = 12 * time.Second
	}
	netx.Wait(ctx, d) //nolint:errcheck // ctx does not end
}

// ways returns the ways to restart something.
func (l *restarted) ways() map[string]func() {
	serve := func() { l.server = l.p.serve(l.t, "--listen", l.listen) }
	claw := func(end func(*claw)) {
		l.disturb(func() {
			end(l.claws.now)
			l.pause()
			l.claws.now = l.claws.begin()
			l.claws.awaitUp(l.claws.now)
		}, "connector")
	}
	return map[string]func(){
		"server stopped": func() {
			l.disturb(func() {
				must(l.t, l.server.cmd.Process.Signal(syscall.SIGTERM))
				must(l.t, l.server.cmd.Wait())
				serve()
			})
		},
		"server killed": func() { l.disturb(func() { l.server.kill(); serve() }) },
		"connector cut": func() { l.disturb(l.claws.proxy.Drop, "connector") },
		"connector reloaded": func() {
			l.disturb(func() { l.claws.reload(l.claws.now); l.claws.awaitUp(l.claws.now) }, "connector")
		},
		"connector replaced": func() {
			l.disturb(func() {
				old := l.claws.now
				l.claws.now = l.claws.begin()
				l.claws.awaitUp(l.claws.now)
				l.claws.stop(old)
			}, "connector")
		},
		"agent stopped": func() { claw(l.claws.stop) },
		"agent killed":  func() { claw(l.claws.kill) },
		"plugin cut":    func() { l.disturb(l.eyes.plugin.Drop, "eyeclaw") },
		"plugin restarted": func() {
			l.disturb(func() { l.eyes.stop(); l.pause(); l.eyes.start() }, "eyeclaw")
		},
		"gateway cut": func() { l.disturb(l.gateway.proxy.Drop, "openclaw") },
		"gateway restarted": func() {
			l.disturb(func() { l.gateway.down(); l.pause(); l.gateway.up() }, "openclaw")
		},
		"model restarted": func() {
			l.disturb(func() { l.model.Cut(); l.pause(); l.model.Pass() }, "openai")
		},
	}
}

func (l *restarted) count(what string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[what] += n
}
