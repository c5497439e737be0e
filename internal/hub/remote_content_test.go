package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// shelf has resources: reading "k://shelf/hangs" does not end by itself.
type shelf struct {
	providerFunc
	began, ended chan struct{}
	watching     atomic.Int32
}

func (*shelf) Resources(_ context.Context, who tool.Caller, cursor string) ([]tool.Resource, string, error) {
	if cursor == "" {
		return []tool.Resource{{URI: "k://shelf/plain", Name: who.Person}}, "more", nil
	}
	return []tool.Resource{{Raw: json.RawMessage(`{"uri":"k://shelf/raw","name":"x","own":1}`)}}, "", nil
}

func (*shelf) Templates(context.Context, tool.Caller) ([]tool.Template, error) { return nil, nil }

func (s *shelf) Read(ctx context.Context, _ tool.Caller, uri string) ([]tool.Contents, error) {
	switch uri {
	case "k://shelf/hangs":
		s.began <- struct{}{}
		<-ctx.Done()
		s.ended <- struct{}{}
		return nil, ctx.Err()
	case "k://shelf/refused":
		return nil, &tool.Error{Code: tool.Refused, Told: "no", RPC: -5}
	}
	return nil, tool.ErrNotFound
}

func (s *shelf) Subscribe(context.Context, tool.Caller, string) (func(), error) {
	s.watching.Add(1)
	return func() { s.watching.Add(-1) }, nil
}

// Queries for resources of a provider on another instance end as calls do: with its error, when the
// caller gives up, after the provider's timeout, and when one of the instances is lost.
func TestContentElsewhere(t *testing.T) {
	url, folder := bustest.Cluster(t, 1), t.TempDir()
	at := func(name string) *hubtest.Rig {
		return hubtest.New(t, hubtest.Options{DB: store.Options{Folder: folder}, BusURL: url, Name: name})
	}
	near, far := at("near"), at("far")
	s := &shelf{echoProvider, make(chan struct{}, 1), make(chan struct{}, 1), atomic.Int32{}}
	ref := hub.ProviderRef{ID: "shelf", Owner: near.Person.ID, Slug: "shelf", Kind: "k", Title: "Shelf", Held: true,
		Timeout: 30 * time.Second}
	registration := register(t, far.Hub, ref, s, tool.Tool{Name: "do"})
	resources := func() hub.ResourceSet {
		sets := view(t, near).ResourceSets()
		if len(sets) != 1 {
			return hub.ResourceSet{}
		}
		return sets[0]
	}
	await(t, "the resources are seen", func() bool {
		return resources().ID == "shelf" && len(far.Hub.Bus.Peers()) == 1
	})
	who := tool.Caller{Person: near.Person.ID}
	r := resources()
	list, next, err := r.Resources(t.Context(), who, "")
	must(t, err)
	if text, _ := json.Marshal(list); next != "more" ||
		string(text) != `[{"uri":"k://shelf/plain","name":"`+near.Person.ID+`"}]` {
		t.Errorf("first page: %s, then %q", text, next)
	}
	list, next, err = r.Resources(t.Context(), who, next)
	must(t, err)
	if text, _ := json.Marshal(list); next != "" || string(text) != `[{"uri":"k://shelf/raw","name":"x","own":1}]` {
		t.Errorf("second page: %s, then %q", text, next)
	}
	for _, uri := range []string{"k://shelf/nothing", "k://other/hangs"} {
		if _, err := r.Read(t.Context(), who, uri); !errors.Is(err, tool.ErrNotFound) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if _, err = r.Read(t.Context(), who, "k://shelf/refused"); tool.AsError(err).RPC != -5 {
		t.Errorf("a refusal: %v", err)
	}

	reading, giveUp := context.WithCancel(t.Context())
	go func() {
		<-s.began
		giveUp()
	}()
	if _, err = r.Read(reading, who, "k://shelf/hangs"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who gives up: %v", err)
	}
	<-s.ended

	// A subscription is at the provider once for each person. It ends with the last caller, and
	// with the instance.
	updates := make(chan string, 10)
	near.Hub.OnResourceUpdated(func(o hub.ProviderRef, uri string) { updates <- o.ID + " " + uri })
	first, err := near.Hub.Subscribe(t.Context(), "shelf", who, "k://shelf/plain")
	must(t, err)
	second, err := near.Hub.Subscribe(t.Context(), "shelf", who, "k://shelf/plain")
	must(t, err)
	first()
	registration.NotifyResourceUpdated("k://shelf/raw") // nobody watches it
	registration.NotifyResourceUpdated("k://shelf/plain")
	if got := <-updates; got != "shelf k://shelf/plain" || s.watching.Load() != 1 {
		t.Errorf("update of %s, %d subscriptions", got, s.watching.Load())
	}
	second()
	await(t, "nobody watches", func() bool { return s.watching.Load() == 0 })
	_, err = near.Hub.Subscribe(t.Context(), "shelf", who, "k://shelf/plain")
	must(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := r.Read(context.WithoutCancel(t.Context()), who, "k://shelf/hangs")
		failed <- err
	}()
	<-s.began
	near.Hub.Bus.Abort() // without a leave message
	<-s.ended
	await(t, "the provider need not watch for a lost instance", func() bool { return s.watching.Load() == 0 })
	registration.Unregister()
	near.Hub.Close()
	if err := <-failed; code(err) != tool.Lost {
		t.Errorf("when the bus is gone: %v", err)
	}
}

// A provider that does not answer is given up after its timeout.
func TestContentElsewhereTimeout(t *testing.T) {
	url, folder := bustest.Cluster(t, 1), t.TempDir()
	near := hubtest.New(t, hubtest.Options{DB: store.Options{Folder: folder}, BusURL: url, Name: "near"})
	far := hubtest.New(t, hubtest.Options{DB: store.Options{Folder: folder}, BusURL: url, Name: "far"})
	s := &shelf{echoProvider, make(chan struct{}, 1), make(chan struct{}, 1), atomic.Int32{}}
	register(t, far.Hub, hub.ProviderRef{ID: "shelf", Slug: "shelf", Kind: "k", Held: true,
		Timeout: 100 * time.Millisecond}, s)
	await(t, "the resources are seen", func() bool { return len(view(t, near).ResourceSets()) == 1 })
	_, err := view(t, near).ResourceSets()[0].Read(t.Context(), tool.Caller{}, "k://shelf/hangs")
	if code(err) != tool.TimedOut {
		t.Errorf("it is %v", err)
	}
	<-s.ended
}
