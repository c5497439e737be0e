package chat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/chat"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func newRig(t *testing.T) *consoletest.Rig {
	t.Helper()
	return consoletest.New(t, consoletest.Options{}, func(*consoletest.Rig) []page.Route { return chat.Routes() })
}

// at is where one talks with a bot.
func at(b store.Bot) string { return fmt.Sprintf("/bots/%d/chat", b.Number) }

// dot is a small picture.
func dot(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// send sends a question as the page's form does, as the script or without one.
func send(t *testing.T, r *consoletest.Rig, b *consoletest.Browser, path string, script bool, fields map[string]string, picture []byte) consoletest.Page {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, value := range fields {
		w.WriteField(name, value) //nolint:errcheck // to memory
	}
	for _, data := range [][]byte{nil, picture} { // files, and the camera
		f, err := w.CreateFormFile("picture", "x.png")
		if err != nil {
			t.Fatal(err)
		}
		f.Write(data) //nolint:errcheck // to memory
	}
	w.Close() //nolint:errcheck // to memory
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+path, &body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	if script {
		req.Header.Set("HX-Request", "true")
	}
	resp, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return consoletest.Page{Status: resp.StatusCode, At: resp.Request.URL.RequestURI(), Text: string(text), Header: resp.Header}
}

// Words come piece by piece, escaped, and are there when the page is opened again, for the
// bot too.
func TestTalk(t *testing.T) {
	r := newRig(t)
	bot := r.Script(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Door != control.DoorConsole || turn.Person != "console:"+r.Person.ID || turn.Lang != talk.English {
			t.Errorf("the turn is %+v", turn)
		}
		for _, word := range []string{"<b>you\n", "said</b> ", turn.Text(), fmt.Sprint(len(turn.History))} {
			if err := emit(talk.Text(word)); err != nil {
				return err
			}
		}
		return nil
	})
	ada := r.As(r.Person)
	p := ada.Get(at(bot))
	if p.Status != http.StatusOK || !p.Has("Say hello", bot.Name, "Ready", `role="log"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p = send(t, r, ada, at(bot), true, map[string]string{"c": "one", "text": "<i>hi\r\nyou"}, nil)
	if p.Status != http.StatusOK || p.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" ||
		!p.Has("&lt;i&gt;hi\ndata: you", "&lt;b&gt;you\ndata: said&lt;/b&gt; ", "Stop", `hx-swap="outerMorph"`) || strings.Contains(p.Text, "<b>") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p = ada.Get(at(bot) + "?c=one"); !p.Has("&lt;i&gt;hi\nyou", "&lt;b&gt;you\nsaid&lt;/b&gt; &lt;i&gt;hi\nyou0") {
		t.Errorf("not kept: %s", p.Text)
	}
	// The page alone leads to the last conversation.
	if p = ada.Get(at(bot)); !p.Has("&lt;i&gt;hi\nyou", `value="one"`) {
		t.Errorf("not the last one: %s", p.Text)
	}
	if p = send(t, r, ada, at(bot), true, map[string]string{"c": "one", "text": "again"}, nil); !p.Has("said&lt;/b&gt; again2") {
		t.Errorf("the bot does not know what was said: %s", p.Text)
	}
	if p = ada.Get("/bots/" + url.PathEscape(bot.Name) + "/chat?c=one"); !p.Has(`action="`+at(bot)+`"`, "again") {
		t.Errorf("by its name: %s", p.Text)
	}
	if p = ada.Post(at(bot) + "/new"); !strings.HasPrefix(p.At, at(bot)+"?c=2") || !p.Has("Say hello") || p.Has("again") {
		t.Errorf("%s: %s", p.At, p.Text)
	}
}

// What glasses would do is told in words, and next questions can be pressed.
func TestCommands(t *testing.T) {
	r := newRig(t)
	bot := r.Script(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		for _, e := range []talk.Event{
			talk.Do(talk.Command{Name: talk.CommandTakePhoto}),
			talk.Do(talk.Command{Name: talk.CommandNavigate, Args: map[string]string{"action": "open", "poi_name": "<Bund>", "navi_type": "1"}}),
			talk.Do(talk.Command{Name: talk.CommandCalendar, Args: map[string]string{"title": "Tea", "start_time": "2026-11-22 15:00", "end_time": "2026-11-22 16:00"}}),
			talk.Do(talk.Command{Name: talk.CommandLeave}),
			talk.Text("there"), talk.Suggest("how far?", "how long?"),
		} {
			if err := emit(e); err != nil {
				return err
			}
		}
		return nil
	})
	p := send(t, r, r.As(r.Person), at(bot), true, map[string]string{"c": "one", "text": "where?"}, nil)
	if !p.Has("Take a photo", "Show the way to &lt;Bund&gt; (on foot)", "Put into the calendar: Tea, 2026-11-22 15:00 to 2026-11-22 16:00", "Leave the bot", `value="how far?"`, `value="how long?"`) {
		t.Error(p.Text)
	}
}

// Pictures are sent along; what is none is refused, and so is what is too large.
func TestPicture(t *testing.T) {
	r := newRig(t)
	bot := r.Script(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		for _, im := range turn.Images() {
			if err := emit(talk.Text(fmt.Sprintf("%s of %d bytes", im.MIME, len(im.Data)))); err != nil {
				return err
			}
		}
		return nil
	})
	ada, picture := r.As(r.Person), dot(t)
	for _, script := range []bool{true, false} {
		p := send(t, r, ada, at(bot), script, map[string]string{"c": fmt.Sprint(script), "text": ""}, picture)
		if p.Status != http.StatusOK || !p.Has(fmt.Sprintf("image/png of %d bytes", len(picture))) || p.Has("do not keep pictures") == script {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
		// The picture is in the browser as long as the page is open, and nowhere then.
		if p = ada.Get(at(bot) + "?c=" + fmt.Sprint(script)); !p.Has("A picture was sent. Conversations do not keep pictures.") || p.Has("[picture]") {
			t.Errorf("opened again: %s", p.Text)
		}
		if p = ada.Get(at(bot)+"?c="+fmt.Sprint(script), "Cookie", "patchbay-lang=zh"); !p.Has("发过一张图片。对话里不保留图片。") {
			t.Errorf("in Chinese: %s", p.Text)
		}
		if p = send(t, r, ada, at(bot), script, map[string]string{"c": "one", "text": "look"}, []byte("no picture")); p.Status != http.StatusUnprocessableEntity || !p.Has("WebP, JPEG, PNG and GIF can") || !script && !p.Has(">look</textarea>") {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
		if p = send(t, r, ada, at(bot), script, map[string]string{"c": "one", "text": ""}, make([]byte, control.MaxPicture+1)); p.Status != http.StatusRequestEntityTooLarge || !p.Has("8 MiB") {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
	}
	if p := send(t, r, ada, at(bot), true, map[string]string{"c": "one", "text": " "}, nil); p.Status != http.StatusUnprocessableEntity || !p.Has("say something") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
}

// A failure is told in the words that a wearer would hear, and its cause to the owner.
func TestFailure(t *testing.T) {
	r := newRig(t)
	bot := r.Script(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		if err := emit(talk.Text("I be")); err != nil {
			return err
		}
		return talk.Fail(talk.BotFailed, "the kitchen burns", errors.New("status 500 from <stove>"))
	})
	ada := r.As(r.Person)
	for _, script := range []bool{true, false} {
		p := send(t, r, ada, at(bot), script, map[string]string{"c": fmt.Sprint(script), "text": "cook"}, nil)
		if p.Status != http.StatusOK || !p.Has("I be", "(unfinished)", "Something went wrong: the kitchen burns", "status 500 from &lt;stove&gt;") {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
	}
	plugin := r.Add(t, "plugin", nil)
	if p := ada.Get(at(plugin)); !p.Has("Waiting for its first connection") {
		t.Error(p.Text)
	}
	if p := send(t, r, ada, at(plugin), false, map[string]string{"c": "one", "text": "there?"}, nil); !p.Has("The bot is offline. Please check its connection and try again.") {
		t.Error(p.Text)
	}
}

// storyteller is a bot that says what it is given until it is told the end, and why it was
// stopped if it was.
func storyteller() (f boardtest.Func, words chan string, cause chan error) {
	words, cause = make(chan string), make(chan error, 1)
	return func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		for {
			select {
			case word, more := <-words:
				if !more {
					return nil
				}
				if err := emit(talk.Text(word)); err != nil {
					return err
				}
			case <-ctx.Done():
				cause <- context.Cause(ctx)
				return ctx.Err()
			}
		}
	}, words, cause
}

// asking sends a question, and gives the page that came in the end.
func asking(t *testing.T, r *consoletest.Rig, b *consoletest.Browser, path, conversation, text string) <-chan consoletest.Page {
	t.Helper()
	came := make(chan consoletest.Page, 1)
	go func() {
		came <- send(t, r, b, path, true, map[string]string{"c": conversation, "text": text}, nil)
	}()
	return came
}

// Who presses Stop stops the bot.
func TestStop(t *testing.T) {
	r := newRig(t)
	f, words, cause := storyteller()
	bot := r.Script(t, nil, f)
	ada := r.As(r.Person)
	came := asking(t, r, ada, at(bot), "one", "a story")
	words <- "once upon a time"
	if p := r.As(r.Bob).Ask(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusNotFound {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	for _, path := range []string{"another", "", strings.Repeat("x", 65)} {
		if p := ada.Ask(http.MethodPost, at(bot)+"/stop", "c", path); (p.Status == http.StatusOK) != (path == "another") {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
	}
	select {
	case <-cause:
		t.Fatal("somebody else, or another conversation's Stop, stopped it")
	default:
	}
	if p := ada.Ask(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusNoContent {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := <-came; !p.Has("once upon a time", "Stopped.") {
		t.Error(p.Text)
	}
	if err := <-cause; !errors.Is(err, board.ErrStopped) {
		t.Errorf("the bot was stopped because of %v", err)
	}
	// Where nothing is answered any more, there is nothing to be stopped.
	if p := ada.Ask(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusOK || !p.Has(`hx-target="#doing"`, `hx-target="#following"`) {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := ada.Post(at(bot)+"/stop", "c", "one"); p.At != at(bot)+"?c=one" || !p.Has("once upon a time") {
		t.Errorf("%s: %s", p.At, p.Text)
	}
}

// followed finds where a page hears how answers go on that are being given.
func followed(t *testing.T, p consoletest.Page) string {
	t.Helper()
	found := regexp.MustCompile(`hx-sse:connect="([^"]*/chat/live[^"]*)"`).FindStringSubmatch(p.Text)
	if found == nil {
		t.Fatalf("the page follows nothing: %s", p.Text)
	}
	return html.UnescapeString(found[1])
}

// A page that is opened while the bot answers shows the question, what was said so far and
// what comes, and can stop it, also without the conversation's name.
func TestOpenedInTheMiddle(t *testing.T) {
	r := newRig(t)
	f, words, _ := storyteller()
	bot := r.Script(t, nil, f)
	ada := r.As(r.Person)
	came := asking(t, r, ada, at(bot), "one", "<a story>")
	words <- "once "
	words <- "<upon> "
	var p consoletest.Page
	for p = ada.Get(at(bot)); !p.Has("&lt;upon&gt;"); p = ada.Get(at(bot)) { // it is on its way
	}
	if !p.Has("&lt;a story&gt;", "once &lt;upon&gt; ", `aria-busy="true"`, "Stop", `value="one"`) {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := ada.Get(at(bot) + "?c=two"); p.Has("a story") || p.Has("aria-busy") || p.Has("Stop") {
		t.Errorf("another conversation: %s", p.Text)
	}
	live := followed(t, p)
	if p := r.As(r.Bob).Get(live); p.Status != http.StatusNotFound {
		t.Errorf("bob hears: %d", p.Status)
	}
	heard := make(chan consoletest.Page, 2)
	for range 2 {
		go func() { heard <- r.As(r.Person).Get(live) }()
	}
	words <- "a time"
	close(words)
	for range 2 {
		if p := <-heard; !p.Has("once ", "&lt;upon&gt; ", "a time", `hx-target="#following"`) || strings.Contains(lastBubble(p), "aria-busy") || !strings.Contains(lastBubble(p), "once &lt;upon&gt; a time") {
			t.Errorf("heard: %s", p.Text)
		}
	}
	<-came
	// Whoever asks too late is told all the same; and no more than is theirs.
	if p := ada.Get(live); !p.Has("once &lt;upon&gt; a time") || strings.Contains(lastBubble(p), "aria-busy") {
		t.Errorf("heard later: %s", p.Text)
	}
	bobs, _, err := r.Registry.Add(t.Context(), board.NewBot{Owner: r.Bob.ID, Name: "bob's", Kind: "script"})
	if err != nil {
		t.Fatal(err)
	}
	if p := r.As(r.Bob).Get(at(bobs) + "/live?" + live[strings.Index(live, "?")+1:]); p.Has("once") {
		t.Errorf("bob hears what ada was told: %s", p.Text)
	}
	if p := ada.Get(at(bot)); p.Has("aria-busy") || p.Has("chat/live") || !p.Has("once &lt;upon&gt; a time") {
		t.Errorf("in the end: %s", p.Text)
	}
	for _, query := range []string{"", "?c=one&turn=1&turn=2&turn=3&turn=4&turn=5"} {
		if p := ada.Get(at(bot) + "/live" + query); p.Status != http.StatusNotFound {
			t.Errorf("%s: %d", query, p.Status)
		}
	}

	// The browser that asked has gone: Stop stops it all the same.
	f, words, cause := storyteller()
	bot = r.Script(t, nil, f)
	asked, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	turn, err := r.Control.Turn(asked, control.Caller{Person: r.Person.ID, Program: control.DoorConsole}, control.Question{Bot: fmt.Sprint(bot.Number), Text: "another", Conversation: "one"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(gone)
		r.Board.Answer(asked, turn, func(talk.Event) error { return nil }) //nolint:errcheck // it is left
	}()
	words <- "so"
	leave()
	<-gone
	p = ada.Get(at(bot))
	if !p.Has("another", "aria-busy", "Stop") {
		t.Fatalf("%s", p.Text)
	}
	go func() { heard <- r.As(r.Person).Get(followed(t, p)) }()
	if p := ada.Ask(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusNoContent {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if err := <-cause; !errors.Is(err, board.ErrStopped) {
		t.Errorf("the bot was stopped because of %v", err)
	}
	if p := <-heard; !strings.Contains(lastBubble(p), "so") || !strings.Contains(lastBubble(p), "Stopped.") {
		t.Errorf("heard: %s", p.Text)
	}
}

// lastBubble is the answer as it was sent last.
func lastBubble(p consoletest.Page) string {
	return p.Text[max(0, strings.LastIndex(p.Text, `hx-target="#said-`)):]
}

// What another instance answers is there at this one too, and stops when it is stopped here.
func TestTwoInstances(t *testing.T) {
	db := storetest.Postgres(t)
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	at1 := func(name, url string) *consoletest.Rig {
		return consoletest.New(t, consoletest.Options{Options: boardtest.Options{DB: db, BusURL: url, Name: name}}, func(*consoletest.Rig) []page.Route { return chat.Routes() })
	}
	here, there := at1("here", urls[0]), at1("there", urls[1])
	for tick := time.NewTicker(5 * time.Millisecond); len(here.Board.Bus.Peers()) == 0; { // each says all the time that it lives
		<-tick.C
	}
	f, words, cause := storyteller()
	bot := there.Script(t, nil, f)
	came := asking(t, there, there.As(there.Person), at(bot), "one", "a story")
	words <- "once"
	ada := here.As(here.Person)
	p := ada.Get(at(bot))
	if !p.Has("a story", `aria-busy="true"`, "Being answered…", "Stop", `value="one"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	heard := make(chan consoletest.Page, 1)
	go func() { heard <- here.As(here.Person).Get(followed(t, p)) }()
	if p := ada.Ask(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusNoContent {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if err := <-cause; !errors.Is(err, board.ErrStopped) {
		t.Errorf("the bot was stopped because of %v", err)
	}
	if p := <-came; !p.Has("once", "Stopped.") {
		t.Errorf("where it was asked: %s", p.Text)
	}
	if p := <-heard; !strings.Contains(lastBubble(p), "once") || !strings.Contains(lastBubble(p), "Stopped.") {
		t.Errorf("where it was stopped: %s", p.Text)
	}
	if p := ada.Get(at(bot)); p.Has("aria-busy") || !p.Has("once") {
		t.Errorf("in the end: %s", p.Text)
	}

	// An instance that lives and says nothing may go on, and the page says so.
	there.Board.Close()
	if p := ada.Ask(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusServiceUnavailable || !p.Has("Another server did not respond") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
}

// What came when nobody looked any more is shown when the page is opened again, and not
// told a second time.
func TestLateAnswers(t *testing.T) {
	r := newRig(t)
	bot := r.Script(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error { return emit(talk.Text("now")) })
	late := func(turn string) {
		if err := r.Store.Conversations.Keep(t.Context(), store.Exchange{Turn: turn, Bot: bot.Number, Person: "console:" + r.Person.ID, Conversation: "one", Question: "then?", Answer: "at " + turn, Unheard: true}); err != nil {
			t.Fatal(err)
		}
	}
	ada := r.As(r.Person)
	late("last")
	if p := ada.Get(at(bot)); !p.Has("at last") {
		t.Error(p.Text)
	}
	if p := send(t, r, ada, at(bot), true, map[string]string{"c": "two", "text": "and"}, nil); p.Has("at last") {
		t.Error("told twice")
	}
	late("length")
	if p := send(t, r, ada, at(bot), true, map[string]string{"c": "two", "text": "now?"}, nil); !p.Has("Your earlier question has an answer:", "at length") {
		t.Error(p.Text)
	}
}

// Another person's bot is as none.
func TestOwnership(t *testing.T) {
	r := newRig(t)
	bot := r.Script(t, nil, func(context.Context, *talk.Turn, talk.Emit) error {
		t.Error("somebody else's bot was asked")
		return nil
	})
	bob := r.As(r.Bob)
	for _, path := range []string{at(bot), at(bot) + "?c=one", "/bots/99/chat", "/bots/x/chat"} {
		if p := bob.Get(path); p.Status != http.StatusNotFound || p.Has(bot.Name) {
			t.Errorf("%s: %d", path, p.Status)
		}
	}
	for _, script := range []bool{true, false} {
		if p := send(t, r, bob, at(bot), script, map[string]string{"c": "one", "text": "hi"}, nil); p.Status != http.StatusNotFound {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
	}
	if p := bob.Get(at(bot) + "/live?c=one&turn=0198b2c4-0000-7000-8000-000000000000"); p.Status != http.StatusNotFound {
		t.Errorf("live: %d", p.Status)
	}
	for _, act := range []string{"/new", "/stop"} {
		if p := bob.Post(at(bot)+act, "c", "one"); p.Status != http.StatusNotFound || !strings.HasSuffix(p.At, act) {
			t.Errorf("%s: %d at %s", act, p.Status, p.At)
		}
	}
	if p := r.Stranger().Get(at(bot)); !strings.HasPrefix(p.At, "/signin?next="+url.QueryEscape(at(bot))) {
		t.Errorf("a stranger gets to %s", p.At)
	}
}

// In a browser, words appear as they come, Enter sends, the picture that was chosen is
// shown, and Stop stops.
func TestInABrowser(t *testing.T) {
	next := make(chan string)
	r := newRig(t)
	bot := r.Script(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		if len(turn.Images()) > 0 {
			return emit(talk.Text("a picture"))
		}
		if turn.Text() == "photo" {
			return emit(talk.Do(talk.Command{Name: talk.CommandTakePhoto}))
		}
		for {
			select {
			case word := <-next:
				if word == "." {
					return emit(talk.Suggest("photo"))
				}
				piece := talk.Text(word)
				if word == "hm" {
					piece = talk.Note("let me think")
				}
				if err := emit(piece); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	b := browsertest.New(t, r.URL)
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	for _, width := range []int64{390, 1280} {
		b.Width(width)
		b.Open(at(bot))
		if width == 1280 {
			b.Reads(".said", "one two")
			b.Click("form[action$=new] button")
			b.Until("location.search.startsWith('?c=') && document.querySelectorAll('.said').length == 0")
		}
		b.Until("document.activeElement.id == 'text'")
		b.Press("hello\r")
		b.Reads(".said.mine", "hello")
		next <- "hm"
		b.Reads(".said:not(.mine)", "let me think")
		next <- "one "
		b.Reads(".said:not(.mine)", "one")
		b.Until("document.querySelector('#text').value == '' && document.activeElement.id == 'text'")
		next <- "two"
		b.Reads(".said:not(.mine)", "one two")
		next <- "."
		b.See(".said button")
		b.Until("!document.querySelector('[aria-busy]') && !document.querySelector('#doing button')")
		b.Click(".said button")
		b.See(".does button")
		file := filepath.Join(t.TempDir(), "x.png")
		if err := os.WriteFile(file, dot(t), 0o600); err != nil {
			t.Fatal(err)
		}
		b.Upload("#picture", file)
		b.See("#chosen img")
		b.Press("\r")
		b.Reads(".said:not(.mine)", "a picture")
		b.See(".said.mine img")
		b.Until("!document.querySelector('#chosen img')")
		b.Type("#text", "stop\r")
		next <- "three"
		b.Reads(".said", "three")
		b.Click("#doing button")
		b.Reads(".said", "Stopped.")
		b.Until("!document.querySelector('#doing button') && document.activeElement.id == 'text'")
		b.Until("document.documentElement.scrollWidth <= innerWidth")
	}
	b.Open(at(bot))
	b.Reads(".said", "three")

	// The page is opened again in the middle of an answer: it goes on there, and Stop
	// is there. A picture is told of, and gone.
	b.Reads(".said.mine", "A picture was sent")
	b.Type("#text", "once more\r")
	next <- "four "
	b.Reads(".said", "four")
	b.Open(at(bot))
	b.Reads(".said.mine", "once more")
	b.Reads(".said[aria-busy]", "four")
	b.See("#following button")
	next <- "five "
	b.Reads(".said[aria-busy]", "four five")
	b.Until("document.documentElement.scrollWidth <= innerWidth")
	next <- "six"
	next <- "."
	b.Reads(".said:not(.mine)", "four five six")
	b.Until("!document.querySelector('[aria-busy]') && !document.querySelector('#following button') && !document.querySelector('#following [hidden]')")
	b.See(".said button")

	b.Type("#text", "and again\r")
	next <- "seven"
	b.Reads(".said", "seven")
	b.Open(at(bot))
	b.Reads(".said[aria-busy]", "seven")
	b.Click("#following button")
	b.Reads(".said", "Stopped.")
	b.Until("!document.querySelector('#following button') && document.activeElement.id == 'text'")
}
