package hub_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// addPerson adds somebody besides the rig's own person, who is an administrator.
func addPerson(t *testing.T, r *hubtest.Rig, id string) {
	t.Helper()
	must(t, r.Store.People.Add(ctx, store.Person{ID: id, Name: id, Role: "member", Lang: "en", Zone: "Asia/Shanghai",
		Created: time.Now()}))
}

// TestSharedBot checks that a bot of somebody else answers those with whom it is shared, and that
// what they say is theirs.
func TestSharedBot(t *testing.T) {
	t.Parallel()
	r := hubtest.New(t, hubtest.Options{})
	addPerson(t, r, "kid")
	var actsFor []string
	bot := r.AddScript(t, nil, hubtest.Func(func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		actsFor = append(actsFor, turn.ActsFor)
		return emit(talk.Text("yes"))
	}))
	askAs := func(person string) error {
		turn := ask(bot, "hello")
		turn.ID, turn.Asker, turn.Person = "", person, "console:"+person
		turn.Conversation = person
		return r.Hub.Answer(ctx, turn, newRecorder().emit)
	}
	wantCode(t, askAs("kid"), talk.NotAllowed)
	must(t, r.Store.Bots.Share(ctx, bot.Number, false, []string{"kid"}))
	must(t, askAs("kid"))
	must(t, askAs(r.Person.ID))
	must(t, r.Hub.Answer(ctx, ask(bot, "a wearer without an account"), newRecorder().emit))
	if got := strings.Join(actsFor, ","); got != "kid,," {
		t.Errorf("the bot acted for %q", got)
	}
	traces, err := r.Store.Traces.ByBot(ctx, bot.Number, time.Now().Add(time.Minute), "", 9)
	must(t, err)
	owners := map[string]int{}
	for _, tr := range traces {
		owners[tr.Owner]++
	}
	if len(traces) != 3 || owners["kid"] != 1 || owners[r.Person.ID] != 2 {
		t.Errorf("the turns belong to %v", owners)
	}
	// An administrator asks bots of others in the console and on the command line, as their owner.
	// A board of theirs does not.
	must(t, r.Store.People.SetRole(ctx, "kid", "admin", "admin"))
	must(t, r.Store.Bots.Share(ctx, bot.Number, false, nil))
	turn := ask(bot, "from a board")
	turn.Asker, turn.Channel = "kid", "xiaozhi"
	wantCode(t, r.Hub.Answer(ctx, turn, newRecorder().emit), talk.NotAllowed)
	turn = ask(bot, "from the console")
	turn.Asker, turn.Channel, turn.Person = "kid", "console", ""
	must(t, r.Hub.Answer(ctx, turn, newRecorder().emit))
	must(t, r.Store.People.SetRole(ctx, "kid", "member", "admin"))
	// Who may not ask any more keeps what they said, until they delete it.
	wantCode(t, askAs("kid"), talk.NotAllowed)
	if n, err := r.Store.Conversations.Forget(ctx, r.Person.ID, 0); n != 2 || err != nil {
		t.Errorf("the owner deleted %d exchanges, %v", n, err)
	}
	if n, err := r.Store.Conversations.Forget(ctx, "kid", 0); n != 1 || err != nil {
		t.Errorf("the other deleted %d exchanges, %v", n, err)
	}
}

// TestPausedPeople checks that nobody gets an answer who is paused, and no bot of theirs gives one.
func TestPausedPeople(t *testing.T) {
	t.Parallel()
	r := hubtest.New(t, hubtest.Options{})
	bot := r.AddScript(t, nil, say("yes"))
	addPerson(t, r, "other")
	must(t, r.Store.People.SetRole(ctx, "other", "admin", "admin"))
	pause := func(person string, since time.Time) {
		t.Helper()
		must(t, r.Store.People.SetPaused(ctx, person, since, "admin"))
		must(t, r.Hub.RefreshTools(ctx))
	}
	pause(r.Person.ID, time.Now())
	wantCode(t, r.Hub.Answer(ctx, ask(bot, "hello"), newRecorder().emit), talk.NotAllowed)
	turn := ask(bot, "hello")
	turn.Asker = "other"
	wantCode(t, r.Hub.Answer(ctx, turn, newRecorder().emit), talk.NotAllowed)
	pause(r.Person.ID, time.Time{})
	must(t, r.Hub.Answer(ctx, ask(bot, "hello"), newRecorder().emit))
	pause("other", time.Now())
	wantCode(t, r.Hub.Answer(ctx, turn, newRecorder().emit), talk.NotAllowed)
}

// TestQuestionsOfADay checks that questions beyond a person's limit are refused in words, and that
// questions that were never certain do not count.
func TestQuestionsOfADay(t *testing.T) {
	t.Parallel()
	r := hubtest.New(t, hubtest.Options{})
	addPerson(t, r, "kid")
	bot := r.AddScript(t, nil, say("yes"))
	must(t, r.Store.Bots.Share(ctx, bot.Number, true, nil))
	must(t, r.Store.People.SetLimits(ctx, "kid", store.PersonLimits{Questions: 2}))
	must(t, r.Hub.RefreshTools(ctx))
	n := 0
	askOnce := func(change func(*talk.Turn)) error {
		turn := ask(bot, "hello")
		n++
		turn.Asker, turn.Person, turn.Conversation, turn.Lang = "kid", "xiaozhi:board", string(rune('a'+n)), i18n.Chinese
		if change != nil {
			change(turn)
		}
		return r.Hub.Answer(ctx, turn, newRecorder().emit)
	}
	revised := func(turn *talk.Turn) { turn.Commit = func(context.Context) error { return talk.ErrRevised } }
	if err := askOnce(revised); err == nil {
		t.Error("a question that was revised has an answer")
	}
	must(t, askOnce(func(turn *talk.Turn) { turn.Commit = func(context.Context) error { return nil } }))
	must(t, askOnce(nil))
	err := askOnce(nil)
	wantCode(t, err, talk.NotAllowed)
	if told := talk.AsFailure(err).Sentence(i18n.Chinese); !strings.Contains(told, "2") {
		t.Errorf("the person is told %q", told)
	}
	wantCode(t, askOnce(func(turn *talk.Turn) { turn.Commit = func(context.Context) error { return nil } }),
		talk.NotAllowed)
	must(t, askOnce(func(turn *talk.Turn) { turn.Depth = 1 })) // a bot asks, not the person
	must(t, r.Hub.Answer(ctx, ask(bot, "of the owner"), newRecorder().emit))
}
