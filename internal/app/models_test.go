package app

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/control"
	"patchbay/internal/plug/openai"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/store"
)

func (d *deal) state(b store.Bot) (s control.BotStatus) {
	d.t.Helper()
	d.must(json.Unmarshal([]byte(d.call(http.MethodGet, "/bots/"+b.Name, d.admin, nil)), &s))
	return s
}

// A model that nobody has asked is found in trouble by whoever looks, on every page, and
// one that lists what it has is ready; neither is asked anything.
func TestModelsAreLookedAt(t *testing.T) {
	d := newDeal(t)
	gone := d.model()
	if s := d.state(gone); s.State == control.BotReady {
		t.Errorf("before anybody looked it is %+v", s)
	}
	d.waits("a model that refuses connections is in trouble", func() bool { return d.state(gone).State == control.BotTrouble })
	if s := d.state(gone); s.Online || s.TroubleSince.IsZero() || !strings.Contains(s.Trouble, "cannot be reached") {
		t.Errorf("it is %+v", s)
	}
	one := "/bots/" + strconv.FormatInt(gone.Number, 10)
	for _, page := range []string{"/", "/bots", one, one + "/chat"} {
		if text := d.open(page); !strings.Contains(text, "In trouble") || !strings.Contains(text, "cannot be reached") || strings.Contains(text, "Ready<") {
			t.Errorf("%s says\n%s", page, text)
		}
	}
	model, err := openaitest.Start()
	d.must(err)
	defer model.Close()
	model.Models = []string{"m"}
	good := d.bot(map[string]string{"base_url": model.URL, "model": "m"})
	other := d.bot(map[string]string{"base_url": model.URL, "model": "another"})
	d.state(other)
	d.waits("a model that lists what it has is ready", func() bool { return d.state(good).State == control.BotReady })
	if s := d.state(other); s.State != control.BotUnasked || s.Trouble != "" {
		t.Errorf("a model that is not in the list is %+v", s)
	}
	if n := len(model.Requests()); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
}

// A model that was ready and has gone is red on a page that is open, soon, and then
// everywhere, although nobody has asked it anything.
func TestGoneModelTurnsRed(t *testing.T) {
	d := newDeal(t)
	model, err := openaitest.Start()
	d.must(err)
	defer model.Close()
	model.Models = []string{"m"}
	b := d.bot(map[string]string{"base_url": model.URL, "model": "m"})
	d.waits("the model is ready", func() bool { return d.state(b).State == control.BotReady })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/home/live", nil)
	d.must(err)
	page, err := d.Do(req)
	d.must(err)
	defer page.Body.Close()
	lines := bufio.NewReader(page.Body)
	for line := ""; !strings.Contains(line, "Ready"); {
		line, err = lines.ReadString('\n')
		d.must(err)
	}
	model.Close()
	gone := time.Now()
	for line := ""; !strings.Contains(line, "cannot be reached"); {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatal("the page never tells:", err)
		}
	}
	t.Logf("the page tells after %v", time.Since(gone))
	if took := time.Since(gone); took > time.Minute { // ten seconds, on a machine that has time
		t.Errorf("the page tells after %v", took)
	}
	if s := d.state(b); s.State != control.BotTrouble || s.Online || s.TroubleSince.Before(gone.Truncate(time.Second)) {
		t.Errorf("it is %+v", s)
	}
	if text := d.open("/bots"); !strings.Contains(text, "In trouble") {
		t.Errorf("the list says\n%s", text)
	}
}

// What a question has found is known on every instance and after a restart. The trail
// does not blame the bot for a connection that we could not make, and names who asked.
func TestTroubleIsKept(t *testing.T) {
	d := newDeal(t)
	b := d.model()
	d.ask(b)
	var turns control.TurnPage
	d.must(json.Unmarshal([]byte(d.call(http.MethodGet, "/turns", d.admin, nil)), &turns))
	if len(turns.Turns) != 1 || turns.Turns[0].Code != "bot_unreachable" || turns.Turns[0].AskerName != "ada" || turns.Turns[0].Person != "" {
		t.Errorf("the trail has %+v", turns.Turns)
	}
	other, err := OpenBase(t.Context(), d.base.Config, "test", slog.New(slog.NewTextHandler(io.Discard, nil)))
	d.must(err)
	defer other.Close()
	row, err := other.Store.Bots.ByNumber(t.Context(), b.Number)
	d.must(err)
	if h := other.models.health(row); h.State != control.BotTrouble || !strings.Contains(h.Trouble.En, "cannot be reached") {
		t.Errorf("another instance knows %+v", h)
	}
	_, err = other.Registry.Change(t.Context(), b.Number, board.Changes{Set: map[string]string{"model": "n"}})
	d.must(err)
	row, err = other.Store.Bots.ByNumber(t.Context(), b.Number)
	d.must(err)
	if h := other.models.health(row); h.State != control.BotUnasked {
		t.Errorf("with other settings it is %+v", h)
	}
}

// A look ends troubles of the connection, and none that only a question can find.
func TestWhatLooksEnd(t *testing.T) {
	const ready = openai.Problem(store.ModelReady)
	for _, c := range []struct {
		was    openai.Problem
		asked  bool
		found  openai.Problem
		proven bool
		want   openai.Problem
		still  bool // by a question
	}{
		{"", false, "", false, "", false},
		{"", false, "", true, ready, false},
		{"", false, openai.Unreachable, false, openai.Unreachable, false},
		{ready, true, openai.Unreachable, false, openai.Unreachable, false},
		{ready, true, "", false, ready, true},
		{openai.Unreachable, true, "", true, ready, false},
		{openai.Unreachable, false, "", false, "", false},
		{openai.Spent, true, "", true, openai.Spent, true},
		{openai.Spent, true, openai.Unreachable, false, openai.Spent, true},
		{openai.Key, false, "", true, ready, false},
		{openai.Key, true, "", true, openai.Key, true},
	} {
		got := afterLook(store.ModelState{State: string(c.was), Asked: c.asked}, c.found, c.proven)
		if got.State != string(c.want) || got.Asked != c.still {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	now := time.Now()
	for lasts, want := range map[time.Duration]time.Duration{0: lookAfter, 40 * time.Second: 20 * time.Second, time.Hour: lookRarely} {
		b := store.Bot{Version: 1, Model: store.ModelState{Version: 1, State: string(openai.Unreachable), Since: now.Add(-lasts)}}
		if got := pause(b, now); got != want {
			t.Errorf("after %v it is left alone for %v, want %v", lasts, got, want)
		}
	}
}
