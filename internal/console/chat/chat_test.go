package chat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/chat"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

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
	if p.Status != http.StatusOK || !p.Has("Say hello", bot.Name, "online", `role="log"`) {
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
		if p.Status != http.StatusOK || !p.Has(fmt.Sprintf("image/png of %d bytes", len(picture)), "[picture]") {
			t.Errorf("%d: %s", p.Status, p.Text)
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
	if p := ada.Get(at(plugin)); !p.Has("offline") {
		t.Error(p.Text)
	}
	if p := send(t, r, ada, at(plugin), false, map[string]string{"c": "one", "text": "there?"}, nil); !p.Has("The bot is offline. Please check its connection and try again.") {
		t.Error(p.Text)
	}
}

// Who presses Stop stops the bot.
func TestStop(t *testing.T) {
	r := newRig(t)
	talking, cause := make(chan struct{}), make(chan error, 1)
	bot := r.Script(t, nil, func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.Text("once upon a time")) //nolint:errcheck // the context tells
		close(talking)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	ada := r.As(r.Person)
	came := make(chan consoletest.Page, 1)
	go func() {
		came <- send(t, r, ada, at(bot), true, map[string]string{"c": "one", "text": "a story"}, nil)
	}()
	<-talking
	if p := r.As(r.Bob).Ask(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusNotFound {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := ada.Ask(http.MethodPost, at(bot)+"/stop", "c", "another"); p.Status != http.StatusNoContent {
		t.Errorf("%d: %s", p.Status, p.Text)
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
}
