package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/proxytest"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// device is a provider that has one connection, to one instance.
type device struct {
	name string
	dead atomic.Bool // its connection is broken, undetected
	gave atomic.Int64
}

func (d *device) Call(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
	if d.dead.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return tool.Text(d.name), nil
}

func (d *device) Moved(upTo int64) { d.gave.Store(upTo) }

// newBehindProxy returns two instances. The first one reaches the bus through a proxy.
func newBehindProxy(t *testing.T, o hub.Options) (proxy *proxytest.Proxy, here, there *hubtest.Rig) {
	t.Helper()
	bus := bustest.Cluster(t, 1)
	u, err := url.Parse(bus)
	must(t, err)
	proxy = proxytest.New(t, u.Host)
	folder := t.TempDir()
	at := func(name, url string) *hubtest.Rig {
		return hubtest.New(t, hubtest.Options{DB: store.Options{Folder: folder}, BusURL: url, Name: name, Hub: o})
	}
	return proxy, at("here", "nats://"+proxy.Addr()), at("there", bus)
}

func areDisconnected(one, other *hubtest.Rig) bool {
	return !one.Hub.Bus.IsAlive(other.Hub.Bus.Instance) && !other.Hub.Bus.IsAlive(one.Hub.Bus.Instance)
}

// eventually waits until a condition is true that depends on reconnects or heartbeats.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(90 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

// TestOneHolderAfterAPartition moves a device and a bot to another instance during a network
// partition. Afterwards both instances know the newer connection as the only holder; the older one
// releases them without delay. The clock of the older one is ahead.
func TestOneHolderAfterAPartition(t *testing.T) {
	for name, part := range map[string]func(*proxytest.Proxy){"cut": (*proxytest.Proxy).Cut,
		"mute": (*proxytest.Proxy).Mute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, here, there := newBehindProxy(t, hub.Options{ReconnectGrace: time.Minute})
			hub.AdvanceEpochs(here.Hub, time.Hour)
			provider := hub.ProviderRef{ID: "board:1", Owner: here.Person.ID,
				Slug: "lamp", Kind: "k", Timeout: time.Minute}
			older, newer := &device{name: "older"}, &device{name: "newer"}
			tools := []tool.Tool{{Name: "who"}}
			first, second := register(t, here.Hub, provider, older, tools...), register(t, there.Hub, provider, newer,
				tools...)
			bot := here.Add(t, "plugin", nil)
			defer here.Hub.AttachBot(bot.Number, say("older"), hub.Limits{})()
			held := first.Hold(true)
			call := func(r *hubtest.Rig) string {
				limit, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				res, err := r.Hub.Call(limit, hub.Access{Caller: tool.Caller{Person: here.Person.ID}},
					"lamp_who", &tool.Call{Args: json.RawMessage(`{}`)})
				if err != nil {
					return err.Error()
				}
				return res.PlainText()
			}
			ask1 := func(r *hubtest.Rig) string {
				e := newRecorder()
				must(t, r.Hub.Answer(ctx, ask(bot, fmt.Sprint(time.Now().UnixNano())), e.emit))
				return e.text()
			}
			all := func(want string) func() bool {
				return func() bool {
					got := []string{call(here), call(there), ask1(here), ask1(there)}
					return !slices.ContainsFunc(got, func(s string) bool { return s != want })
				}
			}
			eventually(t, "all reach the first", all("older"))

			part(proxy)
			eventually(t, "they do not hear each other", func() bool { return areDisconnected(here, there) })
			older.dead.Store(true)
			second.Hold(true)
			defer there.Hub.AttachBot(bot.Number, say("newer"), hub.Limits{})()
			if got := call(there); got != "newer" {
				t.Errorf("there, %q answers", got)
			}

			proxy.Pass()
			eventually(t, "they hear each other", func() bool {
				return here.Hub.Bus.IsAlive(there.Hub.Bus.Instance) && there.Hub.Bus.IsAlive(here.Hub.Bus.Instance)
			})
			began := time.Now()
			eventually(t, "the older one lets go", func() bool { return older.gave.Load() == held })
			eventually(t, "all reach the second", all("newer"))
			t.Logf("one holder %v after they hear each other", time.Since(began).Round(time.Millisecond))
			if newer.gave.Load() != 0 {
				t.Error("the newer one has let go")
			}
		})
	}
}

