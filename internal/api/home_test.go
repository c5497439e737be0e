package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/talk"
)

// What a program asks a bot is a conversation, as what somebody says to it; and nobody
// sees another's.
func TestAskAndChat(t *testing.T) {
	h := newTestServer(t)
	bot := h.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		return emit(talk.Text(fmt.Sprintf("%s, %s, after %d", turn.Channel, turn.Text(), len(turn.History))))
	})
	question := fmt.Sprintf(`{"bot":"%d","text":"hi","conversation":"one"}`, bot.Number)
	if status, text := h.at(h.operator, "POST", "ask", question); status != http.StatusOK ||
		!strings.Contains(text, "cli, hi, after 0") || !strings.Contains(text, `"end":true`) {
		t.Errorf("%d: %s", status, text)
	}
	path := fmt.Sprintf("bots/%d/chat", bot.Number)
	for _, query := range []string{"", "?conversation=one"} {
		chat := answered[control.Chat](h, h.operator, "GET", path+query, "")
		if chat.Conversation != "one" || chat.Bot.Name != bot.Name || !chat.Bot.Online || len(chat.Exchanges) != 1 ||
			chat.Exchanges[0].Answer != "cli, hi, after 0" {
			t.Errorf("%s: %+v", query, chat)
		}
	}
	other := h.Key(t, account.NewKey{Name: "another bot's", Scopes: []string{account.ScopeOperator}, Bot: h.bot.Number})
	for name, key := range map[string]string{"bob": h.bobs, "a key for another bot": other} {
		if status, text := h.at(key, "GET", path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d: %s", name, status, text)
		}
		if status, text := h.at(key, "POST", "ask", question); status != http.StatusNotFound {
			t.Errorf("%s: %d: %s", name, status, text)
		}
	}
	for body, want := range map[string]string{
		fmt.Sprintf(`{"bot":"%d"}`, bot.Number):                    "say something, or show a picture",
		fmt.Sprintf(`{"bot":"%d","image":"aGVsbG8="}`, bot.Number): "the picture cannot be read",
	} {
		if status, text := h.at(h.operator, "POST", "ask", body); status != http.StatusBadRequest ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %d: %s", body, status, text)
		}
	}
}

// A program sees what is being answered, and stops it; nobody stops another's.
func TestStopChat(t *testing.T) {
	h := newTestServer(t)
	began := make(chan struct{})
	bot := h.AddScript(t, nil, func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		if err := emit(talk.Text("once")); err != nil {
			return err
		}
		close(began)
		<-ctx.Done()
		return ctx.Err()
	})
	asked := make(chan string, 1)
	go func() {
		_, text := h.at(h.operator, "POST", "ask", fmt.Sprintf(`{"bot":"%d","text":"a story","conversation":"one"}`,
			bot.Number))
		asked <- text
	}()
	<-began
	path := fmt.Sprintf("bots/%d/chat", bot.Number)
	chat := answered[control.Chat](h, h.operator, "GET", path, "")
	if chat.Conversation != "one" || len(chat.Exchanges) != 0 || len(chat.Ongoing) != 1 ||
		chat.Ongoing[0].Question != "a story" || len(chat.Ongoing[0].Events) != 1 ||
		chat.Ongoing[0].Events[0].Text != "once" {
		t.Errorf("%+v", chat)
	}
	if status, text := h.at(h.bobs, "POST", path+"/stop", `{}`); status != http.StatusNotFound {
		t.Errorf("bob: %d: %s", status, text)
	}
	for _, conversation := range []string{"two", "one"} {
		want := hub.StopResult{}
		if conversation == "one" {
			want.Turns = 1
		}
		if out := answered[hub.StopResult](h, h.operator, "POST", path+"/stop",
			fmt.Sprintf(`{"conversation":%q}`, conversation)); out != want {
			t.Errorf("%s: %+v", conversation, out)
		}
	}
	if text := <-asked; !strings.Contains(text, "once") || !strings.Contains(text, "The answer was stopped.") {
		t.Error(text)
	}
}

// TestOverview checks that the overview has only what belongs to the caller, admins included.
func TestOverview(t *testing.T) {
	h := newTestServer(t)
	g := answered[control.Overview](h, h.admin, "GET", "overview", "")
	if len(g.Bots) != 1 || g.Bots[0].Number != h.bot.Number || g.Devices != 1 || g.Awake != 0 || g.Waiting != 0 {
		t.Errorf("ada sees %+v", g)
	}
	plugged(t, h, &provider{})
	h.shows("aa:aa:aa:aa:aa:09", "new")
	if g = answered[control.Overview](h, h.operator, "GET", "overview", ""); g.Awake != 1 || g.Waiting != 1 {
		t.Errorf("ada sees %+v", g)
	}
	if g = answered[control.Overview](h, h.bobs, "GET", "overview", ""); len(g.Bots) != 1 ||
		g.Bots[0].Number != h.bobsBot.Number || g.Devices != 1 || g.Awake != 0 {
		t.Errorf("bob sees %+v", g)
	}
	if status, text := h.at(h.local, "GET", "overview", ""); status != http.StatusBadRequest {
		t.Errorf("%d: %s", status, text)
	}
	if s := answered[control.LastActivity](h, h.bobs, "GET", "guide/board", ""); !s.Arrived || s.Name != "lamp" {
		t.Errorf("bob's board: %+v", s)
	}
	if s := answered[control.LastActivity](h, h.bobs, "GET", "guide/glasses", ""); s != (control.LastActivity{}) {
		t.Errorf("bob's glasses: %+v", s)
	}
	if status, _ := h.at(h.bobs, "GET", "guide/moon", ""); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
}
