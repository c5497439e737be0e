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
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/chat"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func newRig(t *testing.T) *consoletest.Rig {
	t.Helper()
	return consoletest.New(t, consoletest.Options{}, func(*consoletest.Rig) []page.Route { return chat.Routes() })
}

// at returns the path of a bot's chat page.
func at(b store.Bot) string { return fmt.Sprintf("/bots/%d/chat", b.Number) }

// dot returns a small picture.
func dot(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// send sends a question as the page's form does, with or without JavaScript.
func send(t *testing.T, r *consoletest.Rig, b *consoletest.Browser, path string, script bool, fields map[string]string,
	picture []byte) consoletest.Page {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, value := range fields {
		w.WriteField(name, value) //nolint:errcheck // into memory
	}
	for _, data := range [][]byte{nil, picture} { // inputs for files and for the camera
		f, err := w.CreateFormFile("picture", "x.png")
		if err != nil {
			t.Fatal(err)
		}
		f.Write(data) //nolint:errcheck // into memory
	}
	w.Close() //nolint:errcheck // into memory
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
	return consoletest.Page{Status: resp.StatusCode, Path: resp.Request.URL.RequestURI(), Text: string(text),
		Header: resp.Header}
}

// Words arrive piece by piece and escaped, and are there when the page is opened again, also as
// history for the bot.
func TestTalk(t *testing.T) {
	r := newRig(t)
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Channel != control.ChannelConsole || turn.Person != "console:"+r.Person.ID ||
			turn.Lang != i18n.English {
			t.Errorf("the turn is %+v", turn)
		}
		for _, word := range []string{"<b>you\n", "said</b> ", turn.Text(), fmt.Sprint(len(turn.History))} {
			if err := emit(talk.Text(word)); err != nil {
				return err
			}
		}
		return nil
	})
	ada := r.SignedInAs(r.Person)
	p := ada.Get(at(bot))
	if p.Status != http.StatusOK || !p.Contains("Say hello", bot.Name, "Ready", `role="log"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p = send(t, r, ada, at(bot), true, map[string]string{"c": "one", "text": "<i>hi\r\nyou"}, nil)
	if p.Status != http.StatusOK || p.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" ||
		!p.Contains("&lt;i&gt;hi\ndata: you", "&lt;b&gt;you\ndata: said&lt;/b&gt; ", "Stop", `hx-swap="outerMorph"`) ||
		strings.Contains(p.Text, "<b>") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p = ada.Get(at(bot) + "?c=one"); !p.Contains("&lt;i&gt;hi\nyou",
		"&lt;b&gt;you\nsaid&lt;/b&gt; &lt;i&gt;hi\nyou0") {
		t.Errorf("not kept: %s", p.Text)
	}
	// The page without a name shows the last conversation.
	if p = ada.Get(at(bot)); !p.Contains("&lt;i&gt;hi\nyou", `value="one"`) {
		t.Errorf("not the last one: %s", p.Text)
	}
	if p = send(t, r, ada, at(bot), true, map[string]string{"c": "one", "text": "again"},
		nil); !p.Contains("said&lt;/b&gt; again2") {
		t.Errorf("the bot does not know what was said: %s", p.Text)
	}
	if p = ada.Get("/bots/" + url.PathEscape(bot.Name) + "/chat?c=one"); !p.Contains(`action="`+at(bot)+`"`, "again") {
		t.Errorf("by its name: %s", p.Text)
	}
	if p = ada.Post(at(bot) + "/new"); !strings.HasPrefix(p.Path, at(bot)+"?c=2") || !p.Contains("Say hello") ||
		p.Contains("again") {
		t.Errorf("%s: %s", p.Path, p.Text)
	}
}

// Commands for glasses are described in words, and suggested questions are buttons.
func TestCommands(t *testing.T) {
	r := newRig(t)
	bot := r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		for _, e := range []talk.Event{
			talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto}),
			talk.DoCommand(talk.Command{Name: talk.CommandNavigate,
				Args: map[string]string{"action": "open", "poi_name": "<Bund>", "navi_type": "1"}}),
			talk.DoCommand(talk.Command{Name: talk.CommandCalendar,
				Args: map[string]string{"title": "Tea", "start_time": "2026-11-22 15:00",
					"end_time": "2026-11-22 16:00"}}),
			talk.DoCommand(talk.Command{Name: talk.CommandLeave}),
			talk.Text("there"), talk.Suggest("how far?", "how long?"),
		} {
			if err := emit(e); err != nil {
				return err
			}
		}
		return nil
	})
	p := send(t, r, r.SignedInAs(r.Person), at(bot), true, map[string]string{"c": "one", "text": "where?"}, nil)
	if !p.Contains("Take a photo", "Show the way to &lt;Bund&gt; (on foot)",
		"Put into the calendar: Tea, 2026-11-22 15:00 to 2026-11-22 16:00", "Leave the bot", `value="how far?"`,
		`value="how long?"`) {
		t.Error(p.Text)
	}
}

// Pictures are sent with the question; other files and files that are too large are refused.
func TestPicture(t *testing.T) {
	r := newRig(t)
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		for _, im := range turn.Images() {
			if err := emit(talk.Text(fmt.Sprintf("%s of %d bytes", im.MIME, len(im.Data)))); err != nil {
				return err
			}
		}
		return nil
	})
	ada, picture := r.SignedInAs(r.Person), dot(t)
	for _, script := range []bool{true, false} {
		p := send(t, r, ada, at(bot), script, map[string]string{"c": fmt.Sprint(script), "text": ""}, picture)
		if p.Status != http.StatusOK || !p.Contains(fmt.Sprintf("image/png of %d bytes", len(picture))) ||
			p.Contains("do not keep pictures") == script {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
		// The browser has the picture as long as the page is open; it is not stored anywhere.
		if p = ada.Get(at(bot) + "?c=" +
			fmt.Sprint(script)); !p.Contains("A picture was sent. Conversations do not keep pictures.") ||
			p.Contains("[picture]") {
			t.Errorf("opened again: %s", p.Text)
		}
		if p = ada.Get(at(bot)+"?c="+fmt.Sprint(script), "Cookie",
			"patchbay-lang=zh"); !p.Contains("发过一张图片。对话里不保留图片。") {
			t.Errorf("in Chinese: %s", p.Text)
		}
		if p = send(t, r, ada, at(bot), script, map[string]string{"c": "one", "text": "look"},
			[]byte("no picture")); p.Status != http.StatusUnprocessableEntity ||
			!p.Contains("WebP, JPEG, PNG and GIF can") || !script && !p.Contains(">look</textarea>") {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
		if p = send(t, r, ada, at(bot), script, map[string]string{"c": "one", "text": ""},
			make([]byte, control.MaxPicture+1)); p.Status != http.StatusRequestEntityTooLarge || !p.Contains("8 MiB") {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
	}
	if p := send(t, r, ada, at(bot), true, map[string]string{"c": "one", "text": " "},
		nil); p.Status != http.StatusUnprocessableEntity || !p.Contains("say something") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
}

// A failure is shown in the words that a wearer would hear, and its cause only to the owner.
func TestFailure(t *testing.T) {
	r := newRig(t)
	bot := r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		if err := emit(talk.Text("I be")); err != nil {
			return err
		}
		return talk.Fail(talk.BotFailed, "the kitchen burns", errors.New("status 500 from <stove>"))
	})
	ada := r.SignedInAs(r.Person)
	for _, script := range []bool{true, false} {
		p := send(t, r, ada, at(bot), script, map[string]string{"c": fmt.Sprint(script), "text": "cook"}, nil)
		if p.Status != http.StatusOK || !p.Contains("I be", "(unfinished)", "The bot reported an error: the kitchen burns",
			"status 500 from &lt;stove&gt;") {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
	}
	plugin := r.Add(t, "plugin", nil)
	if p := ada.Get(at(plugin)); !p.Contains("Waiting for its first connection") {
		t.Error(p.Text)
	}
	if p := send(t, r, ada, at(plugin), false, map[string]string{"c": "one", "text": "there?"},
		nil); !p.Contains("The bot was not connected here.",
		"check that the gateway is running", strings.TrimSuffix(at(plugin), "chat")+"settings") {
		t.Error(p.Text)
	}
}

// A conversation that is opened again has the questions that failed, between the others and with
// why, and they can be asked again. One without any answer is found again too.
func TestFailedStays(t *testing.T) {
	r := newRig(t)
	answer := func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		switch turn.Text() {
		case "partly":
			if err := emit(talk.Text("I be")); err != nil {
				return err
			}
			return talk.Fail(talk.Unreachable, "", errors.New("the <stove> is cold"))
		case "fail":
			return talk.Fail(talk.TimedOut, "", errors.New("status 504"))
		}
		return emit(talk.Text("Yes, " + turn.Text()))
	}
	bot := r.AddScript(t, map[string]string{"keep_content": "true"}, answer)
	forgetful := r.AddScript(t, map[string]string{"keep_content": "false"}, answer)
	ada := r.SignedInAs(r.Person)
	for _, text := range []string{"first", "fail", "partly", "last"} {
		send(t, r, ada, at(bot), true, map[string]string{"c": "one", "text": text}, nil)
	}
	p := ada.Get(at(bot) + "?c=one")
	if !inOrder(p.Text, "<span>first<", "Yes, first", "<span>fail<", "did not answer in time", "status 504",
		`name="text" value="fail"`, "<span>partly<", "I be", "(unfinished)", "the &lt;stove&gt; is cold", "<span>last<",
		"Yes, last") {
		t.Error(p.Text)
	}
	send(t, r, ada, at(bot), true, map[string]string{"c": "two", "text": "fail"}, nil)
	if p = ada.Get(at(bot)); !p.Contains(`value="two"`, "status 504", `?c=one"`) || p.Contains("Say hello") {
		t.Errorf("the last conversation, where nothing was answered, is not found: %s", p.Text)
	}
	if p = ada.Get(at(bot) + "?c=three"); p.Contains("status 504") {
		t.Errorf("failures of other conversations are shown: %s", p.Text)
	}
	if p = r.SignedInAs(r.Bob).Get(at(bot)); p.Contains("status 504") {
		t.Error(p.Text)
	}
	send(t, r, ada, at(forgetful), true, map[string]string{"c": "one", "text": "fail"}, nil)
	if p = ada.Get(at(forgetful)); !p.Contains("What you asked here was not kept.", "status 504",
		"A question without an answer") || p.Contains("Ask again") {
		t.Error(p.Text)
	}
}

