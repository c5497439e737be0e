package signin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/mcp/upstream/signin"
	"patchbay/internal/plug/mcp/upstream/signin/signintest"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// TestMain is also the client that the conformance suite starts, with the address of a server as
// its last argument.
func TestMain(m *testing.M) {
	if os.Getenv("MCP_CONFORMANCE_SCENARIO") == "" {
		os.Exit(m.Run())
	}
	if err := conformanceClient(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The suite's scenarios about signing in pass, and nothing is expected to fail.
func TestConformance(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) { mcptest.ClientConformance(t, self, revision, "auth/") })
	}
	for _, scenario := range []string{machineScenario + "basic", machineScenario + "jwt"} {
		t.Run(scenario, func(t *testing.T) { mcptest.ClientScenario(t, self, scenario) })
	}
}

// machineScenario begins the names of the scenarios of an extension in which nobody signs in.
const machineScenario = "auth/client-credentials-"

// conformanceClient connects to a server as an upstream, signs in whenever that is needed, and
// calls each tool once.
func conformanceClient(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Key    string `json:"private_key_pem"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return err
		}
	}
	folder, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	db, err := store.Open(ctx, store.Options{Folder: folder})
	if err != nil {
		return err
	}
	defer db.Close()
	target := signin.Target{Person: "p", Settings: upstream.Settings{URL: address, ClientID: given.ID,
		ClientSecret: given.Secret}}
	if strings.HasPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), machineScenario) {
		target.Settings.OAuthGrant, target.Settings.PrivateKey = upstream.ClientCredentials, given.Key
	}
	if err := target.Settings.Validate(); err != nil {
		return err
	}
	if target.Number, err = addUpstream(ctx, db); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	signins := signin.New(signin.Options{Store: db, Box: newBox(), Logger: log, Instance: "a",
		Link: func(int64) string { return "http://patchbay.test" },
		Identity: func(string) signin.Identity {
			return signin.Identity{Redirect: "http://127.0.0.1:8765/oauth/upstream",
				Document: "https://conformance-test.local/client-metadata.json"}
		}})
	servers := newManager(upstream.Options{Logger: log,
		Tokens: func(upstream.Spec) upstream.Tokens { return signins.Source(target) }})
	defer servers.Close()
	spec := upstream.Spec{ID: "u", Slug: "u", Settings: target.Settings}
	for servers.Set([]upstream.Spec{spec}); ; servers.Set([]upstream.Spec{spec}) {
		need, err := servers.useAll(ctx, spec.ID, func() (string, error) {
			status, err := signins.Status(ctx, target)
			return status.Need, err
		})
		if err != nil || need == signin.NeedNothing {
			return err
		}
		where, err := signins.Start(ctx, target, "p", "")
		if err != nil {
			return err
		}
		end, err := signintest.Follow(where)
		if err != nil {
			return err
		}
		if err := signins.Finish(ctx, target, "p", end); err != nil {
			return err
		}
		spec.SignIns++
	}
}

func newBox() *seal.Box {
	key, err := seal.NewKey("a secret of tests that is long enough for everybody")
	if err != nil {
		panic(err)
	}
	return seal.NewBox(key)
}

func addUpstream(ctx context.Context, db *store.DB) (int64, error) {
	now := time.Now()
	if err := db.People.Add(ctx, store.Person{ID: "p", Name: "p", Role: "admin", Lang: "en", Created: now}); err != nil {
		return 0, err
	}
	u, err := db.Upstreams.Add(ctx, store.Upstream{Owner: "p", Slug: "u", Kind: "mcp", Settings: []byte(`{}`), Created: now})
	return u.Number, err
}

// manager is a manager of upstreams with the tools that they offer.
type manager struct {
	*upstream.Manager
	offered  chan []tool.Tool
	provider chan tool.Provider
}

func newManager(opt upstream.Options) *manager {
	m := &manager{offered: make(chan []tool.Tool, 100), provider: make(chan tool.Provider, 1)}
	opt.Register = func(_ upstream.Spec, p tool.Provider) upstream.Registration {
		m.provider <- p
		return registration{m.offered}
	}
	m.Manager = upstream.New(opt)
	return m
}

// registration passes on the tools of an upstream.
type registration struct{ offered chan []tool.Tool }

func (r registration) SetTools(tools []tool.Tool)     { r.offered <- tools }
func (r registration) Unregister()                    {}
func (r registration) Hold(bool) int64                { return 0 }
func (r registration) NotifyContentChanged()          {}
func (r registration) NotifyResourceUpdated(_ string) {}
func (r registration) NotifyLog(tool.Log)             {}

// useAll waits for the connection of an upstream, and calls each of its tools once. It returns what
// the owner has to do first, or the error of the connection or of the first call that failed.
func (m *manager) useAll(ctx context.Context, id string, need func() (string, error)) (string, error) {
	for {
		status, _ := m.Status(id)
		what, err := need()
		switch {
		case err != nil || what != signin.NeedNothing && what != signin.NeedFinal:
			return what, err
		case status.State == upstream.Ready:
			err := m.callAll(ctx)
			if what, errNeed := need(); errNeed != nil || what != signin.NeedNothing && what != signin.NeedFinal {
				return what, errNeed
			}
			return signin.NeedNothing, err
		case what == signin.NeedFinal, status.Err != nil && status.State == upstream.Failed && status.Err.SignIn == nil:
			return signin.NeedNothing, status.Err
		}
		if err := netx.Wait(ctx, 10*time.Millisecond); err != nil {
			return "", err
		}
	}
}

func (m *manager) callAll(ctx context.Context) error {
	p := <-m.provider
	m.provider <- p
	tools := <-m.offered
	m.offered <- tools
	for _, t := range tools {
		if _, err := p.Call(ctx, &tool.Call{Tool: t.Name, Args: json.RawMessage(`{}`)}); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return nil
}
