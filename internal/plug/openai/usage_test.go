package openai

import (
	"slices"
	"sync"
	"testing"

	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
)

// Each request to the model is reported with its tokens, also one that fails.
func TestUseOfTheModel(t *testing.T) {
	s := startServer(t, calling(Call{ID: "x", Name: "weather", Arguments: `{}`}), saying("Sunny."))
	b := newRigWithToolbox(t, s, echoBox("weather"), nil)
	var uses []talk.ModelUse
	ask := func() {
		q := question("hi")
		q.UsesModel = func(u talk.ModelUse) { uses = append(uses, u) }
		b.ask(t, q)
	}
	ask()
	for _, u := range uses {
		if u.Model != "test-model" || u.Took <= 0 || u.First <= 0 || u.First > u.Took || u.Input != 10 ||
			u.Output != 5 || u.Failed {
			t.Errorf("%+v", u)
		}
	}
	if len(uses) != 2 {
		t.Fatalf("%d requests were reported", len(uses))
	}
	s.Script(Reply{Status: 401})
	uses = nil
	if ask(); len(uses) != 1 || !uses[0].Failed || uses[0].First != 0 || uses[0].Input != 0 {
		t.Errorf("a request that failed: %+v", uses)
	}
}

// A server that does not know the field for tokens is asked without it, from then on.
func TestServerWithoutTokens(t *testing.T) {
	s := startServer(t, Reply{Status: 400, Message: "Unrecognized request argument supplied: stream_options"},
		saying("one"), saying("two"))
	b := newRig(t, s.URL, nil)
	for _, want := range []string{`"one"`, `"two"`} {
		if got := b.mustAsk(t, question("hi")).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for i, r := range s.Requests() {
		if asks := r.Chat.StreamOptions != nil; asks != (i == 0) {
			t.Errorf("request %d asks for tokens: %t", i, asks)
		}
	}
	if n := len(s.Requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

// Turns that begin at the same time are refused at the same time, and each is asked again.
func TestServerWithoutTokensAtOnce(t *testing.T) {
	const turns = 4
	hold := make(chan struct{})
	refusal := Reply{Status: 400, Message: "Unrecognized request argument supplied: stream_options", Hold: hold}
	s := startServer(t, append(slices.Repeat([]Reply{refusal}, turns), slices.Repeat([]Reply{saying("yes")}, turns)...)...)
	b := newRig(t, s.URL, nil)
	var asked sync.WaitGroup
	for range turns {
		asked.Go(func() {
			if got := b.mustAsk(t, question("hi")).String(); got != `"yes"` {
				t.Errorf("got %s", got)
			}
		})
	}
	if _, err := s.Await(testContext(t), turns); err != nil {
		t.Error(err)
	}
	close(hold)
	asked.Wait()
}

// The check of a bot needs no tokens, and so no server that knows the field.
func TestCheckAsksForNoTokens(t *testing.T) {
	s := startServer(t)
	s.NoModels = true
	if err := newRig(t, s.URL, nil).Check(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if r := s.Requests(); len(r) != 1 || r[0].Chat.StreamOptions != nil {
		t.Errorf("%d requests: %s", len(r), r[0].Body)
	}
}
