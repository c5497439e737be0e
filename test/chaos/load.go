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

	"patchbay/internal/netx"
)

// kind is a kind of operation.
type kind int

const (
	askEcho   kind = iota // a question that the instance answers
	askClaw               // a question that the plugin answers
	markHome              // a call of the tool server's tool
	markNode              // a call of the node's tool
	markBoard             // a call of the voice board's tool
	addPoint              // a new knowledge point
	review                // a review of a point that all workers review
	kindCount
)

func (k kind) String() string {
	return [...]string{"echo", "plugin", "tool server", "node", "board", "point", "review"}[k]
}

// op is one operation with its outcome.
type op struct {
	id      string
	kind    kind
	began   time.Time
	told    time.Duration // until the first words, or until the end if there were none
	took    time.Duration // until the end
	outcome outcome
	words   string // received in place of the expected answer
}

// load runs operations and records their outcomes.
type load struct {
	cluster *cluster
	o       options
	pause   time.Duration
	next    atomic.Int64
	stopped sync.Once
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu  sync.Mutex
	ops []op
}

func newLoad(t *cluster, o options) *load {
	return &load{cluster: t, o: o, pause: o.pace, cancel: func() {}}
}

// start starts the workers. Each runs operations of all kinds in turn, one at a time.
func (l *load) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	for i := range l.o.workers {
		l.wg.Go(func() {
			for k := kind(i); ctx.Err() == nil; k++ {
				l.do(context.WithoutCancel(ctx), k%kindCount, "", i)
				_ = netx.Wait(ctx, l.pause)
			}
		})
	}
}

// stop lets the workers finish their current operations.
func (l *load) stop() {
	l.stopped.Do(func() {
		l.cancel()
		l.wg.Wait()
	})
}

// do runs one operation at an address, or through the balancer if base is empty, and records it.
// number identifies the client.
func (l *load) do(ctx context.Context, k kind, base string, number int) op {
	t := l.cluster
	if base == "" {
		base = t.balancer.url("")
	}
	o := op{id: fmt.Sprintf("%d-%d", l.o.seed, l.next.Add(1)), kind: k, began: time.Now()}
	w := &wearer{client: fresh(), key: t.glasses, number: number}
	c := &caller{client: fresh(), key: t.desk, url: base + "/mcp"}
	switch k {
	case askEcho:
		o.outcome, o.words, o.told = w.ask(ctx, base+"/sse/rokid", t.echo, "question "+o.id)
	case askClaw:
		o.outcome, o.words, o.told = w.ask(ctx, base+"/sse/rokid", t.claw, "question "+o.id)
	case markHome:
		o.outcome, o.words = c.call(ctx, "marks_mark", markArgs{o.id})
	case markNode:
		o.outcome, o.words = c.call(ctx, t.peers.nodeTool, markArgs{o.id})
	case markBoard:
		o.outcome, o.words = c.call(ctx, t.peers.boardTool, markArgs{o.id})
	case review:
		o.outcome, o.words = c.call(ctx,
			"submit_review", map[string]any{"knowledge_point_id": t.points[number%len(t.points)], "grade": "good",
				"early": true, "review_id": o.id})
	case addPoint:
		o.outcome, o.words = c.call(ctx, "create_knowledge_point",
			map[string]string{"question": "point " + o.id, "answer": o.id})
	}
	o.took = time.Since(o.began)
	o.told = cmp.Or(o.told, o.took)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, o)
	return o
}

// probeLimit is the timeout of one operation of [load.probeAll].
const probeLimit = 5 * time.Second

// probeAll runs every operation once on each instance. The error lists the failures.
func (l *load) probeAll(ctx context.Context) error {
	errs := make([]error, instances*int(kindCount))
	var wg sync.WaitGroup
	for i, n := range l.cluster.inst {
		for k := range kindCount {
			wg.Go(func() {
				limit, cancel := context.WithTimeout(ctx, probeLimit)
				defer cancel()
				number := l.o.workers + len(errs)*i + int(k) // distinct from the workers' numbers
				if o := l.do(limit, k, "http://"+n.Address, number); o.outcome != outcomeDone {
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
		err := l.probeAll(ctx)
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

// faultResult is the report on a fault.
type faultResult struct {
	lasted                time.Duration
	done, refused, broken int
	told                  time.Duration // the longest wait of a client for the first words
	longest               op            // the operation that took longest
	normal                string
	first                 int // index of the first operation
}

const (
	// recovery is how long after the end of a fault everything must work again.
	recovery = 15 * time.Second
	// patience is how long the run waits for that.
	patience = 2 * time.Minute
	// rest is the pause after a fault.
	rest = 2 * time.Second
)

// runFault runs a fault and waits until everything works again. The error lists what does not.
func (l *load) runFault(ctx context.Context, f fault) (out faultResult, err error) {
	began := time.Now()
	l.mu.Lock()
	out.first = len(l.ops)
	l.mu.Unlock()
	if err := f.kind.do(ctx, l.cluster, f); err != nil {
		return out, fmt.Errorf("the fault itself: %w", err)
	}
	ended := time.Now()
	out.lasted = ended.Sub(began)
	for {
		err = l.probeAll(ctx)
		if err == nil || time.Since(ended) > patience || ctx.Err() != nil {
			break
		}
	}
	after := time.Since(ended)
	out.normal = short(after)
	if err == nil && after > recovery {
		out.normal += " (late)"
	}
	defer netx.Wait(ctx, rest)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.ops {
		o := &l.ops[i]
		if o.began.Add(o.took).Before(began) || o.began.After(ended.Add(after)) {
			continue
		}
		switch o.outcome {
		case outcomeDone:
			out.done++
		case outcomeRefused:
			out.refused++
		case outcomeBroken:
			out.broken++
		}
		out.told = max(out.told, o.told)
		if o.took > out.longest.took {
			out.longest = *o
		}
	}
	return out, err
}

// ports differ between operations and carry no information.
var ports = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// logLines counts the unexpected answers since an operation, most frequent first.
func (l *load) logLines(from int) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	times := map[string]int{}
	for _, o := range l.ops[from:] {
		if o.outcome != outcomeDone {
			times[fmt.Sprintf("%s %s: %.160s", o.outcome, o.kind,
				ports.ReplaceAllString(strings.ReplaceAll(o.words, o.id, "…"), "…"))]++
		}
	}
	list = slices.SortedFunc(maps.Keys(times), func(a, b string) int {
		return cmp.Or(times[b]-times[a],
			strings.Compare(a, b))
	})
	for i, text := range list {
		list[i] = fmt.Sprintf("%6d × %s", times[text], strings.ReplaceAll(text, "\n", " "))
	}
	return list
}
