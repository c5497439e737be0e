package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/backup"
	"patchbay/internal/config"
	"patchbay/internal/hub"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/openai"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// vault is an installation whose secret is rotated, with one of everything that is derived from or
// sealed with a secret.
type vault struct {
	t *testing.T
	o store.Options
	c *config.Config

	person       store.Person
	bot          store.Bot
	upstream     store.Upstream
	device       store.Device
	id           account.DeviceID
	socket       string
	mqtt         account.MQTTLogin
	peer         store.Peer
	token        string // of the peer
	invitation   account.Invitation
	code         string // shown by another board
	wearer       store.Wearer
	installation string
}

func newVault(t *testing.T, o store.Options, secret string) *vault {
	t.Helper()
	folder := o.Folder
	if o.URL != "" {
		folder = t.TempDir()
	} else {
		storetest.Folder(t, folder)
	}
	v := &vault{t: t, o: o, c: configOf(t, folder, o.URL), id: account.DeviceID{Kind: "xiaozhi", Hardware: "aa:bb:cc:dd:ee:01",
		Client: "11111111-1111-4111-8111-111111111111"}}
	v.c.Secret = secret
	b, ctx := v.open(), t.Context()
	var err error
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	v.person, err = b.Accounts.AddPerson(ctx, "ada", account.RoleAdmin, "en", "wrong battery horse")
	must(err)
	v.wearer = store.Wearer{Publisher: v.person.ID, UserID: "w"}
	v.bot, _, err = b.Registry.Add(ctx, hub.NewBot{Owner: v.person.ID,
		Name: "model", Kind: "openai", Set: map[string]string{
			"base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key": "s3cret-key",
			"headers": `{"X-Key":"s3cret-header"}`}})
	must(err)
	v.upstream, _, err = b.AddUpstream(ctx, v.person, "home", UpstreamMCP,
		&upstream.Settings{URL: "http://127.0.0.1:1/mcp", Headers: map[string]string{"X-Key": "s3cret-upstream"}})
	must(err)
	must(b.Store.ShimNodes.Save(ctx, v.upstream.Number, "board:1", b.Box.Seal("s3cret-node")))
	_, code, err := b.Accounts.DeviceSeen(ctx, store.DeviceCall{Kind: v.id.Kind, Hardware: v.id.Hardware,
		Client: v.id.Client, Article: "bread", Version: "2"})
	must(err)
	v.device, err = b.Accounts.ApproveDevice(ctx, account.NewDevice{Person: v.person.ID, Code: code, Name: "board"})
	must(err)
	v.socket, v.mqtt = b.Accounts.SocketToken(v.device), b.Accounts.MQTTLogin(v.device, "")
	at := time.Now()
	r, _, err := b.Store.Peers.Request(ctx, store.PeerRequest{ID: "r", Kind: store.RequestDevice,
		Peer: "fe81", Owner: v.person.ID, Refreshed: at,
		Ask: store.PeerAsk{Name: "lamp", Roles: []string{account.PeerNode}}})
	must(err)
	v.peer, _, err = b.Store.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, At: at})
	must(err)
	v.token, _, err = b.Accounts.PeerToken(ctx, v.peer, account.PeerNode, nil, "", true)
	must(err)
	v.shows(b)
	v.installation = b.Installation
	must(b.Close())
	return v
}

// shows creates an invitation and the code of another board.
func (v *vault) shows(b *Base) {
	v.t.Helper()
	var err, other error
	v.invitation, err = b.Accounts.Invite(v.t.Context(), v.bot.Number)
	_, v.code, other = b.Accounts.DeviceSeen(v.t.Context(), store.DeviceCall{Kind: "xiaozhi",
		Hardware: "aa:bb:cc:dd:ee:02", Client: "22222222-2222-4222-8222-222222222222", Article: "bread", Version: "2"})
	if err = errors.Join(err, other); err != nil {
		v.t.Fatal(err)
	}
}

// try opens the installation like a starting program.
func (v *vault) try() (*Base, error) {
	c := *v.c
	return OpenBase(v.t.Context(), &c, "test", slog.New(slog.DiscardHandler))
}

