package activity_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/console/activity"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func newRig(t testing.TB, o consoletest.Options) *consoletest.Rig {
	return consoletest.New(t, o, func(*consoletest.Rig) []page.Route { return activity.Routes() })
}

// asks asks a bot a question, as glasses do, and returns the turn.
func asks(t testing.TB, r *consoletest.Rig, bot store.Bot, text string) string {
	t.Helper()
	turn := &talk.Turn{Bot: bot.Number, Channel: "lingzhu", Person: "w", Conversation: "c", Lang: i18n.English,
		Parts: []talk.Part{{Text: text}}}
	err := r.Hub.Answer(context.Background(), turn, func(talk.Event) error { return nil })
	if f := talk.AsFailure(err); f != nil && f.Code != talk.BotFailed {
		t.Fatal(err)
	}
	return turn.ID
}

// echoes is a bot that repeats the question, and fails when told to.
func echoes(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
	if turn.Text() == "fail" {
		return talk.Fail(talk.BotFailed, "", errors.New("the model <has> no quota"))
	}
	return emit(talk.Text("echo of " + turn.Text()))
}

// called records a call.
func called(t testing.TB, r *consoletest.Rig, c store.Call) {
	t.Helper()
	if c.At.IsZero() {
		c.At = time.Now()
	}
	if err := r.Store.Calls.Add(t.Context(), []store.Call{c}); err != nil {
		t.Fatal(err)
	}
}

// The turns of a conversation are one line, with what was asked if that is kept. People are asked
// once whether to keep it.
func TestConversations(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	bot := r.AddScript(t, nil, echoes)
	r.AddScript(t, nil, echoes)
	asks(t, r, bot, "before <all>")
	ada := r.SignedInAs(r.Person)
	p := ada.Get("/activity")
	if !p.Contains("Shall the questions", "Keep them") || p.Contains("before") || p.Contains("questions</span>") {
		t.Error(p.Text)
	}
	if p := r.SignedInAs(r.Bob).Get("/activity"); p.Contains("Shall the questions") { // he has no bots
		t.Error(p.Text)
	}
	if p = ada.Post("/activity/keep", "keep", "yes"); p.Path != "/activity?kept=yes" ||
		!p.Contains("From now on they are kept.") || p.Contains("Shall the questions") {
		t.Errorf("%s: %s", p.Path, p.Text)
	}
	asks(t, r, bot, "good <morning>")
	asks(t, r, bot, "fail")
	if p = ada.Get("/activity"); !p.Contains("3 questions", "good &lt;morning&gt;", "1 failed", bot.Name) ||
		strings.Count(p.Text, "record-conversation") != 1 || strings.Count(p.Text, `class="record-turn"`) != 3 {
		t.Error(p.Text)
	}
	if p = ada.Get("/activity?live=on"); p.Contains("record-conversation") {
		t.Error(p.Text)
	}
	if err := r.Store.Traces.Finish(t.Context(), store.Trace{Turn: "bobs", Owner: r.Bob.ID, Channel: "lingzhu",
		At: time.Now(), Outcome: "done", Question: "bobs secret"}, nil); err != nil {
		t.Fatal(err)
	}
	if p = ada.Get("/activity?everybody=on"); !p.Contains("/activity/turns/bobs") || p.Contains("bobs secret") {
		t.Error(p.Text)
	}
}

