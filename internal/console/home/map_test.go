package home_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// board approves a voice board of ada's with a bot.
func board(t *testing.T, r *consoletest.Rig, hardware, name string, bot int64) store.Device {
	t.Helper()
	d, code, err := r.Accounts.DeviceSeen(t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: hardware,
		Client: "client of " + name, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Accounts.ApproveByCode(t.Context(), account.NewDevice{Person: r.Person.ID, Code: code, Name: name,
		Bot: bot}); err != nil {
		t.Fatal(err)
	}
	return d
}

// used records a turn of a board, and a call by the bot of a tool of the upstream.
func used(t *testing.T, r *consoletest.Rig, bot int64, hardware, turn, outcome, provider string) {
	t.Helper()
	now := time.Now()
	if err := r.Store.Traces.Finish(t.Context(), store.Trace{Turn: turn, Bot: bot, Owner: r.Person.ID, At: now,
		Channel: "xiaozhi", Person: "xiaozhi:" + hardware, Outcome: outcome}, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Store.Calls.Add(t.Context(), []store.Call{{ID: "call-" + turn, At: now, Person: r.Person.ID, Bot: bot,
		Provider: provider, Tool: "lamp_on", Outcome: "done"}}); err != nil {
		t.Fatal(err)
	}
}

// TestMap looks at what is on the map, and what is connected with what.
func TestMap(t *testing.T) {
	r := newRig(t, control.Options{
		Upstream: func(store.Upstream, string) control.UpstreamHealth {
			return control.UpstreamHealth{State: control.UpstreamReady}
		},
		Due: func(context.Context, string) (int, error) { return 3, nil },
	})
	bot := echo(t, r)
	board(t, r, "02:00:00:00:00:01", "kitchen", bot.Number)
	up, err := r.Store.Upstreams.Add(t.Context(), store.Upstream{Owner: r.Person.ID, Slug: "house", Kind: "http",
		Settings: []byte("{}"), Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	provider := fmt.Sprintf("upstream:%d", up.Number)
	used(t, r, bot.Number, "02:00:00:00:00:01", "t1", "done", provider)
	used(t, r, bot.Number, "02:00:00:00:00:01", "t2", "failed", provider)
	used(t, r, bot.Number, "02:00:00:00:00:99", "t3", "done", "learn")
	g, err := r.Control.Overview(t.Context(), control.Caller{Person: r.Person.ID}, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	botID := fmt.Sprintf("bot:%d", bot.Number)
	want := control.Map{
		Left: []control.MapItem{{ID: "board:1", Kind: control.MapBoard, Name: "kitchen", State: control.MapOff}},
		Right: []control.MapItem{
			{ID: botID, Kind: control.MapBot, Name: bot.Name, State: control.MapOn},
			{ID: provider, Kind: control.MapUpstream, Name: "house", State: control.MapOn, Ref: "http"},
			{ID: "learn", Kind: control.MapLearn, State: control.MapIdle},
		},
		Links: []control.MapLink{
			{From: "board:1", To: botID, Bound: true, Last: "t2", Failed: true},
			{From: botID, To: "learn", Last: "call-t3"},
			{From: botID, To: provider, Last: "call-t2"},
		},
	}
	if diff := cmp.Diff(want, g.Map, cmpopts.IgnoreUnexported(control.MapItem{}),
		cmpopts.IgnoreFields(control.MapLink{}, "At")); diff != "" {
		t.Error(diff)
	}
	if p := r.SignedInAs(r.Person).Get("/"); !p.Contains("</svg> bound</span>", "</svg> used lately</span>",
		"</svg> failed last time</span>") {
		t.Error("no legend: " + p.Text)
	}
	for who, caller := range map[string]control.Caller{"bob": {Person: r.Bob.ID},
		"a key for the bot": {Person: r.Person.ID, Only: bot.Number}} {
		g, err := r.Control.Overview(t.Context(), caller, struct{}{})
		if err != nil || len(g.Map.Links) != 0 || len(g.Map.Left) != 0 {
			t.Errorf("%s sees %+v, %v", who, g.Map, err)
		}
	}
}

// TestMapOfMany has more things than the map has room for.
func TestMapOfMany(t *testing.T) {
	r := newRig(t, control.Options{})
	bot := echo(t, r)
	for i := range 70 {
		board(t, r, fmt.Sprintf("02:00:00:00:00:%02x", i), fmt.Sprintf("board %02d", i), bot.Number)
	}
	// The one that is connected comes first, whatever its number.
	used(t, r, bot.Number, "02:00:00:00:00:32", "t1", "done", "")
	g, err := r.Control.Overview(t.Context(), control.Caller{Person: r.Person.ID}, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	plugged(t, r, r.Person, 41)
	if g, err = r.Control.Overview(t.Context(), control.Caller{Person: r.Person.ID}, struct{}{}); err != nil {
		t.Fatal(err)
	}
	left := g.Map.Left
	if len(left) != 9 || left[0].ID != "board:41" || left[0].State != control.MapOn || left[1].ID != "board:51" ||
		left[8].ID != "more:board" || left[8].Count != 62 {
		t.Errorf("%+v", left)
	}
	if len(g.Map.Links) != 9 {
		t.Errorf("%+v", g.Map.Links)
	}
	if p := r.SignedInAs(r.Person).Get("/"); p.Contains("failed last time") ||
		!p.Contains("62 more boards", `href="/devices"`, `href="/devices/41"`) {
		t.Error(p.Text)
	}
}

// TestMapIsDrawn looks at the cables in a browser, and at what travels along one.
func TestMapIsDrawn(t *testing.T) {
	r := newRig(t, control.Options{})
	bot := echo(t, r)
	board(t, r, "02:00:00:00:00:01", "kitchen", bot.Number)
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	b := browsertest.New(t, r.URL)
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	for _, width := range []int64{390, 1280} {
		b.SetWidth(width)
		b.Open("/")
		b.WaitUntil("document.querySelectorAll('.cables path.bound').length === 1")
		ends := browsertest.Evaluate[[]float64](b, `(() => {
			const c = document.querySelector('.cables path'), m = document.getElementById('map').getBoundingClientRect();
			const a = document.getElementById('on-map-board-1').getBoundingClientRect();
			const e = c.getPointAtLength(0);
			return [e.x + m.left - a.right, e.y + m.top - a.top - a.height / 2];
		})()`)
		if max(ends[0], -ends[0], ends[1], -ends[1]) > 1 {
			t.Errorf("%d: the cable begins %v beside the board", width, ends)
		}
	}
	b.Script("document.getElementById('on-map-board-1').focus()")
	b.WaitUntil("document.querySelector('.cables.chosen path.lit')")
	b.Script(`window.travelled = 0; new MutationObserver(list => list.forEach(m => m.addedNodes.forEach(n => {
		if (n.tagName === "circle") window.travelled++;
	}))).observe(document.querySelector(".cables"), {childList: true})`)
	used(t, r, bot.Number, "02:00:00:00:00:01", "t1", "done", "")
	b.WaitUntil("window.travelled === 1 && document.querySelector('.cables path.used')")
	b.WaitUntil("document.activeElement.id === 'on-map-board-1'")
	var links []map[string]any
	if err := json.Unmarshal([]byte(browsertest.Evaluate[string](b, "document.getElementById('map').dataset.links")),
		&links); err != nil || len(links) != 1 {
		t.Errorf("%v, %v", links, err)
	}
}