func (v *vault) open() *Base {
	v.t.Helper()
	b, err := v.try()
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { b.Close() })
	b.Secrets.settle = func(context.Context) error { return nil } // no other instance runs
	return b
}

// running opens an instance that follows changes by others.
func (v *vault) running() *Base {
	b := v.open()
	ctx, cancel := context.WithCancel(v.t.Context())
	ended := make(chan error)
	go func() { ended <- b.Secrets.Run(ctx) }()
	v.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			v.t.Error(err)
		}
	})
	return b
}

// reads checks that an instance can read all sealed values, and whether it accepts the credentials
// issued before.
func (v *vault) reads(when string, b *Base, taken bool) {
	t, ctx := v.t, v.t.Context()
	t.Helper()
	bot, err := b.Store.Bots.ByNumber(ctx, v.bot.Number)
	var model openai.Settings
	if err == nil {
		err = b.Registry.Settings(bot, &model)
	}
	if err != nil || model.APIKey != "s3cret-key" || model.Headers["X-Key"] != "s3cret-header" {
		t.Errorf("%s: the bot: %v", when, err)
	}
	var s upstream.Settings
	if err := b.UpstreamSettings(v.server(b), &s); err != nil || s.Headers["X-Key"] != "s3cret-upstream" {
		t.Errorf("%s: the tool server: %+v, %v", when, s, err)
	}
	kept, err := b.Store.ShimNodes.Get(ctx, v.upstream.Number, "board:1")
	if err != nil {
		t.Errorf("%s: the node: %v", when, err)
	}
	if plain, err := b.Box.Open(kept); plain != "s3cret-node" {
		t.Errorf("%s: the node: %q, %v", when, plain, err)
	}
	for what, check := range map[string]func() error{
		"the socket": func() error { _, err := b.Accounts.CheckSocket(ctx, v.id, v.socket); return err },
		"MQTT":       func() error { _, err := b.Accounts.CheckMQTT(ctx, "xiaozhi", v.mqtt); return err },
		"the peer": func() error {
			_, err := b.Accounts.CheckPeerToken(ctx, account.PeerLogin{Peer: v.peer.ID, Role: account.PeerNode,
				Token: v.token})
			return err
		},
	} {
		if err := check(); (err == nil) != taken {
			t.Errorf("%s: %s: %v", when, what, err)
		}
	}
	if b.Installation != v.installation {
		t.Errorf("%s it is the installation %s, not %s", when, b.Installation, v.installation)
	}
}

// server returns the stored tool server.
func (v *vault) server(b *Base) store.Upstream {
	list, err := b.Store.Upstreams.ByOwner(v.t.Context(), v.person.ID)
	if err != nil || len(list) != 1 {
		v.t.Errorf("the tool servers are %+v, %v", list, err)
		return v.upstream
	}
	return list[0]
}

// redeems uses the one-time credentials.
func (v *vault) redeems(when string, b *Base) {
	v.t.Helper()
	ctx := v.t.Context()
	if _, err := b.Accounts.RedeemCode(ctx, v.wearer, "agent", v.invitation.Code); err != nil {
		v.t.Errorf("%s: the spoken code: %v", when, err)
	}
	if _, err := b.Accounts.ApproveDevice(ctx, account.NewDevice{Person: v.person.ID, Code: v.code,
		Name: "another"}); err != nil {
		v.t.Errorf("%s: the board's code: %v", when, err)
	}
}

// until polls a condition that another goroutine fulfils.
func (v *vault) until(what string, ok func() bool) {
	v.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-end:
			v.t.Fatal(what)
		}
	}
}

var anySealed = regexp.MustCompile(`sealed:1:[A-Za-z0-9_-]+`)