// A turn is in the list, and on its page with a breakdown of its time; its text is there only if it
// is retained.
func TestTurns(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	keeps := r.AddScript(t, map[string]string{"keep_content": "true"}, echoes)
	quiet := r.AddScript(t, nil, echoes)
	said, failed := asks(t, r, keeps, "good <morning>"), asks(t, r, quiet, "fail")
	called(t, r, store.Call{ID: "c1", Person: r.Person.ID, Bot: keeps.Number, Turn: said,
		Channel: "bot", Tool: "home_set_lamp", Outcome: "tool_error", Cause: "no bulb", Took: time.Millisecond})
	// names a turn of another person
	called(t, r, store.Call{ID: "c2", Person: r.Bob.ID, Turn: said, Tool: "bobs_secret", Outcome: "done"})
	b := r.SignedInAs(r.Person)
	p := b.Get("/activity")
	if !p.Contains(keeps.Name, quiet.Name, "answered", "failed", "glasses", "/activity/turns/"+said,
		"good &lt;morning&gt;") {
		t.Errorf("the list is %s", p.Text)
	}
	if p = b.Get("/activity?outcome=wrong"); p.Contains(keeps.Name+"</a>") || !p.Contains(quiet.Name+"</a>") {
		t.Errorf("what went wrong is %s", p.Text)
	}
	if p = b.Get(fmt.Sprintf("/activity?bot=%d&channel=lingzhu&day=%s", keeps.Number,
		time.Now().Format(time.DateOnly))); !p.Contains("good &lt;morning&gt;</a>") || p.Contains(quiet.Name+"</a>") {
		t.Errorf("turns with one bot are %s", p.Text)
	}
	if p = b.Get("/activity?day=2020-01-01"); !p.Contains("Nothing fits") {
		t.Errorf("turns of long ago are %s", p.Text)
	}
	if p = b.Get("/activity?outcome=splendid"); p.Status != http.StatusUnprocessableEntity ||
		!p.Contains("disconnected") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	p = b.Get("/activity/turns/" + said)
	if !p.Contains("good &lt;morning&gt;", "echo of good", "home_set_lamp", "no bulb", "<svg", "to the first piece",
		"pieces: 1") || p.Contains("bobs_secret") {
		t.Errorf("the turn is %s", p.Text)
	}
	p = b.Get("/activity/turns/" + failed)
	if !p.Contains("The bot reported an error.", "/bots/", "the model &lt;has&gt; no quota", "What was said is not kept") {
		t.Errorf("the turn that failed is %s", p.Text)
	}
}

// A recorded turn has a player for each sound, for its owner only.
func TestRecordedTurn(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	said := asks(t, r, r.AddScript(t, nil, echoes), "good morning")
	d, err := r.Store.Devices.Seen(t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: "aa", Client: "c",
		At: time.Now()})
	if err == nil {
		err = r.Store.Recordings.Add(t.Context(), store.Recording{Turn: said, Device: d.Number, Answer: "good evening",
			Expires: time.Now().Add(time.Hour), QuestionLength: time.Second, AnswerLength: 2 * time.Second},
			store.RecordedSound{Question: []byte("morning"), Answer: []byte("evening")})
	}
	if err != nil {
		t.Fatal(err)
	}
	ada, bob := r.SignedInAs(r.Person), r.SignedInAs(r.Bob)
	asks(t, r, r.AddScript(t, nil, echoes), "good night")
	path := "/activity/turns/" + said
	if p := ada.Get("/activity?recorded=on"); strings.Count(p.Text, `class="record-turn"`) != 1 ||
		!p.Contains(`href="`+path+`"`, `name="recorded" checked`) {
		t.Errorf("the list of those that are recorded is %s", p.Text)
	}
	if p := ada.Get("/activity"); !p.Contains("recorded") {
		t.Errorf("the list is %s", p.Text)
	}
	if p := ada.Get(path); !p.Contains("good evening", `src="`+path+`/sound/question"`, `src="`+path+`/sound/answer"`,
		"Answer, 2.0 s", "The recording is kept until") {
		t.Errorf("the turn is %s", p.Text)
	}
	if p := ada.Get(path + "/sound/answer"); p.Text != "evening" || p.Header.Get("Content-Type") != "audio/ogg" {
		t.Errorf("the answer is %d %q", p.Status, p.Text)
	}
	if p := bob.Get(path + "/sound/answer"); p.Status != http.StatusNotFound {
		t.Errorf("bob gets %d %q", p.Status, p.Text)
	}
}

