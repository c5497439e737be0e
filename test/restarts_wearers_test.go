package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/rokid/sim"
	"patchbay/internal/store/storetest"
)

// The wearers of TestRestarts, and what is checked of what they hear.

// wearer asks one bot.
type wearer struct {
	*restarted
	id      int
	bot     *countingBot
	glasses *sim.Glasses
	random  *rand.Rand
	asked   int
}

// load has wearers ask each bot until stopLoad.
func (l *restarted) load(perBot int) {
	asking, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	for _, bot := range l.bots {
		for range perBot {
			id := len(l.wearers) + 1
			w := &wearer{restarted: l, id: id, bot: bot, random: rand.New(rand.NewPCG(l.seed, uint64(id))),
				glasses: sim.New(sim.Options{URL: "http://" + l.listen + "/sse/rokid", Key: l.key, AgentID: bot.number,
					UserID: fmt.Sprint("U", id), Timeout: 5 * time.Minute})}
			l.wearers = append(l.wearers, w)
			l.t.Cleanup(w.glasses.Close)
			work.Go(func() {
				for pause := time.Duration(0); netx.Wait(asking, pause) == nil; {
					pause = time.Duration(w.random.Int64N(int64(300 * time.Millisecond)))
					if !w.ask() {
						pause += 500 * time.Millisecond
					}
				}
			})
		}
	}
	l.stopLoad = sync.OnceFunc(func() { stop(); work.Wait() })
	l.t.Cleanup(l.stopLoad)
}

// ask asks a question, and checks what is heard meanwhile. It reports whether the answer came.
func (w *wearer) ask() (whole bool) {
	l := w.restarted
	if w.random.IntN(2) == 0 { // otherwise it interrupts what goes on in the same conversation
		w.glasses.NewSession()
	}
	w.asked++
	q := &askedToCount{counting: counting{name: fmt.Sprintf("q%dn%d", w.id, w.asked), pieces: 3 + w.random.IntN(5),
		gap: time.Duration(50+w.random.IntN(250)) * time.Millisecond}, bot: w.bot, by: w,
		reports: map[string]bool{}, heard: map[int]int{}}
	l.mu.Lock()
	l.questions[q.name] = q
	l.mu.Unlock()
	disturbed := w.bot.disturbed.Load()
	silent := l.stalls.since()
	var said []string
	longest := time.Duration(0)
	heard := func(what string) {
		if d := silent(); d > longest {
			longest = d
			if d > longestSilence {
				l.t.Errorf("%s at %s: nothing for %v, until %q; before: %q", q.name, w.bot.kind, d, what, said)
			}
		}
		silent = l.stalls.since()
	}
	a, err := w.glasses.Ask(ctx, q.text(), func(e sim.Event) {
		if e.Text != "" {
			heard(e.Text)
			said = append(said, e.Text)
		}
	})
	heard("the end")
	undisturbed := disturbed%2 == 0 && w.bot.disturbed.Load() == disturbed
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, longest)
	l.hear(w, a.Text)
	refused, isStatus := errors.AsType[*sim.StatusError](err)
	switch {
	case isStatus && undisturbed:
		l.t.Errorf("%s at %s: %v", q.name, w.bot.kind, refused)
	case err != nil && undisturbed:
		l.t.Errorf("%s at %s: %v", q.name, w.bot.kind, err)
	case err != nil:
		l.counts["not connected"]++
		return false
	}
	q.connected = true
	l.counts["questions"]++
	whole = len(q.heard) == q.pieces
	switch {
	case whole && a.Finished:
		l.counts["answered in full"]++
	case a.Finished:
		l.counts["told a failure"]++
	default:
		l.counts["cut with the server"]++
	}
	if undisturbed && (!a.Finished || !whole || len(a.Violations) > 0) {
		l.t.Errorf("%s at %s was answered %q (%v), and nothing was restarted", q.name, w.bot.kind, said, a.Violations)
	}
	return whole
}

var countedPiece = regexp.MustCompile(`(q\d+n\d+)p(\d)of\d`)

