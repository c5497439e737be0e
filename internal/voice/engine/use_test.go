package engine_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/voice/engine"
)

// account is an [engine.Account] that notes what it gets.
type account struct {
	mu    sync.Mutex
	uses  []engine.Use
	spent bool
}

func (a *account) Used(u engine.Use) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uses = append(a.uses, u)
}

func (a *account) Refusal(context.Context) *engine.Error {
	if a.spent {
		return engine.Errorf(engine.Spent, "for the test")
	}
	return nil
}

// hears is a listener of whole utterances that bills some sound, or fails.
func hears(billed time.Duration, err error) engine.Listener {
	return engine.ListenOnce(func(context.Context, []int16, engine.Hints) (engine.Transcript, error) {
		return engine.Transcript{Text: "yes", Billed: billed}, err
	})
}

// hearsLive takes half a second, and then bills some sound or fails.
func hearsLive(billed time.Duration, err error) engine.Listener {
	return engine.ListenLive(func(ctx context.Context, _ engine.Hints, d *engine.Dictation) error {
		if _, _, wait := d.Piece(ctx, engine.Rate/2); wait != nil {
			return wait
		}
		if err != nil {
			return err
		}
		return d.Publish(engine.Transcript{Text: "yes", Final: true, Billed: billed})
	})
}

// TestUseOfListeners checks what is counted of two seconds of speech: what the engine bills or,
// without that, what it got, unless it refused.
func TestUseOfListeners(t *testing.T) {
	const second = time.Second
	use := func(name string, heard time.Duration) engine.Use {
		return engine.Use{Engine: name, Heard: heard, Cost: heard.Milliseconds()}
	}
	for name, c := range map[string]struct {
		first, next engine.Listener
		want        []engine.Use
	}{
		"counted":                     {hears(0, nil), nil, []engine.Use{use("first", 2*second)}},
		"billed":                      {hears(3*second, nil), nil, []engine.Use{use("first", 3*second)}},
		"a bill without end":          {hears(1e6*second, nil), nil, []engine.Use{use("first", 2*second)}},
		"it got a part":               {hearsLive(0, nil), nil, []engine.Use{use("first", second/2)}},
		"it got a part, and bills it": {hearsLive(second, nil), nil, []engine.Use{use("first", second)}},
		"refused": {hears(0, engine.Errorf(engine.Auth, "no")), hears(0, nil),
			[]engine.Use{use("next", 2*second)}},
		"too late": {hears(0, engine.Errorf(engine.Timeout, "no")), hears(0, nil),
			[]engine.Use{use("first", 2*second), use("next", 2*second)}},
		"failed after a part": {hearsLive(0, engine.Errorf(engine.Broken, "no")), hears(0, nil),
			[]engine.Use{use("first", second/2), use("next", 2*second)}},
	} {
		t.Run(name, func(t *testing.T) {
			a := new(account)
			price := engine.Price{Minute: 0.06} // a thousandth of a second costs a millionth
			chain := engine.Chain{Account: a, Links: []engine.Link{
				{Name: "first", Engine: engine.Engine{Listener: c.first}, Price: price}}}
			if c.next != nil {
				chain.Links = append(chain.Links, engine.Link{Name: "next", Engine: engine.Engine{Listener: c.next},
					Price: price})
			}
			u := chain.Listen(t.Context(), engine.Hints{})
			if err := errors.Join(u.Write(make([]int16, 2*engine.Rate)), u.Finish()); err != nil {
				t.Fatal(err)
			}
			if got, err := u.Next(); err != nil || got.Text != "yes" {
				t.Fatalf("%+v, %v", got, err)
			}
			u.Close()
			if diff := cmp.Diff(c.want, a.uses); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUseOfSpeakers checks that an engine is billed for what it got, written as it needs it: what
// nobody wanted any more, and what another one had to repeat, too.
func TestUseOfSpeakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(account)
		chain := engine.Chain{Account: a, Links: []engine.Link{
			{Name: "first", Price: engine.Price{MillionCharacters: 15},
				Engine: engine.Engine{Speaker: speaker("first", func(text string) error {
					if text == "Three." {
						return engine.Errorf(engine.Timeout, "no")
					}
					return nil
				})}},
			{Name: "next", Engine: engine.Engine{Speaker: speaker("next", always(nil))},
				Spell: func(text, _ string) string { return text + "!" }}}}
		s := chain.Speak(t.Context(), engine.Manner{})
		say(t, s, "One.", "Two.", "Three.")
		if heard, err := speech(t, s); err != io.EOF || len(heard) != 3 {
			t.Errorf("%q, %v", heard, err)
		}
		s.Close()
		want := []engine.Use{{Engine: "first", Characters: 14, Cost: 14 * 15}, {Engine: "next", Characters: 7}}
		if diff := cmp.Diff(want, a.uses); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRefusal checks that an account that allows no more is not listened to, and is spoken to: that
// is how people are told.
func TestRefusal(t *testing.T) {
	a := &account{spent: true}
	chain := engine.Chain{Account: a, Links: []engine.Link{{Name: "first", Engine: engine.Engine{
		Listener: hears(0, nil), Speaker: speaker("first", always(nil))}}}}
	u := chain.Listen(t.Context(), engine.Hints{})
	if err := errors.Join(u.Write(make([]int16, engine.Rate)), u.Finish()); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Next(); engine.AsError(err) == nil || engine.AsError(err).Class != engine.Spent {
		t.Errorf("the error is %v", err)
	}
	u.Close()
	s := chain.Speak(t.Context(), engine.Manner{})
	defer s.Close()
	say(t, s, "Enough.")
	if _, err := s.Next(); err != nil || len(a.uses) != 0 {
		t.Errorf("%v, %+v", err, a.uses)
	}
}