// People see only their own records; an administrator can see all on request, but not their text.
func TestWhose(t *testing.T) {
	r := newRig(t, consoletest.Options{Options: hubtest.Options{Hub: hub.Options{KeepContent: true}}})
	bot := r.AddScript(t, nil, echoes)
	said := asks(t, r, bot, "adas words")
	if err := r.Store.Traces.Finish(t.Context(), store.Trace{Turn: "bobs", Owner: r.Bob.ID, Bot: 99, At: time.Now(),
		Outcome: "done", Channel: "mcp", Question: "bobs words"}, nil); err != nil {
		t.Fatal(err)
	}
	called(t, r, store.Call{ID: "c1", Person: r.Person.ID, Tool: "adas_tool", Outcome: "done"})
	called(t, r, store.Call{ID: "c2", Person: r.Bob.ID, Tool: "bobs_tool", Outcome: "done"})
	bob, ada := r.SignedInAs(r.Bob), r.SignedInAs(r.Person)
	for _, path := range []string{"/activity", "/activity?everybody=on", "/activity?bot=" + fmt.Sprint(bot.Number)} {
		if p := bob.Get(path); p.Contains(said) || p.Contains(bot.Name) {
			t.Errorf("bob sees at %s: %s", path, p.Text)
		}
	}
	if p := bob.Get("/activity/turns/" + said); p.Status != http.StatusNotFound {
		t.Errorf("bob gets %d", p.Status)
	}
	if p := bob.Get("/activity/turns/" + said + "?everybody=on"); p.Status != http.StatusNotFound {
		t.Errorf("bob gets %d", p.Status)
	}
	if p := bob.Get("/activity/calls?everybody=on"); p.Contains("adas_tool") || !p.Contains("bobs_tool") {
		t.Errorf("bob sees %s", p.Text)
	}
	if p := ada.Get("/activity"); p.Contains("bobs") {
		t.Errorf("ada sees without asking: %s", p.Text)
	}
	if p := ada.Get("/activity/turns/bobs"); p.Status != http.StatusNotFound {
		t.Errorf("ada gets %d without asking", p.Status)
	}
	if p := ada.Get("/activity?everybody=on"); !p.Contains("/activity/turns/bobs?everybody=on", said) {
		t.Errorf("ada sees %s", p.Text)
	}
	if p := ada.Get("/activity/turns/bobs?everybody=on"); p.Status != http.StatusOK || p.Contains("bobs words") {
		t.Errorf("ada sees %d: %s", p.Status, p.Text)
	}
	if p := ada.Get("/activity/calls?everybody=on"); !p.Contains("adas_tool", "bobs_tool") {
		t.Errorf("ada sees %s", p.Text)
	}
	// Bob cannot delete ada's records.
	if p := bob.Post("/activity/privacy/delete", "bot", fmt.Sprint(bot.Number), "said", "on", "turns", "on", "sure",
		"on"); p.Status != http.StatusNotFound {
		t.Errorf("bob deletes: %d", p.Status)
	}
	bob.Post("/activity/privacy/delete", "said", "on", "turns", "on", "arguments", "on", "sure", "on")
	if _, err := r.Store.Traces.ByTurn(t.Context(), said); err != nil {
		t.Error("bob has deleted what is ada's")
	}
	if _, err := r.Store.Traces.ByTurn(t.Context(), "bobs"); !errors.Is(err, store.ErrNotFound) {
		t.Error("what is bob's is there still")
	}
}

