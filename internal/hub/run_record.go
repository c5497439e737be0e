package hub

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// cause returns why the bot failed, for its owner.
func (r *run) cause() string {
	switch {
	case r.stopped:
		return talk.ErrStopped.Error()
	case r.failure == nil:
		return ""
	}
	return r.failure.Error()
}

// lateExchange returns the exchange of an answer that was not delivered. An incomplete answer is
// not delivered later, unless the asker stopped it.
func (r *run) lateExchange(answer string) *store.Exchange {
	if r.stopped {
		return r.exchange(answer, false)
	}
	if r.failure != nil {
		return nil
	}
	return r.exchange(answer, true)
}

// exchange returns the turn as history stores it; nil if there is no answer, no person, or if an
// interceptor answered. Requires mu, or that the run has ended.
func (r *run) exchange(answer string, unheard bool) *store.Exchange {
	if r.turn.Person == "" || answer == "" || r.interceptedBy != "" || r.isBotRemoved() {
		return nil
	}
	return &store.Exchange{
		Turn: r.turn.ID, Bot: r.turn.Bot, Person: r.turn.Person, Conversation: r.turn.Conversation,
		At: r.started, Question: r.question(), Answer: answer, Undelivered: unheard, ActsFor: r.turn.ActsFor,
	}
}

const msgImage = i18n.Message("[picture]")

// SplitImages removes the placeholders for images from the end of a stored question, and returns
// their number. A person who typed such a placeholder at the end is counted too.
func SplitImages(question string) (text string, pictures int) {
	for {
		rest, last := "", question
		if i := strings.LastIndexByte(question, '\n'); i >= 0 {
			rest, last = question[:i], question[i+1:]
		}
		if !slices.ContainsFunc(i18n.Languages(), func(l i18n.Lang) bool { return last == msgImage.In(l) }) {
			return question, pictures
		}
		question, pictures = rest, pictures+1
	}
}

// questionText returns the question as history stores it.
func questionText(t *talk.Turn) string {
	text := t.Text()
	for range t.Images() {
		if text != "" {
			text += "\n"
		}
		text += msgImage.In(t.Lang)
	}
	return text
}

// trace returns the record of the turn so far. Requires mu.
func (r *run) trace(outcome string, code talk.Code, cause string) store.Trace {
	tr := r.silentTrace(outcome, code, cause)
	if r.turn.VoiceTimes != nil {
		tr.Voice = (*store.VoiceTimes)(r.turn.VoiceTimes())
	}
	return tr
}

// silentTrace is trace without the times of a spoken turn.
func (r *run) silentTrace(outcome string, code talk.Code, cause string) store.Trace {
	kind := r.bot.Kind
	if r.interceptedBy != "" {
		kind = r.interceptedBy
	}
	asker := r.turn.Asker
	if r.turn.Person != "" {
		asker = ""
	}
	tr := store.Trace{
		Turn: r.turn.ID, Bot: r.turn.Bot, Owner: cmp.Or(r.turn.ActsFor, r.bot.Owner), Kind: kind,
		Channel: r.turn.Channel, Person: r.turn.Person, Asker: asker, Conversation: r.turn.Conversation,
		Instance: r.hub.Bus.Instance, At: r.started, Queue: r.waited, First: r.first, Total: time.Since(r.started),
		Models: slices.Clone(r.models),
		Pieces: r.pieces, Bytes: r.bytes, Outcome: outcome, Code: string(code), Cause: cause,
	}
	if r.keepContent() {
		tr.Question, tr.Answer = r.question(), r.active.text()
	}
	return tr
}

// maxModelUses limits the requests to a model that the record of a turn has. Bots make fewer.
const maxModelUses = 100

// recordModel is the UsesModel of the turn.
func (r *run) recordModel(u talk.ModelUse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.models) < maxModelUses {
		first := u.First.Milliseconds()
		if u.First > 0 {
			first = max(first, 1) // 0: none came
		}
		r.models = append(r.models, store.ModelUse{Model: u.Model,
			From: (time.Since(r.started) - u.Took).Milliseconds(), First: first, Took: u.Took.Milliseconds(),
			Input: u.Input, Output: u.Output, Failed: u.Failed})
	}
}

func (r *run) keepContent() bool {
	if keep := r.common.KeepContent; keep != nil {
		return *keep
	}
	return r.hub.KeepContent
}