// TestNoRequestsWhileDisconnected checks that requests to another instance fail at once without a
// connection, and are not carried out later.
func TestNoRequestsWhileDisconnected(t *testing.T) {
	proxy, here, there := newBehindProxy(t, hub.Options{})
	var done atomic.Int64
	register(t, there.Hub, hub.ProviderRef{ID: "board:1", Slug: "lamp", Kind: "k", Held: true},
		providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
			done.Add(1)
			return tool.Text("done"), nil
		}), tool.Tool{Name: "on"})
	call := func(ctx context.Context) *tool.Error {
		_, err := here.Hub.Call(ctx, hub.Access{Caller: tool.Caller{Person: here.Person.ID}}, "lamp_on", &tool.Call{})
		return tool.AsError(err)
	}
	eventually(t, "it can be called", func() bool { return call(ctx) == nil })
	before := done.Load()
	proxy.Cut()
	eventually(t, "the cut is noticed", func() bool { return !here.Hub.Bus.IsConnected() })
	if e := call(ctx); e == nil || e.Code != tool.Offline &&
		!(e.Code == tool.Unknown && strings.Contains(e.Told, "lamp_on")) {
		t.Errorf("while it is cut off, %v", e)
	}
	proxy.Pass()
	eventually(t, "it can be called again", func() bool { return call(ctx) == nil })
	if n := done.Load(); n != before+1 {
		t.Errorf("%d calls were done, instead of one", n-before)
	}
}

// TestLostEndIsNoticed checks that a caller does not wait for the end of a call or an answer that
// was lost on the bus, although both instances live: the caller's connection broke for a moment. A
// long call is waited for.
func TestLostEndIsNoticed(t *testing.T) {
	t.Parallel()
	proxy, here, there := newBehindProxy(t, hub.Options{ReconnectGrace: time.Minute})
	var ended atomic.Int64
	began, end := make(chan struct{}, 2), make(chan struct{})
	wait := func() {
		began <- struct{}{}
		<-end
		ended.Add(1)
	}
	register(t, there.Hub, hub.ProviderRef{ID: "board:1", Slug: "lamp", Kind: "k", Held: true,
		Timeout: 10 * time.Minute}, providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		wait()
		return tool.Text("done"), nil
	}), tool.Tool{Name: "on"})
	bot := here.Add(t, "plugin", nil)
	defer there.Hub.AttachBot(bot.Number, hubtest.Func(func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		wait()
		return emit(talk.Text("done"))
	}), hub.Limits{})()
	access := hub.Access{Caller: tool.Caller{Person: here.Person.ID}}
	eventually(t, "the tool and the bot are known", func() bool {
		v, err := here.Hub.View(here.Person.ID, "")
		must(t, err)
		return v.Tool("lamp_on") != nil && here.Hub.IsOnline(bot.Number)
	})
	calls, answers := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := here.Hub.Call(ctx, access, "lamp_on", &tool.Call{})
		calls <- err
	}()
	go func() { answers <- here.Hub.Answer(ctx, ask(bot, "a question"), newRecorder().emit) }()
	<-began
	<-began
	proxy.Cut()
	close(end)
	eventually(t, "both have ended", func() bool { return ended.Load() == 2 })
	must(t, there.Hub.Bus.FlushTimeout(time.Minute))
	proxy.Pass()
	for what, ended := range map[string]<-chan error{"the call": calls, "the answer": answers} {
		select {
		case err := <-ended:
			t.Logf("%s: %v", what, err)
		case <-time.After(90 * time.Second):
			t.Errorf("%s is waited for although its end was lost", what)
		}
	}
}