// inOrder reports whether a text contains parts one after the other.
func inOrder(text string, parts ...string) bool {
	for _, part := range parts {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// Answers are shown as Markdown that does nothing to the page; programs have a button that copies
// them; the question can be asked again; and earlier conversations are at the side.
func TestMarkdown(t *testing.T) {
	r := newRig(t)
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		for _, word := range []string{"**Fat** [go](https://go.dev/) ![x](https://far.example/x.png)\n\n```go\n",
			"a <script>\n\nb\n", "```\n\nand <img src=x onerror=alert(1)> [bad](javascript:alert(1))"} {
			if err := emit(talk.Text(word)); err != nil {
				return err
			}
		}
		return nil
	})
	ada := r.SignedInAs(r.Person)
	sent := send(t, r, ada, at(bot), true, map[string]string{"c": "one", "text": "Show me\nall"}, nil)
	again := ada.Get(at(bot))
	for _, p := range []consoletest.Page{sent, again} {
		if !p.Contains("<strong>Fat</strong>", `rel="noopener noreferrer nofollow"`, "data-copy", `<pre tabindex="0">`,
			"a &lt;script&gt;", "Ask again", `<input type="hidden" name="text" value="Show me`) ||
			p.Contains("far.example") || p.Contains("<img") || p.Contains("javascript:") {
			t.Error(p.Text)
		}
	}
	if !again.Contains(`id="earlier"`, `aria-current="page"`, ">Show me</span>") {
		t.Error(again.Text)
	}
	send(t, r, ada, at(bot), false, map[string]string{"c": "two", "text": "Another"}, nil)
	if p := ada.Get(at(bot) + "?c=one"); !p.Contains(`href="`+at(bot)+`?c=two"`, ">Another</span>", "Show me\nall") {
		t.Error(p.Text)
	}
	send(t, r, ada, at(bot), false, map[string]string{"c": "two", "text": "The last one"}, nil)
	if p := ada.Get(at(bot) + "?c=two"); strings.Count(p.Text, "Ask again") != 1 ||
		!p.Contains(`name="text" value="The last one"`) || p.Contains(`name="text" value="Another"`) {
		t.Errorf("not the last question alone can be asked again: %s", p.Text)
	}
	if p := r.SignedInAs(r.Bob).Get(at(bot)); p.Contains("Show me") {
		t.Error(p.Text)
	}
}

