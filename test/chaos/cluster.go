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

// instances is the number of instances, and of NATS servers.
const instances = 3

// cluster is everything that runs: the database, the bus, the instances, and the peers.
type cluster struct {
	dir      string
	disk     string // the database's own disk; empty: none
	program  string
	postgres *storetest.Server
	bus      [instances]*busServer
	inst     [instances]*instance
	balancer *balancer
	peers    *peers

	glasses, desk, node string // keys
	echo, claw          int64  // numbers of bots
	clawToken           string
	points              [4]string // IDs of the points to review
}

const databaseName = "chaos"

// openCluster starts and sets up everything.
func openCluster(ctx context.Context) (t *cluster, err error) {
	t = &cluster{}
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
	if t.balancer, err = startBalancer(t.inst[:]); err != nil {
		return t, err
	}
	for _, n := range t.inst {
		if err := n.Start(); err != nil {
			return t, err
		}
	}
	if err := t.balancer.await(ctx); err != nil {
		return t, err
	}
	if t.peers, err = t.connectPeers(ctx); err != nil {
		return t, err
	}
	return t, t.addPoints(ctx)
}

// addPoints adds the points to review.
func (t *cluster) addPoints(ctx context.Context) error {
	c := &caller{client: fresh(), key: t.desk, url: t.balancer.url("/mcp")}
	for i := range t.points {
		heard, words := c.call(ctx, "create_knowledge_point",
			map[string]string{"question": fmt.Sprint("reviewed ", i), "answer": "again and again"})
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(words), &made); heard != outcomeDone || err != nil {
			return fmt.Errorf("a point to review: %s %w", words, err)
		}
		t.points[i] = made.ID
	}
	return nil
}

// close stops everything; with forget it removes the folder.
func (t *cluster) close(forget bool) {
	if t.peers != nil {
		t.peers.close()
	}
	for _, n := range t.inst {
		if n != nil {
			n.close()
		}
	}
	if t.balancer != nil {
		t.balancer.close()
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
		syscall.Unmount(t.disk, syscall.MNT_DETACH) //nolint:errcheck // if it fails, removing the folder fails too
	}
	if forget && t.dir != "" {
		os.RemoveAll(t.dir)
	}
}

// diskSize is the size of the database's disk, in bytes.
const diskSize = 2 << 30

// mountDisk mounts a disk in memory for the database, which a fault can fill. Without the
// permission to mount, the database has no disk of its own.
func (t *cluster) mountDisk() error {
	disk := filepath.Join(t.dir, "disk")
	// PostgreSQL runs as another user
	if err := errors.Join(os.Chmod(t.dir, 0o755), os.Mkdir(disk, 0o755)); err != nil {
		return err
	}
	if syscall.Mount("none", disk, "tmpfs", 0, fmt.Sprint("size=", diskSize)) != nil {
		return nil
	}
	t.disk = disk
	return os.Setenv("TMPDIR", disk) // where the database's folder is created
}

// fillDisk fills the database's disk.
func (t *cluster) fillDisk() error {
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

func (t *cluster) filler() string { return filepath.Join(t.disk, "filler") }

func (t *cluster) createDatabase(ctx context.Context) error {
	db, err := sql.Open("pgx", t.postgres.URL("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+databaseName)
	return err
}

// setUp creates the accounts, bots and keys before the instances start.
func (t *cluster) setUp() error {
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

// instance is one server with its proxies to the database and the bus.
type instance struct {
	*built.Instance
	mqtt     string // MQTT address for boards
	database *proxytest.Proxy
	bus      [instances]*proxytest.Proxy
}

func (t *cluster) newInstance(i int) (n *instance, err error) {
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
