package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/nats-io/nats-server/v2/server"

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/test/built"
)

const (
	instances = 3
	// perPerson is the number of devices of one person.
	perPerson = 5
	// fillers is the number of devices that are added at a time, before anything runs.
	fillers = 8
	// pinned is the number of boards that connect to the instance given by their number, so that
	// their holder is known. They belong to the caller.
	pinned = 4 * instances
)

// cluster is the installation with all its processes.
type cluster struct {
	options
	dir      string
	postgres *storetest.Server
	db       *sql.DB
	bus      *server.Server
	inst     [instances]*built.Instance
	backends []backend
	fleet    *fleet
	key      string // of the owner of the pinned boards
}

// backend holds the addresses of an instance.
type backend struct {
	HTTP string `json:"http"`
	MQTT string `json:"mqtt"`
}

// openCluster starts the databases, and creates instances that do not run yet.
func openCluster(o options) (t *cluster, err error) {
	t = &cluster{options: o}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if t.dir, err = os.MkdirTemp("", "patchbay-bench-"); err != nil {
		return nil, err
	}
	program, err := built.Program(t.dir)
	if err != nil {
		return nil, err
	}
	if t.postgres, err = storetest.StartServer(true); err != nil {
		return nil, err
	}
	if t.db, err = sql.Open("pgx", t.postgres.URL("postgres")); err != nil {
		return nil, err
	}
	if t.bus, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true,
		NoSigs: true}); err != nil {
		return nil, err
	}
	t.bus.Start()
	if !t.bus.ReadyForConnections(20 * time.Second) {
		return nil, errors.New("the NATS server did not get ready")
	}
	for i := range t.inst {
		mqtt, err := built.FreeAddress()
		if err != nil {
			return nil, err
		}
		t.inst[i], err = built.NewInstance(program, t.dir, string(rune('a'+i)),
			"PATCHBAY_DATABASE_URL="+t.postgres.URL("postgres"), "PATCHBAY_BUS_URL="+t.bus.ClientURL(),
			"PATCHBAY_SECRET="+strings.Repeat("c4", 32),
			"PATCHBAY_LIMITS_CALL_RATE=0", "PATCHBAY_XIAOZHI_TRANSPORT=mqtt", "PATCHBAY_XIAOZHI_MQTT="+mqtt,
			"PATCHBAY_XIAOZHI_AUDIO=127.0.0.1:0",
			"PATCHBAY_XIAOZHI_BROKER="+brokerAddress, "PATCHBAY_LOG_LEVEL=warn")
		if err != nil {
			return nil, err
		}
		t.backends = append(t.backends, backend{t.inst[i].Address, mqtt})
	}
	var key struct {
		Key string `json:"key"`
	}
	err = t.inst[0].Command(nil, "user", "add", "ada")
	if err == nil {
		err = t.inst[0].Command(&key, "key", "add", "--name", "bench", "--scope", "operator")
	}
	t.key = key.Key
	return t, err
}

// close stops everything.
func (t *cluster) close() {
	if t.fleet != nil {
		t.fleet.stop()
	}
	for _, n := range t.inst {
		if n != nil {
			n.Close()
		}
	}
	if t.bus != nil {
		t.bus.Shutdown()
	}
	if t.db != nil {
		t.db.Close()
	}
	if t.postgres != nil {
		t.postgres.Close()
	}
	if t.keep {
		fmt.Fprintln(os.Stderr, "the logs are in", t.dir)
	} else if t.dir != "" {
		os.RemoveAll(t.dir)
	}
}

// start starts all instances, and waits until they are ready.
func (t *cluster) start(ctx context.Context) error {
	for _, n := range t.inst {
		if err := n.Start(); err != nil {
			return err
		}
		if err := n.Ready(ctx); err != nil {
			return fmt.Errorf("instance %s: %w", n.Name, err)
		}
	}
	return nil
}

// device is a node with its identity and credentials.
type device struct {
	Identity wire.Identity `json:"identity"`
	Token    string        `json:"token"`
}

