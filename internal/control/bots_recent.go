package control

import (
	"context"
	"slices"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// recentTurns is the number of turns of a bot that [BotRecent] summarizes.
const recentTurns = 10

// BotRecent summarizes the last turns of a bot, at most 10, without those that it was not asked
// about: not allowed, or not heard.
type BotRecent struct {
	Turns  int `json:"turns"`
	Failed int `json:"failed,omitempty"`
	// FirstMS is the median time from the question to the first piece of an answer, in
	// milliseconds; 0: nothing was answered.
	FirstMS int64 `json:"first_ms,omitempty"`
	// Answer is the last answer, and Failure the last turn that failed; nil: there was none.
	Answer  *RecentAnswer  `json:"answer,omitempty"`
	Failure *RecentFailure `json:"failure,omitempty"`
}

// RecentAnswer is a turn that was answered.
type RecentAnswer struct {
	Turn string    `json:"turn"`
	At   time.Time `json:"at"`
	// Text is the beginning of the answer, if the owner keeps what is said.
	Text string `json:"text,omitempty"`
}

// RecentFailure is a turn that failed. Code and Cause are as in [store.Trace].
type RecentFailure struct {
	Turn  string    `json:"turn"`
	At    time.Time `json:"at"`
	Code  string    `json:"code,omitempty"`
	Cause string    `json:"cause,omitempty"`
}

// IsFailing reports whether the last thing that happened is a failure.
func (r *BotRecent) IsFailing() bool {
	return r.Failure != nil && (r.Answer == nil || r.Failure.At.After(r.Answer.At))
}

// addRecent adds the last turns to bots that had some.
func (s *Service) addRecent(ctx context.Context, c Caller, bots []BotStatus) error {
	var numbers []int64
	for _, b := range bots {
		if !b.Shared { // what others ask it is not the caller's
			numbers = append(numbers, b.Number)
		}
	}
	traces, err := s.Hub.Store.Traces.RecentByBot(ctx, numbers, recentTurns)
	if err != nil {
		return err
	}
	for i := range bots {
		if list := traces[bots[i].Number]; len(list) > 0 {
			bots[i].Recent = summarizeRecent(c, list)
		}
	}
	return nil
}

// summarizeRecent summarizes turns, newest first.
func summarizeRecent(c Caller, list []store.Trace) *BotRecent {
	out := &BotRecent{}
	var firsts []time.Duration
	for i := range list {
		t := &list[i]
		if t.Code == string(talk.NotAllowed) || t.Code == string(talk.NotHeard) {
			continue
		}
		out.Turns++
		hideContent(c, t)
		if t.First > 0 {
			firsts = append(firsts, t.First)
		}
		switch {
		case t.Outcome == "failed":
			out.Failed++
			if out.Failure == nil {
				out.Failure = &RecentFailure{Turn: t.Turn, At: t.At, Code: t.Code, Cause: t.Cause}
			}
		case t.Outcome == "done" && out.Answer == nil:
			out.Answer = &RecentAnswer{Turn: t.Turn, At: t.At, Text: t.Answer}
		}
	}
	if len(firsts) > 0 {
		slices.Sort(firsts)
		out.FirstMS = max(1, firsts[len(firsts)/2].Milliseconds())
	}
	return out
}