// hear notes the pieces in what a wearer hears. Requires mu.
func (l *restarted) hear(w *wearer, text string) {
	for _, m := range countedPiece.FindAllStringSubmatch(text, -1) {
		q, i := l.questions[m[1]], 0
		if q == nil {
			l.t.Errorf("wearer %d hears of %s", w.id, m[1])
			continue
		}
		i, _ = strconv.Atoi(m[2])
		q.heard[i]++
		switch {
		case q.by != w:
			l.t.Errorf("wearer %d hears %q, which is of wearer %d", w.id, m[0], q.by.id)
		case q.heard[i] > 1:
			l.t.Errorf("%q of %s is told twice, now in %q", m[0], q.bot.kind, text)
		case len(q.heard) > 1 && i < q.last:
			l.t.Errorf("%q of %s is told too late, in %q", m[0], q.bot.kind, text)
		}
		q.last = i
		if m[1] != fmt.Sprintf("q%dn%d", w.id, w.asked) && len(q.heard) == q.pieces {
			l.counts["told at a later turn"]++
		}
	}
}

// owed returns the questions whose answers their bots have finished and their wearers have not
// heard.
func (l *restarted) owed() (list []*askedToCount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.questions)) {
		if q := l.questions[name]; q.owed() {
			list = append(list, q)
		}
	}
	return list
}

// awaitOwed has wearers ask until they have heard everything that was finished.
func (l *restarted) awaitOwed() {
	late := time.Now().Add(time.Minute)
	for list := l.owed(); len(list) > 0; list = l.owed() {
		if time.Now().After(late) {
			for _, q := range list {
				l.t.Errorf("%s of %s was finished, and the wearer has heard only %v of %d (%v)", q.name, q.bot.kind,
					slices.Sorted(maps.Keys(q.heard)), q.pieces, q.reports)
			}
			return
		}
		for _, w := range l.wearers {
			if slices.ContainsFunc(list, func(q *askedToCount) bool { return q.by == w }) {
				w.ask()
			}
		}
	}
}

// checkTraces checks that each question that came to a bot is recorded once.
func (l *restarted) checkTraces() {
	if err := l.server.stop(); err != nil {
		l.t.Errorf("the server ends with %v", err)
	}
	db := storetest.Open(l.t, l.p.db)
	defer db.Close()
	list, err := db.Traces.Newest(ctx, "", time.Now().Add(time.Hour), 1_000_000)
	must(l.t, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	times := map[string]int{}
	for _, tr := range list {
		times[parseCounting(tr.Question).name]++
		if tr.Code == "lost" && strings.Contains(tr.Cause, "killed") {
			l.counts["recorded as cut"]++
		}
	}
	for name, q := range l.questions {
		n := times[name]
		if came := q.reports[reportBegan] || len(q.heard) > 0; n > 1 || n == 0 && came {
			l.t.Errorf("%s of %s has %d traces (heard %d pieces, %v)", name, q.bot.kind, n, len(q.heard), q.reports)
		}
		for _, how := range []string{reportStopped, reportKilled} {
			if q.reports[reportFinished] && q.reports[how] {
				l.counts["told though its connector was "+how+" before it could deliver"]++
			}
		}
		if q.reports[reportFinished] {
			l.counts["finished by connector and gateway"]++
		}
	}
}

func (l *restarted) summarize() {
	l.t.Logf("the longest silence was %v", l.longest.Round(time.Millisecond))
	for _, what := range slices.Sorted(maps.Keys(l.counts)) {
		l.t.Logf("%s: %d", what, l.counts[what])
	}
}

// stalls measures how long this process, and so probably this machine, did not run: a ticker that
// ticks late. That is no silence of the server.
type stalls struct{ total atomic.Int64 }

const stallTick = 20 * time.Millisecond

func watchStalls(t *testing.T) *stalls {
	s := new(stalls)
	watching, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for last := time.Now(); netx.Wait(watching, stallTick) == nil; last = time.Now() {
			if late := time.Since(last) - stallTick; late > stallTick {
				s.total.Add(int64(late))
			}
		}
	}()
	t.Cleanup(func() { stop(); <-over })
	return s
}

// since returns what tells the time from now on, without stalls.
func (s *stalls) since() func() time.Duration {
	began, before := time.Now(), s.total.Load()
	return func() time.Duration { return time.Since(began) - time.Duration(s.total.Load()-before) }
}
