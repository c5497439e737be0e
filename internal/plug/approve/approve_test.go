package approve_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/approve"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

type rig struct {
	*hubtest.Rig
	shown   chan string
	said    chan string
	service *approve.Service
	access  hub.Access
}

func newRig(t *testing.T, mayDecide bool) *rig {
	t.Helper()
	r := &rig{Rig: hubtest.New(t, hubtest.Options{Shared: []func() any{func() any { return new(approve.Settings) }}}),
		shown: make(chan string, 10), said: make(chan string, 10)}
	s := approve.New(approve.Options{Hub: r.Hub, Logger: slog.New(slog.DiscardHandler), PublicURL: "https://a.example",
		Show: func(_ context.Context, _, _, text string, _ i18n.Lang) error {
			r.shown <- text
			return nil
		},
		Say: func(_ context.Context, person string, bots []int64, text string, until time.Time) error {
			r.said <- fmt.Sprint(person == r.Person.ID, len(bots), " ", text, " ", time.Until(until) > 0)
			return nil
		},
		MayDecide: func(context.Context, store.Bot, *talk.Turn) bool { return mayDecide }})
	r.service = s
	r.Hub.OnApproval(s.Notify)
	r.Hub.Intercept("approval", s.Intercept)
	p, err := r.Hub.Register(hub.ProviderRef{ID: "a", Kind: "k", Title: "Gate", Slug: "gate", Owner: r.Person.ID},
		gate{})
	if err != nil {
		t.Fatal(err)
	}
	p.SetTools([]tool.Tool{{Name: "unlock", Title: "Unlock", Dangerous: true}})
	k, _, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: r.Person.ID, Name: "Claude",
		Scopes: []string{account.ScopeMCP}, Rules: `{"ask":"owner"}`})
	if err != nil {
		t.Fatal(err)
	}
	r.access = hub.Access{Caller: tool.Caller{Person: r.Person.ID, Key: k.ID}, Rules: k.Rules}
	return r
}

type gate struct{}

func (gate) Call(context.Context, *tool.Call) (*tool.Result, error) {
	return tool.Text("unlocked"), nil
}

// call calls the tool, and returns its result when it is there.
func (r *rig) call(which string) chan string {
	done := make(chan string, 1)
	go func() {
		res, err := r.Hub.Call(context.Background(), r.access, "gate_unlock",
			&tool.Call{Args: []byte(`{"gate":"` + which + `"}`)})
		if err != nil {
			done <- err.Error()
			return
		}
		done <- res.PlainText()
	}()
	return done
}

