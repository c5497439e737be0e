package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// kind is a kind of operation.
type kind int

const (
	askEcho   kind = iota // a question that the instance itself answers
	askClaw               // a question that the plugin answers
	markHome              // a call of the tool server's tool
	markNode              // a call of the node's tool
	markBoard             // a call of the voice board's tool
	addPoint              // a knowledge point
	review                // a review of a point that all review
	kindCount
)

func (k kind) String() string {
	return [...]string{"echo", "plugin", "tool server", "node", "board", "point", "review"}[k]
}

// op is one operation and what came of it.
type op struct {
	id    string
	kind  kind
	began time.Time
	took  time.Duration
	heard heard
	words string // what was heard instead of what was wanted
}

// load asks, calls and adds, and remembers what was heard.
type load struct {
	town    *town
	o       options
	pause   time.Duration
	next    atomic.Int64
	stopped sync.Once
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu  sync.Mutex
	ops []op
}

func newLoad(t *town, o options) *load { return &load{town: t, o: o, pause: o.pace, cancel: func() {}} }

// start starts the workers: each does operations of all kinds in turns, one at a time.
func (l *load) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	for i := range l.o.workers {
		l.wg.Go(func() {
			for k := kind(i); ctx.Err() == nil; k++ {
				l.do(context.WithoutCancel(ctx), k%kindCount, "", i)
				select {
				case <-time.After(l.pause):
				case <-ctx.Done():
				}
			}
		})
	}
}

// stop lets the workers end what they are at.
func (l *load) stop() {
	l.stopped.Do(func() {
		l.cancel()
		l.wg.Wait()
	})
}

// do does one operation at an address, or through the front if that is empty, and remembers
// it. Who does it is somebody with a number.
func (l *load) do(ctx context.Context, k kind, base string, number int) op {
	t := l.town
	if base == "" {
		base = t.front.url("")
	}
	o := op{id: fmt.Sprintf("%d-%d", l.o.seed, l.next.Add(1)), kind: k, began: time.Now()}
	w := &wearer{client: fresh(), key: t.glasses, number: number}
	c := &caller{client: fresh(), key: t.desk, url: base + "/mcp"}
	switch k {
	case askEcho:
		o.heard, o.words = w.ask(ctx, base+"/sse/rokid", t.echo, "question "+o.id)
	case askClaw:
		o.heard, o.words = w.ask(ctx, base+"/sse/rokid", t.claw, "question "+o.id)
	case markHome:
		o.heard, o.words = c.call(ctx, "marks_mark", markArgs{o.id})
	case markNode:
		o.heard, o.words = c.call(ctx, t.peers.nodeTool, markArgs{o.id})
	case markBoard:
		o.heard, o.words = c.call(ctx, t.peers.boardTool, markArgs{o.id})
	case review:
		o.heard, o.words = c.call(ctx, "submit_review", map[string]any{"knowledge_point_id": t.points[number%len(t.points)], "grade": "good", "early": true, "review_id": o.id})
	case addPoint:
		o.heard, o.words = c.call(ctx, "create_knowledge_point", map[string]string{"question": "point " + o.id, "answer": o.id})
	}
	o.took = time.Since(o.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, o)
	return o
}

// probeLimit bounds one operation of [load.normal].
const probeLimit = 5 * time.Second

// normal has each instance do everything once, and says what does not work.
func (l *load) normal(ctx context.Context) error {
	errs := make([]error, instances*int(kindCount))
	var wg sync.WaitGroup
	for i, n := range l.town.inst {
		for k := range kindCount {
			wg.Go(func() {
				limit, cancel := context.WithTimeout(ctx, probeLimit)
				defer cancel()
				number := l.o.workers + len(errs)*i + int(k) // nobody who asks otherwise
				if o := l.do(limit, k, "http://"+n.Address, number); o.heard != done {
					errs[i*int(kindCount)+int(k)] = fmt.Errorf("%s at %s: %.150s", k, n.Name, o.words)
				}
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// warm waits until everything works.
func (l *load) warm(ctx context.Context) error {
	end := time.Now().Add(time.Minute)
	for {
		err := l.normal(ctx)
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

// line is what is told about a fault.
type line struct {
	lasted             time.Duration
	done, told, broken int
	longest            op // until somebody had an answer, good or bad
	normal             string
	first              int // of the operations
}

const (
	// recovery is how long after the end of a fault everything has to work.
	recovery = 15 * time.Second
	// patience is how long is waited for that.
	patience = 2 * time.Minute
	// rest is the pause after a fault.
	rest = 2 * time.Second
)

// suffer has a fault happen, and waits until everything works again. The error says what
// does not.
func (l *load) suffer(ctx context.Context, f fault) (out line, err error) {
	began := time.Now()
	l.mu.Lock()
	out.first = len(l.ops)
	l.mu.Unlock()
	if err := f.kind.do(ctx, l.town, f); err != nil {
		return out, fmt.Errorf("the fault itself: %w", err)
	}
	ended := time.Now()
	out.lasted = ended.Sub(began)
	for {
		err = l.normal(ctx)
		if err == nil || time.Since(ended) > patience || ctx.Err() != nil {
			break
		}
	}
	after := time.Since(ended)
	out.normal = short(after)
	if err == nil && after > recovery {
		out.normal += " (late)"
	}
	defer pause(ctx, rest)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.ops {
		o := &l.ops[i]
		if o.began.Add(o.took).Before(began) || o.began.After(ended.Add(after)) {
			continue
		}
		switch o.heard {
		case done:
			out.done++
		case told:
			out.told++
		case broken:
			out.broken++
		}
		if o.took > out.longest.took {
			out.longest = *o
		}
	}
	return out, err
}

// ports differ from one operation to the next, and tell nothing.
var ports = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// said counts what was heard instead of what was wanted since some operation: the words that
// come most often first.
func (l *load) said(from int) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	times := map[string]int{}
	for _, o := range l.ops[from:] {
		if o.heard != done {
			times[fmt.Sprintf("%s %s: %.160s", o.heard, o.kind, ports.ReplaceAllString(strings.ReplaceAll(o.words, o.id, "…"), "…"))]++
		}
	}
	list = slices.SortedFunc(maps.Keys(times), func(a, b string) int { return cmp.Or(times[b]-times[a], strings.Compare(a, b)) })
	for i, text := range list {
		list[i] = fmt.Sprintf("%6d × %s", times[text], strings.ReplaceAll(text, "\n", " "))
	}
	return list
}