// fill adds all devices as their owners would, and writes the identities of the nodes to a file.
func (t *cluster) fill(ctx context.Context) error {
	// These changes are not measured, so commits do not wait for the disk.
	if _, err := t.db.ExecContext(ctx, `ALTER DATABASE postgres SET synchronous_commit = off`); err != nil {
		return err
	}
	defer t.db.Exec(`ALTER DATABASE postgres RESET synchronous_commit`) //nolint:errcheck // otherwise commits would seem faster
	base, err := t.openBase(ctx)
	if err != nil {
		return err
	}
	defer base.Close()
	ada, err := base.Store.People.ByName(ctx, "ada")
	if err != nil {
		return err
	}
	people := make([]string, (t.boards+t.nodes)/perPerson+1)
	err = each(ctx, len(people), func(i int) error {
		p, err := base.Accounts.AddPerson(ctx, fmt.Sprint("person ", i), account.RoleMember, "en", "")
		people[i] = p.ID
		return err
	})
	if err == nil {
		err = each(ctx, t.boards, func(i int) error {
			owner := people[i/perPerson]
			if i < pinned {
				owner = ada.ID
			}
			return addBoard(ctx, base, i, owner)
		})
	}
	nodes := make([]device, t.nodes)
	if err == nil {
		err = each(ctx, t.nodes, func(i int) (err error) {
			nodes[i], err = addNode(ctx, base, i, people[(t.boards+i)/perPerson])
			return err
		})
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(nodes)
	if err != nil {
		return err
	}
	return os.WriteFile(t.nodesFile(), text, 0o600)
}

// openBase opens the base of the instances, like commands do.
func (t *cluster) openBase(ctx context.Context) (*app.Base, error) {
	c, _, err := config.Load(config.Sources{Env: t.inst[0].Env})
	if err != nil {
		return nil, err
	}
	return app.OpenBase(ctx, c, "bench", slog.New(slog.DiscardHandler))
}

func (t *cluster) nodesFile() string { return filepath.Join(t.dir, "nodes.json") }

func addBoard(ctx context.Context, base *app.Base, number int, owner string) error {
	mac, client := boardID(number)
	_, code, err := base.Accounts.DeviceSeen(ctx, store.DeviceCall{Kind: xiaozhi.Kind, Hardware: mac, Client: client,
		Article: "bread-compact-wifi", At: time.Now()})
	if err == nil {
		_, err = base.Accounts.ApproveByCode(ctx, account.NewDevice{Person: owner, Code: code})
	}
	return err
}

// addNode pairs a node, and approves its commands.
func addNode(ctx context.Context, base *app.Base, number int, owner string) (device, error) {
	d := device{Identity: wire.NewIdentity()}
	peers := base.Store.Peers
	r := store.PeerRequest{
		Kind: store.RequestDevice, Peer: d.Identity.ID(), Owner: owner, Address: "127.0.0.1", Refreshed: time.Now(),
		Ask: store.PeerAsk{
			PublicKey: d.Identity.PublicKey(), Name: nodeName(number), Platform: wire.Linux,
			Family: "Linux", ClientID: wire.ClientNode, ClientMode: wire.ModeNode,
			Version: "1", Roles: []string{wire.RoleNode},
		},
	}
	var p store.Peer
	for _, kind := range []string{store.RequestDevice, store.RequestSurface} {
		r.ID, r.Kind = fmt.Sprint(kind, number), kind
		if kind == store.RequestSurface {
			r.Ask.Roles, r.Ask.Caps, r.Ask.Commands = nil, nodeCaps, nodeCommands
		}
		kept, _, err := peers.Request(ctx, r)
		if err == nil {
			p, _, err = peers.Approve(ctx, store.PeerDecision{ID: kept.ID, At: time.Now()})
		}
		if err != nil {
			return d, err
		}
	}
	var err error
	d.Token, _, err = base.Accounts.PeerToken(ctx, p, wire.RoleNode, nil, "", true)
	return d, err
}

// each calls do n times, several at a time.
func each(ctx context.Context, n int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, fillers)
	var work sync.WaitGroup
	for k := range errs {
		work.Go(func() {
			for i := int(next.Add(1)); errs[k] == nil && i <= n && ctx.Err() == nil; i = int(next.Add(1)) {
				errs[k] = do(i - 1)
			}
		})
	}
	work.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}
