package hub_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// Somebody who waits for a bot that is not there is told so again and again, until it comes.
func TestReminders(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{ReminderInterval: 20 * time.Millisecond}})
	goOn := make(chan struct{})
	bot := r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		if err := emit(talk.Waiting("wait")); err != nil {
			return err
		}
		<-goOn
		if err := emit(talk.Text("one ")); err != nil {
			return err
		}
		return emit(talk.Text("two"))
	})
	var heard []string
	err := r.Hub.Answer(t.Context(), &talk.Turn{Bot: bot.Number, Channel: "test", Lang: i18n.English,
		Parts: []talk.Part{{Text: "count"}}}, func(e talk.Event) error {
		if heard = append(heard, e.Text); len(heard) == 3 {
			close(goOn)
		}
		return nil
	})
	still := string(talk.MsgStillWaiting)
	if err != nil || !slices.Equal(heard[:3], []string{"wait", still, still}) ||
		!slices.Equal(heard[len(heard)-2:], []string{"one ", "two"}) {
		t.Errorf("%q, %v", heard, err)
	}
}
