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

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openai"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/store"
)

func (d *deal) state(b store.Bot) (s control.BotStatus) {
	d.t.Helper()
	d.must(json.Unmarshal([]byte(d.call(http.MethodGet, "/bots/"+b.Name, d.admin, nil)), &s))
	return s
}

// Pictures are offered to models that can see them.
func TestPicturesAreForThoseWhoSee(t *testing.T) {
	d := newDeal(t)
	for images, want := range map[string]bool{"": true, "true": true, "false": false} {
		set := map[string]string{"base_url": d.known + "/v1", "model": "m"}
		if images != "" {
			set["images"] = images
		}
		text := d.open("/bots/" + strconv.FormatInt(d.bot(set).Number, 10) + "/chat")
		if got := strings.Contains(text, "You can send pictures too."); got != want {
			t.Errorf("images %q: pictures are offered: %v", images, got)
		}
	}
}

// A probe finds that a model that was never asked is failing, and shows it on every page. One that
// lists its models is ready. Neither gets a question.
func TestModelsAreLookedAt(t *testing.T) {
	d := newDeal(t)
	gone := d.model()
	if s := d.state(gone); s.State == control.BotReady {
		t.Errorf("before anybody looked it is %+v", s)
	}
	d.waits("a model that refuses connections is in trouble",
		func() bool { return d.state(gone).State == control.BotFailing })
	if s := d.state(gone); s.Online || s.FailingSince.IsZero() || !strings.Contains(s.Problem, "cannot be reached") {
		t.Errorf("it is %+v", s)
	}
	one := "/bots/" + strconv.FormatInt(gone.Number, 10)
	for _, page := range []string{"/", "/bots", one, one + "/chat"} {
		if text := d.open(page); !strings.Contains(text, "Failing") ||
			!strings.Contains(text, "cannot be reached") || strings.Contains(text, "Ready<") {
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
	if s := d.state(other); s.State != control.BotUnasked || s.Problem != "" {
		t.Errorf("a model that is not in the list is %+v", s)
	}
	if n := len(model.Requests()); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
}

// A model that was ready and goes down is soon red on an open page, and then everywhere, without a
// question.
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
	if s := d.state(b); s.State != control.BotFailing || s.Online || s.FailingSince.Before(gone.Truncate(time.Second)) {
		t.Errorf("it is %+v", s)
	}
	if text := d.open("/bots"); !strings.Contains(text, "Failing") {
		t.Errorf("the list says\n%s", text)
	}
}

// The result of a turn is known on every instance and after a restart. The audit trail does not
// blame the bot for a connection that we could not make, and names the asker.
func TestModelStateIsKept(t *testing.T) {
	d := newDeal(t)
	b := d.model()
	d.ask(b)
	var turns control.TurnPage
	d.must(json.Unmarshal([]byte(d.call(http.MethodGet, "/turns", d.admin, nil)), &turns))
	if len(turns.Turns) != 1 || turns.Turns[0].Code != "bot_unreachable" || turns.Turns[0].AskerName != "ada" ||
		turns.Turns[0].Person != "" {
		t.Errorf("the trail has %+v", turns.Turns)
	}
	other, err := OpenBase(t.Context(), d.base.Config, "test", slog.New(slog.NewTextHandler(io.Discard, nil)))
	d.must(err)
	defer other.Close()
	row, err := other.Store.Bots.ByNumber(t.Context(), b.Number)
	d.must(err)
	if h := other.models.health(row); h.State != control.BotFailing ||
		!strings.Contains(h.Problem.In(i18n.English), "cannot be reached") {
		t.Errorf("another instance knows %+v", h)
	}
	_, err = other.Registry.Change(t.Context(), b.Number, hub.Changes{Set: map[string]string{"model": "n"}})
	d.must(err)
	row, err = other.Store.Bots.ByNumber(t.Context(), b.Number)
	d.must(err)
	if h := other.models.health(row); h.State != control.BotUnasked {
		t.Errorf("with other settings it is %+v", h)
	}
}

// A probe clears connection errors, but not errors that only a turn can find.
func TestWhatLooksEnd(t *testing.T) {
	const ready = openai.Problem(store.ModelReady)
	for _, c := range []struct {
		was    openai.Problem
		asked  bool
		found  openai.Problem
		proven bool
		want   openai.Problem
		still  bool // found by a turn
	}{
		{"", false, "", false, "", false},
		{"", false, "", true, ready, false},
		{"", false, openai.ProblemUnreachable, false, openai.ProblemUnreachable, false},
		{ready, true, openai.ProblemUnreachable, false, openai.ProblemUnreachable, false},
		{ready, true, "", false, ready, true},
		{openai.ProblemUnreachable, true, "", true, ready, false},
		{openai.ProblemUnreachable, false, "", false, "", false},
		{openai.ProblemNoCredit, true, "", true, openai.ProblemNoCredit, true},
		{openai.ProblemNoCredit, true, openai.ProblemUnreachable, false, openai.ProblemNoCredit, true},
		{openai.ProblemKey, false, "", true, ready, false},
		{openai.ProblemKey, true, "", true, openai.ProblemKey, true},
	} {
		got := probeAgain(store.ModelState{State: string(c.was), Asked: c.asked}, c.found, c.proven)
		if got.State != string(c.want) || got.Asked != c.still {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	now := time.Now()
	for lasts, want := range map[time.Duration]time.Duration{0: lookAfter, 40 * time.Second: 20 * time.Second,
		time.Hour: lookRarely} {
		b := store.Bot{Version: 1, Model: store.ModelState{Version: 1, State: string(openai.ProblemUnreachable),
			Since: now.Add(-lasts)}}
		if got := pause(b, now); got != want {
			t.Errorf("after %v it is left alone for %v, want %v", lasts, got, want)
		}
	}
}
