package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

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
		if err := n.start(ctx); err != nil {
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
		first.command(nil, "user", "add", "ada"),
		first.command(&bot, "bot", "add", "--name", "parrot", "--kind", "echo"),
		take(&t.echo, &bot.ID),
		first.command(&bot, "bot", "add", "--name", "claw", "--kind", "eyeclaw"),
		take(&t.claw, &bot.ID), take(&t.clawToken, &bot.SDKToken),
		first.command(&key, "key", "add", "--name", "glasses", "--scope", "lingzhu"),
		take(&t.glasses, &key.Key),
		first.command(&key, "key", "add", "--name", "desk", "--scope", "mcp", "--scope", "learn"),
		take(&t.desk, &key.Key),
		first.command(&key, "key", "add", "--name", "node", "--scope", "node"),
		take(&t.node, &key.Key),
	)
}

func take[T any](to, from *T) error {
	*to = *from
	return nil
}

// instance is one server: its folder, its ways to the database and the bus, its process.
type instance struct {
	name     string
	program  string
	folder   string
	address  string // at which it listens
	mqtt     string // and for boards on MQTT
	env      []string
	database *proxytest.Proxy
	bus      [instances]*proxytest.Proxy
	log      *os.File

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

func (t *town) newInstance(i int) (n *instance, err error) {
	n = &instance{name: string(rune('a' + i)), program: t.program}
	n.folder = filepath.Join(t.dir, n.name)
	if err := os.Mkdir(n.folder, 0o700); err != nil {
		return nil, err
	}
	if n.log, err = os.Create(filepath.Join(t.dir, n.name+".log")); err != nil {
		return nil, err
	}
	if n.address, err = freeAddress(); err != nil {
		return nil, err
	}
	if n.mqtt, err = freeAddress(); err != nil {
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
	n.env = append(os.Environ(), "LANG=en_US.UTF-8", "PATCHBAY_LANG=en", "PATCHBAY_DATA="+n.folder, "PATCHBAY_LISTEN="+n.address,
		"PATCHBAY_DATABASE_URL="+database, "PATCHBAY_BUS_URL="+strings.Join(urls, ","), "PATCHBAY_BUS_NAME="+n.name,
		"PATCHBAY_SECRET="+strings.Repeat("c4", 32), "PATCHBAY_TRACE_CONTENT=true", "PATCHBAY_AUDIT_ARGS=true",
		"PATCHBAY_XIAOZHI_TRANSPORT=mqtt", "PATCHBAY_XIAOZHI_MQTT="+n.mqtt, "PATCHBAY_XIAOZHI_AUDIO=127.0.0.1:0",
		"PATCHBAY_FETCH_PRIVATE_HOSTS=127.0.0.1", "PATCHBAY_LIMITS_CALL_RATE=1000000")
	return n, nil
}

// command runs a command on its folder, and reads the JSON that it prints.
func (n *instance) command(out any, args ...string) error {
	cmd := exec.Command(n.program, append(args, "--json")...)
	cmd.Env = n.env
	var complaint strings.Builder
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		return fmt.Errorf("patchbay %s: %w\n%s%s", strings.Join(args, " "), err, complaint.String(), text)
	}
	return nil
}

// start starts its process, and does not wait until it is ready.
func (n *instance) start(context.Context) error {
	cmd := exec.Command(n.program, "serve")
	cmd.Env, cmd.Stderr = n.env, n.log
	if err := cmd.Start(); err != nil {
		return err
	}
	n.cmd, n.ended = cmd, make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // it is killed, or says in its log what is wrong
		close(n.ended)
	}()
	return nil
}

// signal sends a signal to its process.
func (n *instance) signal(s os.Signal) error {
	if n.cmd == nil {
		return errors.New("it does not run")
	}
	return n.cmd.Process.Signal(s)
}

// await waits until its process has ended, and kills it if that takes too long.
func (n *instance) await(patience time.Duration) {
	select {
	case <-n.ended:
	case <-time.After(patience):
		n.cmd.Process.Kill() //nolint:errcheck // it has ended
		<-n.ended
	}
}

func (n *instance) close() {
	if n.cmd != nil {
		n.cmd.Process.Kill() //nolint:errcheck // it has ended already
		<-n.ended
	}
	for _, p := range append(n.bus[:], n.database) {
		if p != nil {
			p.Close()
		}
	}
	if n.log != nil {
		n.log.Close()
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