// A page has fifty records and links to the rest.
func TestPages(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	at := time.Now().Add(-time.Hour)
	var calls []store.Call
	for i := range 120 {
		calls = append(calls, store.Call{ID: fmt.Sprintf("c%03d", i), Person: r.Person.ID, At: at,
			Tool: fmt.Sprintf("tool_%03d", i), Outcome: "done"})
		if err := r.Store.Traces.Finish(t.Context(), store.Trace{Turn: fmt.Sprintf("turn %03d/?", i),
			Owner: r.Person.ID, Bot: 1, At: at, Outcome: "done"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Store.Calls.Add(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	b := r.SignedInAs(r.Person)
	for _, c := range []struct{ path, row string }{{"/activity?outcome=done", "/activity/turns/"},
		{"/activity/calls?tool=tool_*", "<code>tool_"}} {
		var sizes []int
		for path := c.path; path != ""; {
			p := b.Get(path)
			sizes = append(sizes, strings.Count(p.Text, c.row))
			path = ""
			if _, after, ok := strings.Cut(p.Text, "after="); ok {
				after, _, _ = strings.Cut(after, `"`)
				path = c.path + "&after=" + strings.SplitN(after, "&", 2)[0]
			}
		}
		if fmt.Sprint(sizes) != "[50 50 20]" {
			t.Errorf("%s has pages of %v", c.path, sizes)
		}
	}
	if p := b.Get("/activity/turns/" + url.PathEscape("turn 007/?")); p.Status != http.StatusOK ||
		!p.Contains("turn 007/?") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := b.Get("/activity?after=nonsense"); p.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d", p.Status)
	}
}

// follows returns a function that reads the next event of a live page.
func follows(t *testing.T, r *consoletest.Rig, b *consoletest.Browser, path string) func() string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewReader(resp.Body)
	return func() string {
		t.Helper()
		var event strings.Builder
		for {
			line, err := lines.ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				event.WriteString(data)
			} else if line == "\n" && event.Len() > 0 {
				return event.String()
			}
			if err != nil {
				t.Fatalf("the stream ended with %q", event.String())
			}
		}
	}
}

// A live page shows each new record once, and none of other people.
func TestFollow(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	bot := r.AddScript(t, nil, echoes)
	b := r.SignedInAs(r.Person)
	next := follows(t, r, b, "/activity/live")
	if e := next(); !strings.Contains(e, "No turns yet") || !strings.Contains(e, "#records") {
		t.Fatalf("it begins with %s", e)
	}
	first := asks(t, r, bot, "one")
	if e := next(); !strings.Contains(e, first) || !strings.Contains(e, `hx-target="#records"`) {
		t.Fatalf("the first turn is %s", e)
	}
	second := asks(t, r, bot, "two")
	if e := next(); !strings.Contains(e, second) || strings.Contains(e, first) ||
		!strings.Contains(e, `hx-swap="afterbegin"`) {
		t.Fatalf("the second turn is %s", e)
	}
	calls := follows(t, r, r.SignedInAs(r.Bob), "/activity/calls/live?outcome=wrong")
	if e := calls(); !strings.Contains(e, "Nothing fits") {
		t.Fatalf("it begins with %s", e)
	}
	for _, p := range []store.Person{r.Person, r.Bob} { // neither has such a tool
		if _, err := r.Hub.Call(t.Context(), hub.Access{Caller: tool.Caller{Person: p.ID, Channel: "mcp"}},
			"lamp_of_"+p.Name, &tool.Call{}); err == nil {
			t.Fatal("a tool is there")
		}
	}
	if e := calls(); !strings.Contains(e, "lamp_of_bob") || strings.Contains(e, "lamp_of_ada") ||
		!strings.Contains(e, "There is no such tool") {
		t.Fatalf("bob's call is %s", e)
	}
}

// leaves asks a slow bot and disconnects. The bot ends when the test calls end.
func leaves(t *testing.T, r *consoletest.Rig) (bot store.Bot, turn string, end func()) {
	t.Helper()
	begun, over := make(chan struct{}), make(chan struct{})
	bot = r.AddScript(t, nil, func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		close(begun)
		select {
		case <-over:
			return emit(talk.Text("at last"))
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-begun
		leave()
	}()
	asked := &talk.Turn{Bot: bot.Number, Channel: "lingzhu", Person: "w", Conversation: "c", Lang: i18n.English,
		Parts: []talk.Part{{Text: "slow"}}}
	if err := r.Hub.Answer(ctx, asked, func(talk.Event) error { return nil }); !errors.Is(err, talk.ErrDisconnected) {
		t.Fatal(err)
	}
	return bot, asked.ID, func() { close(over) }
}

// A turn that ends late is updated in place; nothing else is sent.
func TestFollowChanges(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	quick := r.AddScript(t, nil, echoes)
	next := follows(t, r, r.SignedInAs(r.Person), "/activity/live")
	next()
	bot, slow, end := leaves(t, r)
	e := next()
	id := regexp.MustCompile(`<li class="record-turn" id="(r[0-9a-f]+)">`).FindStringSubmatch(e)
	if id == nil || !strings.Contains(e, slow) || !strings.Contains(e, "the asker left") ||
		strings.Contains(e, "over after") {
		t.Fatalf("the turn is %s", e)
	}
	after := asks(t, r, quick, "one")
	if e := next(); !strings.Contains(e, after) || !strings.Contains(e, "afterbegin") || strings.Contains(e, slow) {
		t.Fatalf("another turn is %s", e)
	}
	end()
	if e := next(); !strings.Contains(e, `hx-target="#`+id[1]+`"`) || !strings.Contains(e, `hx-swap="outerMorph"`) ||
		!strings.Contains(e, bot.Name) || !strings.Contains(e, "over after") || strings.Contains(e, after) ||
		strings.Contains(e, "#rows") {
		t.Fatalf("what has ended is %s", e)
	}
}

// The page shows the retention, and deletes records on request after a confirmation.
func TestPrivacy(t *testing.T) {
	r := newRig(t, consoletest.Options{
		Options: hubtest.Options{Hub: hub.Options{KeepContent: true}},
		Control: control.Options{Retention: control.RetentionPolicy{Traces: 7 * 24 * time.Hour, Content: true,
			Calls: 36 * time.Hour, Exchanges: 30 * 24 * time.Hour, HistoryTurns: 20, Pictures: time.Hour}},
	})
	one, two := r.AddScript(t, map[string]string{"keep_content": "false"}, echoes), r.AddScript(t, nil, echoes)
	asks(t, r, one, "hello")
	said := asks(t, r, two, "hello again")
	b := r.SignedInAs(r.Person)
	if p := b.Get("/activity/privacy"); !p.Contains("trace.keep", "for 7 days", "for 36 hours", "for 60 minutes",
		"20 turns", "what was said is not kept", one.Name, "PATCHBAY_TRACE_KEEP") {
		t.Errorf("kept is %s", p.Text)
	}
	if p := b.Post("/activity/privacy/delete", "said", "on"); p.Status != http.StatusUnprocessableEntity ||
		!p.Contains("Confirm first", `name="said" checked`) {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post("/activity/privacy/delete", "sure", "on"); p.Status != http.StatusUnprocessableEntity ||
		!p.Contains("Say what is to be deleted") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post("/activity/privacy/delete", "sure", "on", "said", "on",
		"bot", fmt.Sprint(two.Number)); !p.Contains("Deleted: 1 exchanges") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := b.Get("/activity/turns/" + said); !p.Contains("What was said is not kept") {
		t.Errorf("it is there still: %s", p.Text)
	}
	if kept, err := r.Store.Conversations.Last(t.Context(), one.Number, "w", "c", 10); err != nil || len(kept) != 1 {
		t.Errorf("of the other bot, %d exchanges are left: %v", len(kept), err)
	}
	if p := b.Post("/activity/privacy/delete", "sure", "on", "turns", "on"); !p.Contains("2 records of turns") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := b.Get("/activity"); !p.Contains("No turns yet") {
		t.Errorf("left are %s", p.Text)
	}
}

// lamp is a device.
type lamp struct{}

func (lamp) Call(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("on"), nil }

// Charts contain the latest records and only devices of their person, and say since when they
// count.
func TestChartsPage(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	bot := r.AddScript(t, nil, echoes)
	b := r.SignedInAs(r.Person)
	if p := b.Get("/activity/charts"); !p.Contains("There were no turns in this time", "0 now, 0 at the most",
		"Nothing failed") || strings.Count(p.Text, "<svg class=\"plot\"") != 1 {
		t.Errorf("of nothing: %s", p.Text)
	}
	if _, err := r.Hub.Register(hub.ProviderRef{ID: hub.DeviceProviderID(1), Owner: r.Person.ID,
		Slug: "lamp", Kind: "xiaozhi", Held: true}, lamp{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Hub.Register(hub.ProviderRef{ID: hub.DeviceProviderID(2), Owner: r.Person.ID,
		Slug: "asleep", Kind: "xiaozhi"}, lamp{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it counts once, and ends
	if err := r.Control.Count(ctx); err != nil {
		t.Fatal(err)
	}
	asks(t, r, bot, "hello")
	asks(t, r, bot, "fail")
	p := b.Get("/activity/charts")
	if !p.Contains("2 turns, of which 1 did not go well", "1 turns failed", "1 now, 1 at the most",
		"nothing from before", "Half of the turns", `class="wrong"`) {
		t.Errorf("%s", p.Text)
	}
	asks(t, r, bot, "hello again")
	if p := b.Get("/activity/charts"); !p.Contains("3 turns, of which 1") {
		t.Errorf("what was a moment ago is not there: %s", p.Text)
	}
	for _, of := range []string{"week", "month"} {
		if p := b.Get("/activity/charts?range=" + of); !p.Contains("3 turns, of which 1", "Half of the turns") ||
			p.Contains("at the most") {
			t.Errorf("%s: %s", of, p.Text)
		}
	}
	if p := b.Get("/activity/charts?range=year"); p.Status != http.StatusUnprocessableEntity {
		t.Errorf("a range that there is not: status %d", p.Status)
	}
	if p := r.SignedInAs(r.Bob).Get("/activity/charts?everybody=on"); !p.Contains("There were no turns",
		"0 now, 0 at the most") {
		t.Errorf("bob sees %s", p.Text)
	}
	if p := b.Get("/activity/charts?everybody=on"); !p.Contains("3 turns", "1 now") {
		t.Errorf("everybody's are %s", p.Text)
	}
}

// A call of a tool is listed by the title of the tool, in the reader's language.
func TestTitlesOfTools(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	session, err := r.Hub.Register(hub.ProviderRef{ID: "device:1", Owner: r.Person.ID, Slug: "lamp", Kind: "xiaozhi"}, lamp{})
	if err != nil {
		t.Fatal(err)
	}
	session.SetTools([]tool.Tool{{Name: "brightness", Title: "Brightness", Input: []byte(`{"type":"object"}`)}})
	called(t, r, store.Call{ID: "c1", Person: r.Person.ID, Channel: "cli", Tool: "lamp_brightness", Outcome: "done"})
	called(t, r, store.Call{ID: "c2", Person: r.Person.ID, Channel: "cli", Tool: "gone_tool", Outcome: "done"})
	p := r.SignedInAs(r.Person).Get("/activity/calls", "Cookie", "patchbay-lang=zh")
	if !p.Contains("<span>亮度</span>", "lamp_brightness</code>", "<code>gone_tool</code>") {
		t.Error(p.Text)
	}
}

// An owner sees which other people used their tools, with which key, and from where.
func TestCallsByOthers(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	called(t, r, store.Call{ID: "c1", Person: r.Bob.ID, Actor: r.Person.ID,
		Key: "key-of-ada", Address: "192.0.2.7", Channel: "cli", Tool: "lamp_record", Outcome: "done"})
	called(t, r, store.Call{ID: "c2", Person: r.Bob.ID, Actor: "-", Address: "127.0.0.1", Channel: "cli",
		Tool: "lamp_listen", Outcome: "done"})
	called(t, r, store.Call{ID: "c3", Person: r.Bob.ID, Actor: "gone", Channel: "cli", Tool: "lamp_reboot",
		Outcome: "done"})
	p := r.SignedInAs(r.Bob).Get("/activity/calls")
	if !p.Contains("by ada", "key-of-ada", "192.0.2.7", "by whoever runs this machine", "by a person who is gone",
		"Owner of the tool") {
		t.Errorf("bob reads %s", p.Text)
	}
}
