package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// deviceTools returns as many tools as a voice board has, with schemas of their own.
func deviceTools() []tool.Tool {
	var tools []tool.Tool
	for i := range 14 {
		tools = append(tools, tool.Tool{
			Name:        fmt.Sprintf("self.audio_speaker.set_%d", i),
			Description: fmt.Sprintf("Set the volume of the audio speaker, way %d. If the current volume is not known, call self.get_device_status first.", i),
			Input:       json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"volume":{"type":"integer","minimum":%d,"maximum":100}},"required":["volume"]}`, i)),
		})
	}
	return tools
}

// live returns the size of the heap after garbage collection, in bytes.
func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkTenThousandProviders registers devices of five thousand people, while a watcher lists
// the tools of one person after every change.
func BenchmarkTenThousandProviders(b *testing.B) {
	const providers, people = 10_000, 5_000
	tools := deviceTools()
	r := hubtest.New(b, hubtest.Options{})
	changes, unsubscribe := r.Hub.WatchTools()
	defer unsubscribe()
	for b.Loop() {
		stop, stopped := make(chan struct{}), make(chan struct{})
		views := 0
		go func() {
			defer close(stopped)
			for {
				select {
				case <-changes:
					if _, err := r.Hub.View("person-0", ""); err != nil {
						b.Error(err)
					}
					views++
				case <-stop:
					return
				}
			}
		}()
		b.StopTimer()
		before := live()
		b.StartTimer()
		began := time.Now()
		sockets := make([]*hub.Registration, providers)
		for i := range sockets {
			s, err := r.Hub.Register(hub.ProviderRef{
				ID: fmt.Sprintf("board:%d", i), Owner: fmt.Sprintf("person-%d", i%people),
				Slug: fmt.Sprintf("board-%d", i), Kind: "xiaozhi", Title: fmt.Sprintf("Board %d", i),
			}, echoProvider)
			if err != nil {
				b.Fatal(err)
			}
			s.SetTools(tools)
			sockets[i] = s
		}
		took := time.Since(began)
		b.StopTimer()
		close(stop)
		<-stopped
		if v, err := r.Hub.View("person-0", ""); err != nil || len(v.Tools) != 2*len(tools) {
			b.Fatalf("%d tools, %v", len(v.Tools), err)
		}
		b.ReportMetric(float64(live()-before)/providers, "B/outlet")
		b.ReportMetric(float64(took.Milliseconds()), "ms")
		b.ReportMetric(float64(views), "views")
		for _, s := range sockets {
			s.Unregister()
		}
		b.StartTimer()
	}
}

// TestProviderMemory checks that a device whose tools are not listed takes little memory.
func TestProviderMemory(t *testing.T) {
	const providers, most = 1000, 3 << 10
	r := hubtest.New(t, hubtest.Options{})
	tools := deviceTools()
	before := live()
	for i := range providers {
		register(t, r.Hub, hub.ProviderRef{ID: fmt.Sprint("board:", i), Owner: fmt.Sprint("person-", i),
			Slug: "kitchen", Kind: "xiaozhi", Title: fmt.Sprint("Board ", i)}, echoProvider, tools...)
	}
	if each := int(live()-before) / providers; each > most {
		t.Errorf("an outlet takes %d bytes, more than %d", each, most)
	}
	runtime.KeepAlive(tools)
	if _, held, offered := r.Hub.FindProvider("board:999"); held || len(offered) != len(tools) {
		t.Errorf("%d tools, held: %t", len(offered), held)
	}
}

// TestViewsAreKept checks that a view is cached until something changes that its person sees.
func TestViewsAreKept(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	mine := register(t, r.Hub, hub.ProviderRef{ID: "a", Slug: "lamp", Kind: "k", Owner: r.Person.ID}, echoProvider,
		tool.Tool{Name: "on", Input: json.RawMessage(`{}`)})
	theirs := register(t, r.Hub, hub.ProviderRef{ID: "b", Slug: "lamp", Kind: "k", Owner: "somebody else"},
		echoProvider, tool.Tool{Name: "on"})
	all := register(t, r.Hub, hub.ProviderRef{ID: "c", Slug: "door", Kind: "k"}, echoProvider, tool.Tool{Name: "open"})
	look := func() *hub.View {
		t.Helper()
		v, err := r.Hub.View(r.Person.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	changes, unsubscribe := r.Hub.WatchTools()
	defer unsubscribe()
	for _, c := range []struct {
		name          string
		do            func()
		wakes, anew   bool
		offered, told string // tools offered then, and whether the fingerprints differ
	}{
		{"the same again", func() { mine.SetTools([]tool.Tool{{Name: "on", Input: json.RawMessage(`{}`)}}) }, false,
			false, "door_open lamp_on", "same"},
		{"somebody else's", func() { theirs.SetTools([]tool.Tool{{Name: "off"}}) }, true, false, "door_open lamp_on",
			"same"},
		{"somebody else's new name", func() { rename(t, theirs, "light", "") }, true, false, "door_open lamp_on",
			"same"},
		{"a description", func() {
			mine.SetTools([]tool.Tool{{Name: "on", Description: "more",
				Input: json.RawMessage(`{}`)}})
		}, true, true, "door_open lamp_on", "other"},
		{"whether it is held", func() { mine.Hold(true) }, true, true, "door_open lamp_on", "same"},
		{"its name", func() { rename(t, mine, "light", "The light") }, true, true, "door_open light_on", "other"},
		{"its title", func() { rename(t, mine, "light", "Light") }, true, true, "door_open light_on", "same"},
		{"everybody's", func() { all.SetTools(nil) }, true, true, "light_on", "other"},
		{"unplugged", mine.Unregister, true, true, "", "other"},
	} {
		before := look()
		c.do()
		woken := false
		select {
		case <-changes:
			woken = true
		default:
		}
		after := look()
		if woken != c.wakes || (after != before) != c.anew || names(after) != c.offered ||
			(after.Fingerprint == before.Fingerprint) != (c.told == "same") {
			t.Errorf("%s: watchers woken %t, a new view %t, tools %q, the same print %t", c.name, woken,
				after != before, names(after), after.Fingerprint == before.Fingerprint)
		}
	}
}

func rename(t *testing.T, s *hub.Registration, slug, title string) {
	t.Helper()
	if err := s.Rename(slug, title); err != nil {
		t.Fatal(err)
	}
}

// TestRename checks that slugs in use cannot be taken, and are free again after a change.
func TestRename(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	a := register(t, r.Hub, hub.ProviderRef{ID: "a", Slug: "lamp", Kind: "k", Title: "Lamp", Owner: r.Person.ID},
		echoProvider, tool.Tool{Name: "on"})
	b := register(t, r.Hub, hub.ProviderRef{ID: "b", Slug: "door", Kind: "k", Owner: r.Person.ID}, echoProvider,
		tool.Tool{Name: "open"})
	register(t, r.Hub, hub.ProviderRef{ID: "c", Slug: "fan", Kind: "k"}, echoProvider)
	all := register(t, r.Hub, hub.ProviderRef{ID: "d", Slug: "all", Kind: "k"}, echoProvider)
	register(t, r.Hub, hub.ProviderRef{ID: "e", Slug: "theirs", Kind: "k", Owner: "somebody else"}, echoProvider)
	for _, c := range []struct {
		socket *hub.Registration
		slug   string
		taken  bool
	}{
		{b, "lamp", true}, {b, "fan", true}, {all, "theirs", true}, {all, "lamp", true},
		{b, "theirs", false}, {b, "door", false}, {all, "all", false}, {all, "", false},
	} {
		if err := c.socket.Rename(c.slug, "x"); errors.Is(err, hub.ErrProviderInUse) != c.taken ||
			err != nil && !c.taken {
			t.Errorf("%q: %v, taken: %t", c.slug, err, c.taken)
		}
	}
	if err := a.Rename("Not a slug", "x"); err == nil {
		t.Error("what cannot begin names is taken")
	}
	if o, _, tools := r.Hub.FindProvider("a"); o.Slug != "lamp" || o.Title != "Lamp" || len(tools) != 1 ||
		tools[0].Name != "lamp_on" {
		t.Errorf("after a refusal it is %+v", o)
	}
	rename(t, a, "light", "Light")
	if o, _, tools := r.Hub.FindProvider("a"); o.Slug != "light" || o.Title != "Light" || len(tools) != 1 ||
		tools[0].Name != "light_on" || tools[0].Provider() != o {
		t.Errorf("it is %+v", o)
	}
	if res, err := r.Hub.Call(t.Context(), access(r, ""), "light_on", &tool.Call{}); err != nil ||
		res.PlainText() != "on" {
		t.Errorf("%v, %v", res, err)
	}
	if _, err := r.Hub.Call(t.Context(), access(r, ""), "lamp_on", &tool.Call{}); code(err) != tool.Unknown {
		t.Errorf("by its old name: %v", err)
	}
	rename(t, b, "lamp", "")
	a.Unregister()
	rename(t, b, "light", "")
	if err := a.Rename("lamp", ""); err == nil {
		t.Error("what is not plugged in has a new name")
	}
	if o, held, tools := r.Hub.FindProvider("a"); o != (hub.ProviderRef{}) || held || tools != nil {
		t.Errorf("what is not plugged in is %+v", o)
	}
}

// newNamedPair returns two hubs on one bus.
func newNamedPair(t *testing.T) (near, far *hubtest.Rig) {
	t.Helper()
	url, folder := bustest.Cluster(t, 1), t.TempDir()
	near = hubtest.New(t, hubtest.Options{DB: store.Options{Folder: folder}, BusURL: url, Name: "near"})
	far = hubtest.New(t, hubtest.Options{DB: store.Options{Folder: folder}, BusURL: url, Name: "far"})
	return near, far
}

// waitUntil waits until a change of the tools makes a condition true.
func waitUntil(t *testing.T, r *hubtest.Rig, what string, is func() bool) {
	t.Helper()
	changes, unsubscribe := r.Hub.WatchTools()
	defer unsubscribe()
	deadline := time.After(20 * time.Second)
	for !is() {
		select {
		case <-changes:
		case <-deadline:
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

// TestAHolderBeatsWhoeverSleeps registers a device on both instances, and checks that calls go to
// the instance that it is connected to.
func TestAHolderBeatsWhoeverSleeps(t *testing.T) {
	near, far := newNamedPair(t)
	at := hub.ProviderRef{ID: "board:1", Slug: "kitchen", Kind: "k", Owner: near.Person.ID}
	answers := func(r *hubtest.Rig, instance string) *hub.Registration {
		return register(t, r.Hub, at, providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result,
			error) {
			return tool.Text(instance), nil
		}), deviceTools()...)
	}
	here, there := answers(near, "near"), answers(far, "far")
	name := "kitchen_self_audio_speaker_set_0"
	args := json.RawMessage(`{"volume":50}`)
	who := func(r *hubtest.Rig) string {
		res, err := r.Hub.Call(t.Context(), access(r, ""), name, &tool.Call{Args: args})
		if err != nil {
			return err.Error()
		}
		return res.PlainText()
	}
	held := func(r *hubtest.Rig, want bool) func() bool {
		return func() bool { _, held, _ := r.Hub.FindProvider("board:1"); return held == want }
	}
	if a, b := who(near), who(far); a != "near" || b != "far" {
		t.Fatalf("asleep, %s and %s answer", a, b)
	}
	there.Hold(true)
	waitUntil(t, near, "near knows of the holder", held(near, true))
	if a, b := who(near), who(far); a != "far" || b != "far" {
		t.Errorf("held by far, %s and %s answer", a, b)
	}
	here.Hold(true) // the newer connection, which far is informed of
	if a := who(near); a != "near" {
		t.Errorf("held by both, %s answers near", a)
	}
	waitUntil(t, far, "far has let go, and knows of the holder", func() bool { return who(far) == "near" })
	if _, held, tools := far.Hub.FindProvider("board:1"); !held || len(tools) != 14 || !tools[0].Provider().Held {
		t.Errorf("held: %t, %d tools", held, len(tools))
	}
	there.Hold(false) // its connection closes; it is no longer the holder
	rename(t, here, "bath", "Bath")
	name = "bath_self_audio_speaker_set_0"
	waitUntil(t, far, "far knows the new name", func() bool { return who(far) == "near" })
	here.Hold(false)
	waitUntil(t, far, "nobody holds it", held(far, false))
	if name = "kitchen_self_audio_speaker_set_0"; who(far) != "far" {
		t.Errorf("asleep again, %s answers", who(far))
	}
}

// TestManyHeldElsewhere checks that more devices than fit into one announcement are known
// everywhere, and that devices of the same model share one list of tools.
func TestManyHeldElsewhere(t *testing.T) {
	near, far := newNamedPair(t)
	const providers = 1234
	tools := deviceTools()
	sockets := make([]*hub.Registration, providers)
	for i := range sockets {
		sockets[i] = register(t, far.Hub, hub.ProviderRef{ID: fmt.Sprint("board:", i), Slug: fmt.Sprint("b", i),
			Kind: "k", Owner: near.Person.ID, Held: true}, echoProvider, tools...)
	}
	known := func(n, each int) func() bool {
		return func() bool {
			v, err := near.Hub.View(near.Person.ID, "")
			return err == nil && len(v.Tools) == n*each
		}
	}
	waitUntil(t, near, "all are known", known(providers, len(tools)))
	_, _, first := near.Hub.FindProvider("board:0")
	_, _, last := near.Hub.FindProvider(fmt.Sprint("board:", providers-1))
	if first[3].Tool != last[3].Tool || first[3].Name == last[3].Name {
		t.Error("the same list is kept twice")
	}
	for _, s := range sockets[:providers/2] {
		s.Unregister()
	}
	waitUntil(t, near, "half of them are gone", known(providers/2, len(tools)))
	fewer := slices.Clone(tools[:2])
	for _, s := range sockets[providers/2:] {
		s.SetTools(fewer)
	}
	waitUntil(t, near, "the others have fewer tools", known(providers/2, 2))
}

// TestAnnouncementsInParts checks that an announcement of some providers does not change the
// others, and that a list is requested once, however many providers share it.
func TestAnnouncementsInParts(t *testing.T) {
	near := hubtest.New(t, hubtest.Options{BusURL: bustest.Cluster(t, 1), Name: "near"})
	var asked atomic.Int64
	var list atomic.Value
	list.Store(`{"tools":[{"name":"x","description":"","inputSchema":{}}],"print":7}`)
	sub, err := near.Hub.Bus.Subscribe("tools.ghost", func(m *nats.Msg) {
		asked.Add(1)
		near.Hub.Bus.Respond(m, []byte(list.Load().(string))) //nolint:errcheck // no requester
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection is closed next
	provider := func(n, print int) string {
		return fmt.Sprintf(`{"id":"board:%d","slug":"b%d","kind":"k","held":true,"print":%d}`, n, n, print)
	}
	for _, c := range []struct{ say, want string }{
		{`"h":[` + provider(1, 7) + `,` + provider(3, 7) + `],"until":"board:3"`, "b1_x b3_x"},
		{`"h":[` + provider(5, 7) + `],"after":"board:3"`, "b1_x b3_x b5_x"},
		{`"h":[` + provider(3, 7) + `],"until":"board:3"`, "b3_x b5_x"},
		{`"h":[` + provider(4, 7) + `],"part":true,"gone":["board:5","board:9"]`, "b3_x b4_x"},
		{`"h":[` + provider(2, 7) + `]`, "b2_x"},
	} {
		if err := near.Hub.Bus.Publish("tools", []byte(`{"i":"ghost",`+c.say+`}`)); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, near, "there is "+c.want, func() bool {
			v, err := near.Hub.View(near.Person.ID, "")
			return err == nil && names(v) == c.want
		})
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the list was asked for %d times", n)
	}
	// A list that has changed before it could be read is not used for the announced fingerprint.
	list.Store(`{"tools":[{"name":"y","description":"","inputSchema":{}}],"print":9}`)
	for _, print := range []int{8, 9} {
		if err := near.Hub.Bus.Publish("tools", []byte(`{"i":"ghost","h":[`+provider(2, print)+`,`+provider(6, 9)+
			`]}`)); err != nil {
			t.Fatal(err)
		}
		want := map[int]string{8: "b2_x b6_y", 9: "b2_y b6_y"}[print]
		waitUntil(t, near, "there is "+want, func() bool {
			v, err := near.Hub.View(near.Person.ID, "")
			return err == nil && names(v) == want
		})
	}
}
