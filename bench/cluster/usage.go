package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/netx"
	"patchbay/test/built"
)

// usage is the cumulative usage at a time.
type usage struct {
	at                            time.Time
	servers, own, clients, tables time.Duration // processor time; own is mostly that of NATS
	in, out, bytesIn, bytesOut    float64       // on the bus
	commits, wal                  float64       // of PostgreSQL; reads are transactions too
	connCounts
}

// usage reads all counters. The processor time of ended processes is lost.
func (t *cluster) usage(ctx context.Context) (u usage, err error) {
	u = usage{at: time.Now(), own: built.CPU(os.Getpid()), tables: cpuOfPostgres()}
	for _, n := range t.inst {
		u.servers += n.CPU()
	}
	if t.fleet != nil {
		u.clients = t.fleet.cpu()
		r, _ := t.fleet.report()
		u.connCounts = r.connCounts
	}
	v, err := t.bus.Varz(nil)
	if err != nil {
		return u, err
	}
	u.in, u.out, u.bytesIn, u.bytesOut = float64(v.InMsgs), float64(v.OutMsgs), float64(v.InBytes), float64(v.OutBytes)
	return u, t.db.QueryRowContext(ctx, `SELECT sum(xact_commit), pg_current_wal_lsn() - '0/0' FROM pg_stat_database`).
		Scan(&u.commits, &u.wal)
}

// since returns the difference to an earlier usage.
func (u usage) since(was usage) usage {
	return usage{
		at: u.at, servers: u.servers - was.servers, own: u.own - was.own, clients: u.clients - was.clients,
		tables: u.tables - was.tables,
		in:     u.in - was.in, out: u.out - was.out, bytesIn: u.bytesIn - was.bytesIn,
		bytesOut: u.bytesOut - was.bytesOut,
		commits:  u.commits - was.commits, wal: u.wal - was.wal,
		connCounts: connCounts{u.Connects - was.Connects, u.Refused - was.Refused, u.Broken - was.Broken,
			u.Unreached - was.Unreached},
	}
}

// cpuOfPostgres is the processor time of the server that this process has started, and of its
// running children.
func cpuOfPostgres() (sum time.Duration) {
	parents := map[int]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") //nolint:errcheck // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, []byte("(postgres)")) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))                                     //nolint:errcheck // the kernel writes numbers
		parent, _ := strconv.Atoi(strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[1]) //nolint:errcheck // as above
		parents[pid] = parent
	}
	for pid, parent := range parents {
		if parent == os.Getpid() || parents[parent] == os.Getpid() {
			sum += built.CPU(pid)
		}
	}
	return sum
}

// memory is the memory of all instances together.
type memory struct {
	// In bytes; live is the estimated heap after garbage collection.
	rss, live  float64
	goroutines float64
}

// settle is the wait before memory is measured; meanwhile garbage is collected.
const settle = 15 * time.Second

func (t *cluster) memory(ctx context.Context) (m memory, err error) {
	_ = netx.Wait(ctx, settle)
	for _, n := range t.inst {
		m.rss += n.RSS()
		numbers, err := metrics(ctx, n.Address)
		if err != nil {
			return m, err
		}
		m.live += numbers["go_memstats_next_gc_bytes"] / 2 // half of it is live with GOGC=100
		m.goroutines += numbers["go_goroutines"]
	}
	return m, nil
}

// metrics returns the metrics of an instance that have no labels.
func metrics(ctx context.Context, address string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: time.Minute}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: %s: %w", res.Status, err)
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = n
		}
	}
	return all, nil
}
