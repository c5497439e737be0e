package quiz

import (
	"context"
	"errors"
	"strings"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/talk"
)

const (
	// composing is how long a model may take to make points of a note.
	composing = 25 * time.Second
	// maxDrafts is how many points one note becomes at most.
	maxDrafts = 20
)

// noteNext waits for what is to be remembered, or takes the photo that came with
// the words.
func (t *turned) noteNext(ctx context.Context) error {
	if len(t.turn.Images()) > 0 {
		return t.note(ctx, "")
	}
	if t.state == nil || !t.state.reviewing() {
		t.state = &state{}
	}
	t.state.Step = content
	if t.turn.Can(talk.CommandTakePhoto) && pointsAt(t.heard.tight) {
		t.reply.command = &talk.Command{Name: talk.CommandTakePhoto}
		t.reply.say(sayLook.In(t.lang))
		return nil
	}
	t.reply.say(sayWhat.In(t.lang))
	t.reply.offer = []talk.Say{tipCancel}
	return nil
}

// pointsAt says whether somebody speaks of what they see.
func pointsAt(tight string) bool {
	for _, word := range []string{"这", "拍", "照", "图", "this", "page", "photo", "picture"} {
		if strings.Contains(tight, word) {
			return true
		}
	}
	return false
}

// noteSaid takes what was said after that.
func (t *turned) noteSaid(ctx context.Context) error {
	photo := len(t.turn.Images()) > 0
	v, _ := t.heard.onDraft()
	c, _ := t.heard.order(true)
	switch {
	case photo:
	case v == discard || c == stop:
		t.reply.say(sayDiscarded.In(t.lang))
		return t.back(ctx)
	case c == noise:
		t.reply.say(sayWhat.In(t.lang))
		return nil
	}
	return t.note(ctx, strings.TrimSpace(t.turn.Text()))
}

// note makes drafts of a text and of the turn's picture, and shows them.
func (t *turned) note(ctx context.Context, text string) error {
	var photo *talk.Image
	if images := t.turn.Images(); len(images) > 0 {
		photo = images[0]
	}
	limit, cancel := context.WithTimeout(ctx, composing)
	defer cancel()
	drafts, err := t.Service.Compose(limit, t.person, text, photo, t.lang)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		t.Logger.WarnContext(ctx, "a note became no point", "person", t.person, "error", err)
	}
	for i := range drafts {
		drafts[i].Unconfirmed = true
	}
	var made []learn.Entry
	if len(drafts) > 0 {
		all, err := t.Service.Create(ctx, t.person, drafts[:min(len(drafts), maxDrafts)])
		if err != nil {
			return err
		}
		for _, c := range all {
			if c.Err == nil {
				made = append(made, c.Entry)
			}
		}
	}
	if len(made) == 0 {
		t.reply.say(t.notComposed(err))
		return t.back(ctx)
	}
	if t.state == nil || !t.state.reviewing() {
		t.state = &state{}
	}
	t.once = true
	t.state.Step, t.state.Drafts = confirm, nil
	for _, e := range made {
		t.state.Drafts = append(t.state.Drafts, e.ID)
	}
	t.showDraft(&made[0])
	return nil
}

// notComposed tells why a note became nothing.
func (t *turned) notComposed(err error) string {
	f, failed := errors.AsType[*talk.Failure](err)
	switch {
	case errors.Is(err, learn.ErrNoModel):
		return sayNoPhotoModel.In(t.lang)
	case failed && f.Code == talk.Unreadable:
		return f.Sentence(t.lang)
	}
	return sayNotComposed.In(t.lang)
}

// showDraft tells what would be kept, and asks whether it is right.
func (t *turned) showDraft(e *learn.Entry) {
	question, answer := gist(e.Question, draftChars, t.lang), gist(e.Answer, draftChars, t.lang)
	if n := len(t.state.Drafts); n > 1 {
		t.reply.say(sayDrafts.In(t.lang, n, question, answer))
	} else {
		t.reply.say(sayDraft.In(t.lang, question, answer))
	}
	t.reply.say(sayConfirm.In(t.lang))
	t.reply.offer = []talk.Say{tipSave, tipCancel}
}

// drafts takes what was said about drafts; done says that it was about them. Drafts
// about which nothing is said stay what they are, and can be confirmed elsewhere.
func (t *turned) drafts(ctx context.Context) (done bool, err error) {
	s := t.state
	v, text := t.heard.onDraft()
	switch v {
	case keep:
		return true, t.keepDrafts(ctx)
	case discard:
		for _, id := range s.Drafts {
			if err := t.Service.Delete(ctx, t.person, id); err != nil && !errors.Is(err, learn.ErrNotFound) {
				return true, err
			}
		}
		t.reply.say(sayDiscarded.In(t.lang))
		return true, t.back(ctx)
	case correct:
		return true, t.editDraft(ctx, learn.Edit{Answer: &text})
	case reword:
		return true, t.editDraft(ctx, learn.Edit{Question: &text})
	}
	if c, _ := t.heard.order(true); c == noise && len(t.turn.Images()) == 0 {
		return true, t.editDraft(ctx, learn.Edit{}) // shows it again
	}
	s.Step = asked
	return false, nil
}

func (t *turned) keepDrafts(ctx context.Context) error {
	is, n := false, 0
	for _, id := range t.state.Drafts {
		_, err := t.Service.Update(ctx, t.person, id, learn.Edit{Draft: &is})
		switch {
		case err == nil:
			n++
		case !errors.Is(err, learn.ErrNotFound):
			return err
		}
	}
	if n > 0 {
		t.reply.say(saySaved.In(t.lang, n))
	} else {
		t.reply.say(sayGone.In(t.lang))
	}
	return t.back(ctx)
}

// editDraft changes the draft and shows it; an empty edit shows it only.
func (t *turned) editDraft(ctx context.Context, e learn.Edit) error {
	if len(t.state.Drafts) != 1 && e != (learn.Edit{}) {
		t.reply.say(sayOneByOne.In(t.lang), sayConfirm.In(t.lang))
		t.reply.offer = []talk.Say{tipSave, tipCancel}
		return nil
	}
	entry, err := t.Service.Update(ctx, t.person, t.state.Drafts[0], e)
	_, refused := errors.AsType[*learn.Invalid](err)
	switch {
	case errors.Is(err, learn.ErrNotFound):
		t.reply.say(sayGone.In(t.lang))
		return t.back(ctx)
	case refused:
		t.reply.say(sayNotComposed.In(t.lang), sayConfirm.In(t.lang))
		return nil
	case err != nil:
		return err
	}
	t.showDraft(entry)
	return nil
}

// back returns to the review that was interrupted, or ends.
func (t *turned) back(ctx context.Context) error {
	if t.state == nil || !t.state.reviewing() {
		t.state = nil
		return nil
	}
	t.state.Step, t.state.Drafts = asked, nil
	return t.repeat(ctx)
}
