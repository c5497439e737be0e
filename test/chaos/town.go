package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib"

	"patchbay/internal/proxytest"
	"patchbay/internal/store/storetest"
	"patchbay/test/built"
)

// instances is how many there are, and of NATS servers too.
const instances = 3

// town is everything that runs: the database, the bus, the instances, what is plugged in.
type town struct {
	dir      string
	disk     string // the database's own; empty: it has none
	program  string
	postgres *storetest.Server
	bus      [instances]*busServer
	inst     [instances]*instance
	front    *front
	peers    *peers

	glasses, desk, node string // keys
	echo, claw          int64  // numbers of bots
	clawToken           string
	points              [4]string // the ids of those that are reviewed
}

const databaseName = "chaos"

// openTown starts everything, and sets it up.
func openTown(ctx context.Context) (t *town, err error) {
	t = &town{}
	defer func() {
		if err != nil {
			t.close(false)
			t = nil
		}
	}()
	if t.dir, err = os.MkdirTemp("", "patchbay-chaos-"); err != nil {
		return t, err
	}
	if t.program, err = built.Program(t.dir); err != nil {
		return t, err
	}
	if err := t.mountDisk(); err != nil {
		return t, err
	}
	if t.postgres, err = storetest.StartServer(false); err != nil {
		return t, err
	}
	if err := t.createDatabase(ctx); err != nil {
		return t, err
	}
	if err := t.startBus(); err != nil {
		return t, err
	}
	for i := range t.inst {
		if t.inst[i], err = t.newInstance(i); err != nil {
			return t, err
		}
	}
	if err := t.setUp(); err != nil {
		return t, err
	}
	if t.front, err = startFront(t.inst[:]); err != nil {
		return t, err
	}
	for _, n := range t.inst {
		if err := n.Start(); err != nil {
			return t, err
		}
	}
	if err := t.front.await(ctx); err != nil {
		return t, err
	}
	if t.peers, err = t.plugIn(ctx); err != nil {
		return t, err
	}
	return t, t.addPoints(ctx)
}

// addPoints adds the points that are reviewed.
func (t *town) addPoints(ctx context.Context) error {
	c := &caller{client: fresh(), key: t.desk, url: t.front.url("/mcp")}
	for i := range t.points {
		heard, words := c.call(ctx, "create_knowledge_point", map[string]string{"question": fmt.Sprint("reviewed ", i), "answer": "again and again"})
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(words), &made); heard != done || err != nil {
			return fmt.Errorf("a point to review: %s %w", words, err)
		}
		t.points[i] = made.ID
	}
	return nil
}

// close stops everything; forget removes the folder.
func (t *town) close(forget bool) {
	if t.peers != nil {
		t.peers.close()
	}
	for _, n := range t.inst {
		if n != nil {
			n.close()
		}
	}
	if t.front != nil {
		t.front.close()
	}
	for _, b := range t.bus {
		if b != nil {
			b.stop()
		}
	}
	if t.postgres != nil {
		t.postgres.Close()
	}
	if t.disk != "" {
		syscall.Unmount(t.disk, syscall.MNT_DETACH) //nolint:errcheck // the folder's removal tells
	}
	if forget && t.dir != "" {
		os.RemoveAll(t.dir)
	}
}

// diskSize is how large the database's disk is.
const diskSize = 2 << 30

// mountDisk gives the database a disk of its own, in memory, which can be filled. Who may not
// mount goes without.
func (t *town) mountDisk() error {
	disk := filepath.Join(t.dir, "disk")
	if err := errors.Join(os.Chmod(t.dir, 0o755), os.Mkdir(disk, 0o755)); err != nil { // PostgreSQL runs as somebody else
		return err
	}
	if syscall.Mount("none", disk, "tmpfs", 0, fmt.Sprint("size=", diskSize)) != nil {
		return nil
	}
	t.disk = disk
	return os.Setenv("TMPDIR", disk) // where it puts its data
}

// fillDisk fills the database's disk.
func (t *town) fillDisk() error {
	f, err := os.Create(t.filler())
	if err != nil {
		return err
	}
	defer f.Close()
	for zeros := make([]byte, 1<<20); len(zeros) > 0; {
		if _, err := f.Write(zeros); errors.Is(err, syscall.ENOSPC) {
			zeros = zeros[:len(zeros)/16]
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (t *town) filler() string { return filepath.Join(t.disk, "filler") }

func (t *town) createDatabase(ctx context.Context) error {
	db, err := sql.Open("pgx", t.postgres.URL("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+databaseName)
	return err
}

// setUp makes the accounts, bots and keys, before anything runs.
func (t *town) setUp() error {
	first := t.inst[0]
	var bot struct {
		ID       int64  `json:"id"`
		SDKToken string `json:"sdk_token"`
	}
	var key struct {
		Key string `json:"key"`
	}
	return errors.Join(
		first.Command(nil, "user", "add", "ada"),
		first.Command(&bot, "bot", "add", "--name", "parrot", "--kind", "echo"),
		take(&t.echo, &bot.ID),
		first.Command(&bot, "bot", "add", "--name", "claw", "--kind", "eyeclaw"),
		take(&t.claw, &bot.ID), take(&t.clawToken, &bot.SDKToken),
		first.Command(&key, "key", "add", "--name", "glasses", "--scope", "lingzhu"),
		take(&t.glasses, &key.Key),
		first.Command(&key, "key", "add", "--name", "desk", "--scope", "mcp", "--scope", "learn"),
		take(&t.desk, &key.Key),
		first.Command(&key, "key", "add", "--name", "node", "--scope", "node"),
		take(&t.node, &key.Key),
	)
}

func take[T any](to, from *T) error {
	*to = *from
	return nil
}

// instance is one server, with its ways to the database and the bus.
type instance struct {
	*built.Instance
	mqtt     string // where boards on MQTT connect
	database *proxytest.Proxy
	bus      [instances]*proxytest.Proxy
}

func (t *town) newInstance(i int) (n *instance, err error) {
	n = &instance{}
	if n.mqtt, err = built.FreeAddress(); err != nil {
		return nil, err
	}
	if n.database, err = proxytest.Start(t.postgres.Addr()); err != nil {
		return nil, err
	}
	var urls []string
	for j := range n.bus {
		if n.bus[j], err = proxytest.Start(t.bus[j].address); err != nil {
			return nil, err
		}
		urls = append(urls, "nats://"+n.bus[j].Addr())
	}
	database := strings.Replace(t.postgres.URL(databaseName), t.postgres.Addr(), n.database.Addr(), 1)
	n.Instance, err = built.NewInstance(t.program, t.dir, string(rune('a'+i)),
		"PATCHBAY_DATABASE_URL="+database, "PATCHBAY_BUS_URL="+strings.Join(urls, ","),
		"PATCHBAY_SECRET="+strings.Repeat("c4", 32), "PATCHBAY_TRACE_CONTENT=true", "PATCHBAY_AUDIT_ARGS=true",
		"PATCHBAY_XIAOZHI_TRANSPORT=mqtt", "PATCHBAY_XIAOZHI_MQTT="+n.mqtt, "PATCHBAY_XIAOZHI_AUDIO=127.0.0.1:0",
		"PATCHBAY_FETCH_PRIVATE_HOSTS=127.0.0.1", "PATCHBAY_LIMITS_CALL_RATE=1000000")
	return n, err
}

func (n *instance) close() {
	n.Close()
	for _, p := range append(n.bus[:], n.database) {
		if p != nil {
			p.Close()
		}
	}
}
