package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/config"
	"patchbay/internal/console"
	"patchbay/internal/hub"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/tool"
)

// keep is an installation whose owner has tools, a device that waits for approval, and bots that
// call whatever tool they are told to.
type keep struct {
	t     *testing.T
	base  *Base
	api   *api.Server
	hub   *hub.Hub
	ada   store.Person
	model *openaitest.Server
	// able may call every tool, only may call lamp_*, and relay may ask the other two.
	able, only, relay store.Bot
	lamp              store.Device
	code              string // shown by another device
	pair              string // pairing request of a node

	mu    sync.Mutex
	calls map[string][]string // names of called tools, by the tag in their arguments
}

// ordered parses a question into the tool to call, its tag, and the bot to ask for it.
var ordered = regexp.MustCompile(`^(?:ask (\d+): )?call (\S+) (\S+)$`)

// obey makes a model call the tool that the question names.
func obey(r *openaitest.Request) openaitest.Reply {
	last := r.Chat.Messages[len(r.Chat.Messages)-1]
	if last.Role != "user" {
		return openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("done")}}
	}
	m := ordered.FindStringSubmatch(last.Parts()[0].Text)
	if m == nil {
		return openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("what?")}}
	}
	name, args := m[2], map[string]string{"tag": m[3]}
	if m[1] != "" {
		name, args = "send_message", map[string]string{"botId": m[1], "message": "call " + m[2] + " " + m[3]}
	}
	text, _ := json.Marshal(args)
	return openaitest.Reply{Steps: []openaitest.Step{openaitest.Calls(openaitest.Call{ID: "c", Name: name,
		Arguments: string(text)})}}
}

func newKeep(t *testing.T) *keep {
	t.Helper()
	k := &keep{t: t, calls: map[string][]string{}}
	c, _, err := config.Load(config.Sources{Flags: map[string]string{"data": storetest.Folder(t, t.TempDir()),
		"listen": "127.0.0.1:0", "lingzhu.push_url": ""}})
	k.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- Serve(ctx, c, Options{
			Version: "test", Logs: io.Discard,
			OnServers: func(_ *console.Server, s *api.Server) { k.api = s },
			Ready:     func(_ string, b *Base) { k.base = b; close(ready) },
		})
	}()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	k.hub = k.base.tools.hub.Load()
	k.model, err = openaitest.Start()
	k.must(err)
	k.model.Answer = obey
	t.Cleanup(k.model.Close)
	k.furnish()
	return k
}

func (k *keep) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// furnish gives ada everything that keys could misuse.
func (k *keep) furnish() {
	k.t.Helper()
	ctx, b := k.t.Context(), k.base
	var err error
	k.ada, err = b.Accounts.AddPerson(ctx, "ada", account.RoleAdmin, "en", "correct horse battery")
	k.must(err)
	for slug, tools := range map[string][]tool.Tool{
		"lamp": {{Name: "on"}, {Name: "off"}},
		"ear":  {{Name: "record", Dangerous: true}, {Name: "level"}},
	} {
		for i := range tools {
			tools[i].Input = json.RawMessage(`{"type":"object","properties":{"tag":{"type":"string"}}}`)
		}
		s, err := k.hub.Register(hub.ProviderRef{ID: "test/" + slug, Slug: slug, Kind: "test", Owner: k.ada.ID,
			Title: slug}, ledger{k, slug})
		k.must(err)
		s.SetTools(tools)
	}
	bot := func(name string, allow string) store.Bot {
		made, _, err := b.Registry.Add(ctx, hub.NewBot{Owner: k.ada.ID, Name: name,
			Kind: "openai", Set: map[string]string{
				"base_url": k.model.URL, "model": "m", "api_key": "sk-planted-" + name, "allow_tools": allow,
				"dangerous_tools": "*", "concurrent": "50",
			}})
		k.must(err)
		return made
	}
	k.able, k.only, k.relay = bot("able", "*"), bot("only", "lamp_*"), bot("relay", "send_message")
	k.lamp = k.device("02:00:00:00:99:01", "desk")
	_, k.code, err = b.Accounts.DeviceSeen(ctx, store.DeviceCall{Kind: "xiaozhi", Hardware: "02:00:00:00:99:02",
		Client: uuid.NewString(), Article: "board", At: time.Now()})
	k.must(err)
	k.must(b.Store.Learn.AddDeck(ctx, store.Deck{ID: "deck", Person: k.ada.ID, Name: "deck", Settings: []byte(`{}`),
		Created: time.Now()}))
	k.must(b.Store.Learn.Add(ctx, k.ada.ID, []store.NewPoint{{
		Point: store.Point{ID: uuid.NewString(), Deck: "deck", Question: planted, Answer: planted, InPlan: true,
			Created: time.Now(), Updated: time.Now(), Words: []string{planted}},
		Sittings: []store.Sitting{{ID: uuid.NewString(), Day: 1, Number: 1, Created: time.Now()}},
	}}))
	ask := store.PeerRequest{
		ID: uuid.NewString(), Kind: store.RequestDevice, Peer: strings.Repeat("9a", 32), Owner: k.ada.ID,
		Refreshed: time.Now(),
		Ask: store.PeerAsk{PublicKey: "key", Name: "node", Platform: "linux", ClientID: "node-host", ClientMode: "node",
			Version: "1", Roles: []string{"node"}},
	}
	_, _, err = b.Store.Peers.Request(ctx, ask)
	k.must(err)
	k.pair = ask.ID
}

func (k *keep) device(hardware, name string) store.Device {
	k.t.Helper()
	_, code, err := k.base.Accounts.DeviceSeen(k.t.Context(),
		store.DeviceCall{Kind: "xiaozhi", Hardware: hardware, Client: uuid.NewString(),
			Article: "board", At: time.Now()})
	k.must(err)
	d, err := k.base.Accounts.ApproveDevice(k.t.Context(), account.NewDevice{Person: k.ada.ID, Code: code, Name: name,
		Bot: k.only.Number})
	k.must(err)
	return d
}

// planted is the text of ada's knowledge point.
const planted = "zq7planted"

// key creates a key of ada's.
func (k *keep) key(n account.NewKey) (store.Key, string) {
	k.t.Helper()
	n.Person, n.Name = k.ada.ID, cmp.Or(n.Name, "test")
	made, secret, err := k.base.Accounts.AddKey(k.t.Context(), n)
	k.must(err)
	return made, secret
}

// do sends a request to /api/v1.
func (k *keep) do(secret, method, path string, body any) (int, string) {
	text, err := json.Marshal(body)
	if err != nil || body == nil {
		text = nil
	}
	r := httptest.NewRequestWithContext(k.t.Context(), method, "/api/v1/"+path, bytes.NewReader(text))
	r.Header.Set("Authorization", "Bearer "+secret)
	w := httptest.NewRecorder()
	k.api.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// called returns the tools that were called with a tag.
func (k *keep) called(tag string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.calls[tag])
}

// ledger is a provider that records its calls.
type ledger struct {
	k    *keep
	slug string
}

func (l ledger) Call(_ context.Context, c *tool.Call) (*tool.Result, error) {
	var args struct {
		Tag string `json:"tag"`
	}
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return nil, err
	}
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	l.k.calls[args.Tag] = append(l.k.calls[args.Tag], l.slug+"_"+c.Tool)
	return tool.Text("done"), nil
}