// The secret is rotated while two instances run: each of them can open everything at any time,
// credentials stay valid until the old secret is dropped, and afterwards no table has a value
// sealed with anything but the new one.
func TestSecretIsRotated(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		v := newVault(t, o, "")
		if o.URL != "" {
			v.c.Secret = seal.NewSecret() // several instances need it configured
			if _, err := v.try(); !errors.Is(err, errStrangeSecret) {
				t.Fatalf("another secret: %v", err)
			}
			text, err := seal.ReadFile(v.c.Data)
			if err != nil {
				t.Fatal(err)
			}
			v.c.Secret = strings.TrimSpace(text)
		}
		one, two, hand := v.running(), v.running(), v.open()
		hand.Secrets.settle = func(context.Context) error {
			v.until("an instance does not follow", func() bool {
				want := hand.Box
				return !slices.ContainsFunc([]*seal.Box{one.Box, two.Box}, func(b *seal.Box) bool {
					return len(b.Keys()) != len(want.Keys()) || b.Key().ID != want.Key().ID
				})
			})
			return nil
		}
		before := one.Box.Key().ID
		stop, watched := make(chan struct{}), make(chan struct{})
		end := sync.OnceFunc(func() {
			close(stop)
			<-watched
		})
		defer end()
		go func() {
			defer close(watched)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
					v.reads("while it changes", []*Base{one, two}[n%2], true)
				}
			}
		}()
		if o.URL == "" { // so that it waits for both instances
			if err := os.WriteFile(filepath.Join(v.c.Data, controlFile), []byte(`{}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := hand.Secrets.Rotate(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		after := hand.Box.Key().ID
		if after == before {
			t.Fatal("nothing has changed")
		}
		v.until("an instance does not use the new secret", func() bool {
			return one.Box.Key().ID == after &&
				two.Box.Key().ID == after
		})
		end()
		v.redeems("with the old secret's", two)
		list := one.Secrets.State()
		if len(list) != 2 || list[0].ID != after || list[1].ID != before ||
			list[1].Until.Before(time.Now().Add(SecretLife-time.Hour)) {
			t.Errorf("the secrets are %+v", list)
		}
		v.shows(one)
		v.reads("after a restart", v.open(), true)
		if v.c.Secret != "" {
			if err := hand.Secrets.Forget(t.Context()); err == nil ||
				!strings.Contains(err.Error(), "is the old one still") {
				t.Errorf("without another in the settings: %v", err)
			}
			v.c.Secret = hand.Box.Key().Secret()
			hand = v.open()
			v.reads("with another in the settings", hand, true)
		} else if text, err := seal.ReadFile(v.c.Data); err != nil ||
			strings.TrimSpace(text) != hand.Box.Key().Secret() {
			t.Errorf("the file: %v", err)
		}
		if err := hand.Secrets.Forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		v.until("an instance knows the old secret still", func() bool {
			return len(one.Box.Keys()) == 1 &&
				len(two.Box.Keys()) == 1
		})
		v.reads("afterwards", one, false)
		v.reads("afterwards", v.open(), false)
		only := seal.NewBox(hand.Box.Key())
		for table, rows := range storetest.Rows(t, store.Options{URL: o.URL, Folder: v.c.Data}) {
			for _, row := range rows {
				for _, value := range anySealed.FindAllString(row, -1) {
					if _, err := only.Open(value); err != nil {
						t.Errorf("%s has a value that the old secret has sealed: %s", table, row)
					}
				}
			}
		}
	})
}

// A rotation that is interrupted after any of its steps leaves a usable state, and the next one
// completes it.
func TestRotationIsBrokenOff(t *testing.T) {
	for name, steps := range map[string]func(*Base) error{
		"when it has begun": func(b *Base) error {
			_, err := b.Secrets.begin(t.Context(), nil)
			return err
		},
		"when the new one is in use": func(b *Base) error {
			id, err := b.Secrets.begin(t.Context(), nil)
			return errors.Join(err, b.Store.Secrets.Use(t.Context(), id, time.Now()))
		},
		"when the file is written": func(b *Base) error {
			id, err := b.Secrets.begin(t.Context(), nil)
			err = errors.Join(err, b.Store.Secrets.Use(t.Context(), id, time.Now()))
			other := b.Secrets.refresh(t.Context())
			return errors.Join(err, other, b.Secrets.writeFile())
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t, store.Options{Folder: t.TempDir()}, "")
			b := v.open()
			if err := steps(b); err != nil {
				t.Fatal(err)
			}
			v.reads("at once", b, true)
			v.reads("after a restart", v.open(), true)

			// A backup of that state can be restored on another machine.
			file, err := os.CreateTemp(t.TempDir(), "")
			if err == nil {
				err = errors.Join(backup.Write(t.Context(), file, "", v.open().BackupSource(), time.Now()), file.Sync())
			}
			if err == nil {
				_, err = file.Seek(0, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			elsewhere := *v
			elsewhere.c = configOf(t, filepath.Join(t.TempDir(), "data"), "")
			if _, err := backup.Stage(t.Context(), file, "", elsewhere.c.Data, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := backup.Swap(elsewhere.c.Data); err != nil {
				t.Fatal(err)
			}
			elsewhere.reads("restored elsewhere", elsewhere.open(), true)

			// A starting server completes a rotation in progress. One that had only begun waits for
			// the command.
			r := v.running()
			if name == "when it has begun" {
				if r.Secrets.Pending().IsZero() {
					t.Error("nothing waits")
				}
				if _, err := v.open().Secrets.Rotate(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			v.until("it is not ended", func() bool {
				text, err := seal.ReadFile(v.c.Data)
				_, strange := seal.NewBox(r.Box.Key()).CountSealed(string(v.server(r).Settings))
				return err == nil && strings.TrimSpace(text) == r.Box.Key().Secret() && strange == 0 &&
					len(r.Secrets.State()) == 2
			})
			v.reads("at the end", v.open(), true)
			if err := v.open().Secrets.Forget(t.Context()); err != nil {
				t.Fatal(err)
			}
			v.reads("without the old one", v.open(), false)
		})
	}
}

// Expired secrets are dropped, unless an instance starts with one of them.
func TestOldSecretsExpire(t *testing.T) {
	v := newVault(t, store.Options{Folder: t.TempDir()}, "")
	b := v.open()
	if _, err := b.Secrets.Rotate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Secrets.expire(t.Context()); err != nil || len(b.Box.Keys()) != 2 {
		t.Fatalf("at once there are %d, %v", len(b.Box.Keys()), err)
	}
	b.Secrets.mu.Lock()
	for i := range b.Secrets.last {
		b.Secrets.last[i].Used = b.Secrets.last[i].Used.Add(-SecretLife)
	}
	b.Secrets.mu.Unlock()
	if err := b.Secrets.expire(t.Context()); err != nil || len(b.Box.Keys()) != 1 {
		t.Fatalf("after their time there are %d, %v", len(b.Box.Keys()), err)
	}
	v.reads("then", v.open(), false)
}

// An instance with a wrong or missing secret does not start, and generates no other. A lost secret
// can be discarded.
func TestWrongSecret(t *testing.T) {
	v := newVault(t, store.Options{Folder: t.TempDir()}, "")
	file := filepath.Join(v.c.Data, seal.FileName)
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := DiscardSecret(t.Context(), v.c, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "not lost") {
		t.Errorf("one that is there is lost: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := v.try(); !errors.Is(err, errNoSecret) {
		t.Errorf("without a file: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has made another: %v", err)
	}
	if err := os.WriteFile(file, []byte(seal.NewSecret()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := v.try(); !errors.Is(err, errStrangeSecret) {
		t.Errorf("with another file: %v", err)
	}
	if err := os.WriteFile(file, right, 0o600); err != nil {
		t.Fatal(err)
	}
	v.reads("with the right one", v.open(), true)

	// A database from before the table of secrets existed.
	b := v.open()
	if err := b.Store.Secrets.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.c.Secret = seal.NewSecret()
	if _, err := v.try(); !errors.Is(err, errStrangeSecret) {
		t.Errorf("with another one that is configured: %v", err)
	}
	if err := DiscardSecret(t.Context(), v.c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	b = v.open()
	if b.Installation != v.installation || len(b.Secrets.State()) != 1 || !b.Secrets.State()[0].Own {
		t.Errorf("afterwards %s has %+v", b.Installation, b.Secrets.State())
	}
	if bots, err := b.Store.Bots.ByOwner(t.Context(), v.person.ID); err != nil ||
		!slices.ContainsFunc(bots, func(x store.Bot) bool { return x.Number == v.bot.Number }) {
		t.Errorf("the bots are gone: %v", err)
	}
}
