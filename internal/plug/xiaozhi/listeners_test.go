package xiaozhi

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// A board shows who listens, records or takes a photo, in its owner's language, and its owner gets
// a notice. An asleep board does not block the listener.
func TestBoardShowsWhoListens(t *testing.T) {
	r, h, all := newManyBoards(t, 1)
	b := h.find(all[0].Number)
	owner := r.Person
	if owner.Lang != "en" {
		owner.Lang = "en"
		if err := r.Store.People.SetProfile(t.Context(), owner, func([]store.Person) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	notices, forget := r.Hub.SubscribeNotices(owner.ID)
	defer forget()
	heard := func(method string) (e Listener) {
		t.Helper()
		for n := range notices {
			if n.Provider == hub.DeviceProviderID(b.number) && n.Method == method {
				if err := json.Unmarshal(n.Params, &e); err != nil {
					t.Fatal(err)
				}
				return e
			}
		}
		t.Fatal("no notice")
		return e
	}
	listen := func(who tool.Caller) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.ListenOgg(ctx, b.number, who, discard{}) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	leave := listen(tool.Caller{Person: owner.ID}) // the board is asleep
	if e := heard(NoticeListenStart); e.Name != owner.Name || e.What != listenLive || !e.Until.IsZero() {
		t.Errorf("%+v", e)
	}
	leave()
	if e := heard(NoticeListenEnd); e.Name != owner.Name || e.Until.IsZero() {
		t.Errorf("%+v", e)
	}

	shown := make(chan wire.Message, 16)
	l := b.newConnection(store.TransportMQTT, quiet{}.RemoteAddr(), serverURL{}, func(text []byte) error {
		if m, err := wire.Parse(text); err == nil && m.Type == wire.TypeAlert {
			shown <- m
		}
		return nil
	}, func(error) {})
	if !b.attach(l) {
		t.Fatal("it does not connect")
	}
	for _, c := range []struct {
		who  tool.Caller
		want string
	}{
		{tool.Caller{Person: owner.ID}, owner.Name + " is listening"},
		{tool.Caller{Person: owner.ID, Actor: "-"}, "Whoever runs the server is listening"},
	} {
		leave := listen(c.who)
		if m := <-shown; m.Message != c.want || m.Status == "" || m.Emotion == "" {
			t.Errorf("the board shows %+v", m)
		}
		heard(NoticeListenStart)
		if s := b.Status(t.Context()); len(s.Listeners) != 1 || !strings.HasPrefix(c.want, s.Listeners[0].Name) {
			t.Errorf("%+v", s.Listeners)
		}
		leave()
		if s := b.Status(t.Context()); len(s.Listeners) != 0 || s.LastListener == nil || s.LastListener.Until.IsZero() {
			t.Errorf("%+v %+v", s.Listeners, s.LastListener)
		}
	}
	if _, err := b.Call(t.Context(), &tool.Call{Tool: ToolAudio, Args: json.RawMessage(`{"action":"start"}`),
		Caller: tool.Caller{Person: owner.ID}}); err != nil {
		t.Fatal(err)
	}
	if m := <-shown; m.Message != owner.Name+" is recording" {
		t.Errorf("the board shows %+v", m)
	}
	// A new conversation clears the display, so the alert is repeated.
	_, _ = talking(t, b, &mute{})
	b.detach(l, errBoardDisconnected)
}
