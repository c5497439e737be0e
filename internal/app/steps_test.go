package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/talk"
)

// Somebody with glasses who recalled a new point is shown ten minutes later that it comes again,
// and answers it.
func TestStepsComeBackOnGlasses(t *testing.T) {
	shown := make(chan string, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Account string `json:"account_id"`
			Message struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("Authorization") != "Bearer the-sk" {
			t.Errorf("pushed with %q: %v", r.Header.Get("Authorization"), err)
		}
		fmt.Fprint(w, `{"code":1,"data":{"success":true}}`)
		shown <- in.Account + ": " + in.Message.Content
	}))
	t.Cleanup(service.Close)
	p := &tapper{t: t}
	p.clock.Store(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC).UnixMilli())
	p.Rig = hubtest.New(t, hubtest.Options{
		Hub: hub.Options{Now: p.now}, Shared: []func() any{func() any { return new(rokid.Settings) }},
	})
	p.service = learn.New(learn.Options{Store: p.Store, Zone: time.UTC, Now: p.now})
	glasses := rokid.New(rokid.Options{
		Accounts: p.Accounts, Hub: p.Hub, Guard: account.NewGuard(10, nil), Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(), PushURL: service.URL,
		Lang: i18n.Chinese, Address: func(*http.Request) netip.Addr { return netip.Addr{} },
	})
	q := quiz.New(quiz.Options{Service: p.service, Store: p.Store, Now: p.now, StepInterval: time.Millisecond,
		Tell: func(ctx context.Context, n quiz.Notice) error { return tellStep(ctx, p.Hub, glasses, n) }})
	p.Hub.Intercept("learn", q.Intercept)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	p.bot = p.AddScript(t, map[string]string{"push_key": "the-sk"}, func(_ context.Context, turn *talk.Turn,
		emit talk.Emit) error {
		return emit(talk.Text("bot: " + turn.Text()))
	}).Number
	p.key = p.Key(t, account.NewKey{Scopes: []string{account.ScopeLingzhu}, Bot: p.bot})
	server := httptest.NewServer(glasses)
	t.Cleanup(server.Close)
	p.url = server.URL
	_, err := p.service.Create(ctx, p.Person.ID, []learn.Draft{{Question: "水的化学式？", Answer: "H2O"}})
	p.must(err)

	for _, c := range [][2]string{{"复习", "水的化学式"}, {"H2O", "09:10"}} {
		p.clock.Add(8000)
		if told := p.post(p.tap("s1", c[0], "")); !strings.Contains(told, c[1]) {
			t.Fatalf("%s: %s", c[0], told)
		}
	}
	select {
	case text := <-shown:
		t.Fatalf("shown at once: %s", text)
	default:
	}
	p.clock.Add((10*time.Minute + 5*time.Second).Milliseconds())
	select {
	case text := <-shown:
		if !strings.HasPrefix(text, "U1: ") || !strings.Contains(text, "水的化学式") {
			t.Errorf("shown: %s", text)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was shown")
	}
	if told := p.post(p.tap("s2", "复习", "")); !strings.Contains(told, "水的化学式") {
		t.Errorf("after the notice: %s", told)
	}
}