// Tools that a bot calls are shown while it answers, and afterwards from the records.
func TestUsedTools(t *testing.T) {
	r := newRig(t)
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		use := talk.ToolUse{ID: "1", Name: "look_up", Args: []byte(`{"word":"<leek>"}`)}
		turn.UsesTool(use)
		use.Ended, use.Result = true, "a <vegetable>"
		turn.UsesTool(use)
		turn.UsesTool(talk.ToolUse{ID: "2", Name: "wait_for", Args: []byte(`"` + strings.Repeat("x", 9000) + `"`)})
		return emit(talk.Text("green"))
	})
	ada := r.SignedInAs(r.Person)
	p := send(t, r, ada, at(bot), true, map[string]string{"c": "one", "text": "leek?"}, nil)
	if !p.Contains("Used look_up", "{&#34;word&#34;:&#34;&lt;leek&gt;&#34;}", "a &lt;vegetable&gt;", "wait_for failed",
		"bytes were cut off here") || p.Contains("Used wait_for") {
		t.Error(p.Text)
	}
	e, err := r.Store.Conversations.Last(t.Context(), bot.Number, "console:"+r.Person.ID, "one", 1)
	if err != nil || len(e) != 1 {
		t.Fatal(e, err)
	}
	if err := r.Store.Calls.Add(t.Context(), []store.Call{
		{ID: "c1", At: e[0].At, Person: r.Person.ID, Bot: bot.Number, Turn: e[0].Turn, Tool: "look_up",
			Outcome: "failed", Cause: "the book is closed"},
		{ID: "c2", At: e[0].At, Person: r.Bob.ID, Turn: e[0].Turn, Tool: "bobs_tool", Outcome: "done"},
	}); err != nil {
		t.Fatal(err)
	}
	if p := ada.Get(at(bot)); !p.Contains("look_up failed", "the book is closed", "not recorded") ||
		p.Contains("bobs_tool") {
		t.Error(p.Text)
	}
}