// say returns what a bot answers.
func (r *rig) say(t *testing.T, bot store.Bot, text string) string {
	t.Helper()
	var said strings.Builder
	err := r.Hub.Answer(t.Context(), &talk.Turn{Bot: bot.Number, Channel: "xiaozhi", Person: "xiaozhi:1",
		Lang:  i18n.English,
		Parts: []talk.Part{{Text: text}}}, func(e talk.Event) error {
		said.WriteString(e.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return said.String()
}

func echo(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
	return emit(talk.Text("the bot hears " + turn.Text()))
}

// A person is told on the glasses, and decides by talking to a bot that allows it.
func TestVoice(t *testing.T) {
	r := newRig(t, true)
	bot := r.AddScript(t, map[string]string{"approve": "true"}, echo)
	if text := r.say(t, bot, "Allow it."); text != "the bot hears Allow it." {
		t.Errorf("nothing waits: %s", text)
	}
	got := r.call("front")
	if text := <-r.shown; !strings.Contains(text, "Claude") || !strings.Contains(text, "Unlock") {
		t.Error(text)
	}
	if text := r.say(t, bot, "Yes."); text != "the bot hears Yes." {
		t.Errorf("a yes decides: %s", text)
	}
	if text := r.say(t, bot, "Allow it."); !strings.Contains(text, "Allowed: Claude may use Unlock once.") {
		t.Error(text)
	}
	if text := <-got; text != "unlocked" {
		t.Error(text)
	}
	events, err := r.Store.AdminEvents.Newest(t.Context(), "", 1)
	if err != nil || len(events) != 1 || events[0].Action != hub.EventCallApproved || events[0].Channel != "xiaozhi" ||
		events[0].Name != "ada" || events[0].About != "Claude: gate_unlock" {
		t.Errorf("%+v, %v", events, err)
	}
	got = r.call("back")
	<-r.shown
	if text := r.say(t, bot, "拒绝。"); !strings.Contains(text, "Refused: Claude may not use Unlock.") {
		t.Error(text)
	}
	if text := <-got; !strings.Contains(text, "does not allow") {
		t.Error(text)
	}
	one, two := r.call("left"), r.call("right")
	<-r.shown
	<-r.shown
	if text := r.say(t, bot, "allow it"); !strings.Contains(text, "2 calls wait") {
		t.Errorf("it is not clear which: %s", text)
	}
	r.Hub.Close()
	<-one
	<-two
}

// Nobody decides by a bot whose owner has not allowed that, or who is somebody else.
func TestVoiceOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		mayDecide bool
		settings  map[string]string
	}{
		"somebody else": {false, map[string]string{"approve": "true"}},
		"not allowed":   {true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.mayDecide)
			bot := r.AddScript(t, c.settings, echo)
			got := r.call("front")
			text := <-r.shown
			if allows := strings.Contains(text, "“允许”"); allows != (c.settings != nil) {
				t.Error(text)
			}
			if text := r.say(t, bot, "allow it"); text != "the bot hears allow it" {
				t.Error(text)
			}
			r.Hub.Close()
			if text := <-got; strings.Contains(text, "unlocked") {
				t.Error(text)
			}
		})
	}
}

// Boards say that a call waits if a bot's owner has switched that on, without its arguments, and
// nothing more while several wait.
func TestAloud(t *testing.T) {
	r := newRig(t, true)
	waiting := func(n int) []store.Approval {
		t.Helper()
		list, err := r.Store.Approvals.Waiting(t.Context(), r.Person.ID, time.Now())
		if err != nil || len(list) != n {
			t.Fatalf("%+v, %v", list, err)
		}
		return list
	}
	bot := r.AddScript(t, map[string]string{"approve": "true", "approve_aloud": "true"}, echo)
	first := r.call("secret")
	want := "true 1 Claude 想使用 Unlock。请说“允许”或“拒绝”。 true" // the owner's language
	if text := <-r.said; text != want {
		t.Errorf("boards say %q, want %q", text, want)
	}
	<-r.shown
	second := r.call("several")
	<-r.shown
	r.service.Notify(t.Context(), waiting(2)[1])
	if len(r.said) > 0 {
		t.Errorf("while several wait they say %q", <-r.said)
	}
	if text := r.say(t, bot, "Refuse it."); !strings.Contains(text, "2 calls wait") {
		t.Error(text)
	}
	for _, a := range waiting(2) {
		if _, err := r.Hub.DecideApproval(t.Context(), a.ID, false, hub.Decider{Person: r.Person.ID}); err != nil {
			t.Fatal(err)
		}
	}
	<-first
	<-second
}

// Without the setting, and without decisions by voice, boards say nothing.
func TestNotAloud(t *testing.T) {
	r := newRig(t, true)
	r.AddScript(t, map[string]string{"approve_aloud": "true"}, echo)
	bot := r.AddScript(t, map[string]string{"approve": "true"}, echo)
	done := r.call("front")
	<-r.shown
	list, err := r.Store.Approvals.Waiting(t.Context(), r.Person.ID, time.Now())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	r.service.Notify(t.Context(), list[0])
	if len(r.said) > 0 {
		t.Errorf("they say %q", <-r.said)
	}
	r.say(t, bot, "Allow it.")
	<-done
}
