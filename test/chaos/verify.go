package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/store"
)

// verdict is the result of the final check.
type verdict struct {
	ops, acked [kindCount]int
	missing    []string // acknowledged, but not in the database
	twice      []string // done or stored more than once
	undone     []string // acknowledged calls whose tool was never called
}

// verifyLimit is how long acknowledged work may take to appear in the database.
const verifyLimit = time.Minute

// verify looks for all acknowledged work until it is found or verifyLimit has passed.
func (l *load) verify(ctx context.Context) (*verdict, error) {
	db, err := store.Open(ctx, store.Options{URL: l.cluster.postgres.URL(databaseName),
		Folder: l.cluster.inst[0].Folder})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	for end := time.Now().Add(verifyLimit); ; {
		there, err := storedOps(ctx, db)
		if err != nil {
			return nil, err
		}
		v := l.judge(there)
		if len(v.missing) == 0 || time.Now().After(end) {
			return v, nil
		}
		_ = netx.Wait(ctx, time.Second)
	}
}

// storedOps counts the operations in the database, by kind and ID.
func storedOps(ctx context.Context, db *store.DB) (map[string]int, error) {
	there := map[string]int{}
	const page = 1000
	for after := (store.RecordCursor{}); ; {
		traces, err := db.Traces.Find(ctx, store.TraceFilter{Outcome: "done", After: after}, page)
		if err != nil {
			return nil, err
		}
		for _, t := range traces {
			there[t.Question]++
			after = store.RecordCursor{At: t.At, ID: t.Turn}
		}
		if len(traces) < page {
			break
		}
	}
	for after := (store.RecordCursor{}); ; {
		calls, err := db.Calls.Find(ctx, store.CallFilter{After: after}, page)
		if err != nil {
			return nil, err
		}
		for _, c := range calls {
			if strings.HasSuffix(c.Tool, "mark") && c.Outcome == "done" {
				there["call "+c.Args]++
			}
			after = store.RecordCursor{At: c.At, ID: c.ID}
		}
		if len(calls) < page {
			break
		}
	}
	people, err := db.People.All(ctx)
	if err != nil || len(people) != 1 {
		return nil, fmt.Errorf("%d people: %w", len(people), err)
	}
	var f store.PointFilter
	for after := (store.PointKey{}); ; {
		points, err := db.Learn.Points(ctx, people[0].ID, f, after, page)
		if err != nil {
			return nil, err
		}
		for i := range points {
			there[points[i].Question]++
			after = f.Key(&points[i])
		}
		if len(points) < page {
			break
		}
	}
	var last store.LogEntry
	for {
		log, err := db.Learn.Log(ctx, people[0].ID, 0, last.At, last.ID, page)
		if err != nil {
			return nil, err
		}
		for i := range log {
			there["review "+log[i].ID]++
			last = log[i]
		}
		if len(log) < page {
			return there, nil
		}
	}
}

// judge compares the recorded outcomes with the stored operations.
func (l *load) judge(there map[string]int) *verdict {
	v := &verdict{}
	l.mu.Lock()
	defer l.mu.Unlock()
	marks := &l.cluster.peers.marks
	marks.mu.Lock()
	defer marks.mu.Unlock()
	for _, o := range l.ops {
		v.ops[o.kind]++
		name := ""
		switch o.kind {
		case askEcho, askClaw:
			name = "question " + o.id
		case addPoint:
			name = "point " + o.id
		case review:
			name = "review " + o.id
		default:
			name = fmt.Sprintf(`call {"id":"%s"}`, o.id)
			if n := marks.times[o.id]; n > 1 {
				v.twice = append(v.twice, fmt.Sprintf("%s: %s was carried out %d times", o.kind, o.id, n))
			} else if n == 0 && o.outcome == outcomeDone {
				v.undone = append(v.undone, o.id)
			}
		}
		if n := there[name]; n > 1 {
			v.twice = append(v.twice, fmt.Sprintf("%s: %s is there %d times", o.kind, o.id, n))
		} else if n == 0 && o.outcome == outcomeDone {
			v.missing = append(v.missing, fmt.Sprintf("%s: %s of %s", o.kind, o.id, o.began.Format(time.TimeOnly)))
		}
		if o.outcome == outcomeDone {
			v.acked[o.kind]++
		}
	}
	return v
}

func (v *verdict) good() bool { return len(v.missing)+len(v.twice)+len(v.undone) == 0 }

func (v *verdict) print(w io.Writer, took time.Duration) {
	ops, acked := 0, 0
	for k := range kindCount {
		fmt.Fprintf(w, "%-12s %6d asked, %6d acknowledged\n", k, v.ops[k], v.acked[k])
		ops, acked = ops+v.ops[k], acked+v.acked[k]
	}
	fmt.Fprintf(w, "%d operations in %s, %d acknowledged: %d missing, %d twice, %d never carried out\n",
		ops, took.Round(time.Second), acked, len(v.missing), len(v.twice), len(v.undone))
	for _, list := range [][]string{v.missing, v.twice, v.undone} {
		for _, line := range list[:min(len(list), 10)] {
			fmt.Fprintln(w, " ", line)
		}
	}
}