// A bot of another person looks as if it did not exist.
func TestOwnership(t *testing.T) {
	r := newRig(t)
	bot := r.AddScript(t, nil, func(context.Context, *talk.Turn, talk.Emit) error {
		t.Error("somebody else's bot was asked")
		return nil
	})
	bob := r.SignedInAs(r.Bob)
	for _, path := range []string{at(bot), at(bot) + "?c=one", "/bots/99/chat", "/bots/x/chat"} {
		if p := bob.Get(path); p.Status != http.StatusNotFound || p.Contains(bot.Name) {
			t.Errorf("%s: %d", path, p.Status)
		}
	}
	for _, script := range []bool{true, false} {
		if p := send(t, r, bob, at(bot), script, map[string]string{"c": "one", "text": "hi"},
			nil); p.Status != http.StatusNotFound {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
	}
	if p := bob.Get(at(bot) +
		"/live?c=one&turn=0198b2c4-0000-7000-8000-000000000000"); p.Status != http.StatusNotFound {
		t.Errorf("live: %d", p.Status)
	}
	for _, act := range []string{"/new", "/stop"} {
		if p := bob.Post(at(bot)+act, "c", "one"); p.Status != http.StatusNotFound || !strings.HasSuffix(p.Path, act) {
			t.Errorf("%s: %d at %s", act, p.Status, p.Path)
		}
	}
	if p := r.Anonymous().Get(at(bot)); !strings.HasPrefix(p.Path, "/signin?next="+url.QueryEscape(at(bot))) {
		t.Errorf("a stranger gets to %s", p.Path)
	}
}

// In a browser, words appear as they come, Enter sends, the chosen picture is shown, and Stop stops
// the answer.
func TestInABrowser(t *testing.T) {
	next := make(chan string)
	r := newRig(t)
	bot := r.AddScript(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		if len(turn.Images()) > 0 {
			return emit(talk.Text("a picture"))
		}
		if turn.Text() == "photo" {
			return emit(talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto}))
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
		b.SetWidth(width)
		b.Open(at(bot))
		if width == 1280 {
			b.WaitText(".said", "one two")
			b.Click("form[action$=new] button")
			b.WaitUntil("location.search.startsWith('?c=') && document.querySelectorAll('.said').length == 0")
		}
		b.WaitUntil("document.activeElement.id == 'text'")
		b.Press("hello\r")
		b.WaitText(".said.mine", "hello")
		next <- "hm"
		b.WaitText(".said:not(.mine)", "let me think")
		next <- "one "
		b.WaitText(".said:not(.mine)", "one")
		b.WaitUntil("document.querySelector('#text').value == '' && document.activeElement.id == 'text'")
		next <- "two"
		b.WaitText(".said:not(.mine)", "one two")
		next <- "."
		b.WaitVisible(".said [role=group] button")
		b.WaitUntil("!document.querySelector('[aria-busy]') && !document.querySelector('#doing button')")
		b.Click(".said [role=group] button")
		b.WaitVisible(".does button")
		file := filepath.Join(t.TempDir(), "x.png")
		if err := os.WriteFile(file, dot(t), 0o600); err != nil {
			t.Fatal(err)
		}
		b.Upload("#picture", file)
		b.WaitVisible("#chosen img")
		b.Press("\r")
		b.WaitText(".said:not(.mine)", "a picture")
		b.WaitVisible(".said.mine img")
		b.WaitUntil("!document.querySelector('#chosen img')")
		b.Type("#text", "stop\r")
		next <- "three"
		b.WaitText(".said", "three")
		b.Click("#doing button")
		b.WaitText(".said", "Stopped.")
		b.WaitUntil("!document.querySelector('#doing button') && document.activeElement.id == 'text'")
		b.WaitUntil("document.documentElement.scrollWidth <= innerWidth")
	}
	b.Open(at(bot))
	b.WaitText(".said", "three")

	// Reopened in the middle of an answer, the page goes on with it and shows Stop. It mentions the
	// picture, which is gone.
	b.WaitText(".said.mine", "A picture was sent")
	b.Type("#text", "once more\r")
	next <- "four "
	b.WaitText(".said", "four")
	b.Open(at(bot))
	b.WaitText(".said.mine", "once more")
	b.WaitText(".said[aria-busy]", "four")
	b.WaitVisible("#following button")
	next <- "five "
	b.WaitText(".said[aria-busy]", "four five")
	b.WaitUntil("document.documentElement.scrollWidth <= innerWidth")
	next <- "six"
	next <- "."
	b.WaitText(".said:not(.mine)", "four five six")
	b.WaitUntil("!document.querySelector('[aria-busy]') && !document.querySelector('#following button') && !document.querySelector('#following [hidden]')")
	b.WaitVisible(".said [role=group] button")

	b.Type("#text", "and again\r")
	next <- "seven"
	b.WaitText(".said", "seven")
	b.Open(at(bot))
	b.WaitText(".said[aria-busy]", "seven")
	b.Click("#following button")
	b.WaitText(".said", "Stopped.")
	b.WaitUntil("!document.querySelector('#following button') && document.activeElement.id == 'text'")
}
