package quiz

import (
	"context"
	"errors"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/talk"
)

const (
	// composeTimeout limits how long a model may make points from a note.
	composeTimeout = 25 * time.Second
	// maxDrafts limits the points made from one note.
	maxDrafts = 20
)

// awaitNote asks for the note, or takes the photo that came with the words.
func (t *turnHandler) awaitNote(ctx context.Context) error {
	if len(t.turn.Images()) > 0 {
		return t.composeNote(ctx, "")
	}
	if t.state == nil || !t.state.isReviewing() {
		t.state = &state{}
	}
	t.state.Step = stepContent
	if t.turn.Can(talk.CommandTakePhoto) && refersToView(t.utterance) {
		t.reply.command = &talk.Command{Name: talk.CommandTakePhoto}
		t.reply.say(msgLook.In(t.lang))
		return nil
	}
	t.reply.say(msgWhat.In(t.lang))
	t.reply.offer = []i18n.Message{tipCancel}
	return nil
}

// refersToView reports whether the words refer to what the wearer sees.
func refersToView(h utterance) bool {
	for _, word := range []string{"这", "拍", "照", "图", "this", "page", "photo", "picture"} {
		if strings.Contains(h.tight, word) {
			return true
		}
	}
	return sayNoteThis.Said(h.text)
}

// takeNote takes the turn after awaitNote as the note.
func (t *turnHandler) takeNote(ctx context.Context) error {
	photo := len(t.turn.Images()) > 0
	v, _ := t.utterance.parseVerdict()
	c, _ := t.utterance.parseCommand(true)
	switch {
	case photo:
	case v == verdictDiscard || c == commandStop:
		t.reply.say(msgDiscarded.In(t.lang))
		return t.resumeReview(ctx)
	case c == commandLeave:
		return t.leave(ctx)
	case c == commandNoise:
		t.reply.say(msgWhat.In(t.lang))
		return nil
	}
	return t.composeNote(ctx, strings.TrimSpace(t.turn.Text()))
}

// composeNote makes drafts from a text and the turn's picture, and shows them.
func (t *turnHandler) composeNote(ctx context.Context, text string) error {
	var photo *talk.Image
	if images := t.turn.Images(); len(images) > 0 {
		photo = images[0]
	}
	limit, cancel := context.WithTimeout(ctx, composeTimeout)
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
	if photo != nil {
		t.keepPhoto(ctx, drafts, photo)
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
		t.reply.say(t.composeError(err))
		return t.resumeReview(ctx)
	}
	if t.state == nil || !t.state.isReviewing() {
		t.state = &state{}
	}
	t.rememberReply = true
	t.state.Step, t.state.Drafts = stepConfirm, nil
	for _, e := range made {
		t.state.Drafts = append(t.state.Drafts, e.ID)
	}
	t.showDraft(&made[0])
	return nil
}

// keepPhoto stores the photo that a note was made from, and shows it with the answers. Without it
// the drafts are still good.
func (t *turnHandler) keepPhoto(ctx context.Context, drafts []learn.Draft, photo *talk.Image) {
	if len(drafts) == 0 || len(photo.Data) == 0 {
		return
	}
	m, err := t.Service.SaveMedia(ctx, t.person, "", photo.Data)
	if err != nil {
		t.Logger.WarnContext(ctx, "the photo of a note was not kept", "person", t.person, "error", err)
		return
	}
	for i := range drafts {
		drafts[i].Answer = learn.WithMedia(drafts[i].Answer, &m)
	}
}

// composeError returns the text that explains why a note gave no points.
func (t *turnHandler) composeError(err error) string {
	f, failed := errors.AsType[*talk.Failure](err)
	switch {
	case errors.Is(err, learn.ErrNoModel):
		return msgNoPhotoModel.In(t.lang)
	case failed && f.Code == talk.Unreadable:
		return f.Sentence(t.lang)
	}
	return msgNotComposed.In(t.lang)
}

// showDraft shows a draft and asks whether it is right.
func (t *turnHandler) showDraft(e *learn.Entry) {
	question, answer := shorten(e.Question, draftChars, t.lang), shorten(e.Answer, draftChars, t.lang)
	if n := len(t.state.Drafts); n > 1 {
		t.reply.say(msgDrafts.In(t.lang, n, question, answer))
	} else {
		t.reply.say(msgDraft.In(t.lang, question, answer))
	}
	t.reply.say(msgConfirm.In(t.lang))
	t.reply.offer = []i18n.Message{tipSave, tipCancel}
}

// handleDrafts handles a turn that may be about drafts; done is false if it is not. Drafts without
// a verdict stay drafts and can be confirmed elsewhere.
func (t *turnHandler) handleDrafts(ctx context.Context) (done bool, err error) {
	s := t.state
	v, text := t.utterance.parseVerdict()
	switch v {
	case verdictKeep:
		return true, t.confirmDrafts(ctx)
	case verdictDiscard:
		for _, id := range s.Drafts {
			if err := t.Service.Delete(ctx, t.person, id); err != nil && !errors.Is(err, learn.ErrNotFound) {
				return true, err
			}
		}
		t.reply.say(msgDiscarded.In(t.lang))
		return true, t.resumeReview(ctx)
	case verdictCorrect:
		return true, t.editDraft(ctx, learn.Edit{Answer: &text})
	case verdictReword:
		return true, t.editDraft(ctx, learn.Edit{Question: &text})
	}
	switch c, _ := t.utterance.parseCommand(true); {
	case c == commandLeave:
		return true, t.leave(ctx)
	case c == commandNoise && len(t.turn.Images()) == 0:
		return true, t.editDraft(ctx, learn.Edit{}) // shows it again
	}
	s.Step = stepAsked
	return false, nil
}

func (t *turnHandler) confirmDrafts(ctx context.Context) error {
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
		t.reply.say(msgSaved.In(t.lang, n))
	} else {
		t.reply.say(msgGone.In(t.lang))
	}
	return t.resumeReview(ctx)
}

// editDraft changes the draft and shows it. An empty edit only shows it.
func (t *turnHandler) editDraft(ctx context.Context, e learn.Edit) error {
	if len(t.state.Drafts) != 1 && e != (learn.Edit{}) {
		t.reply.say(msgOneByOne.In(t.lang), msgConfirm.In(t.lang))
		t.reply.offer = []i18n.Message{tipSave, tipCancel}
		return nil
	}
	entry, err := t.Service.Update(ctx, t.person, t.state.Drafts[0], e)
	refused := problem.Is(err, problem.Invalid)
	switch {
	case errors.Is(err, learn.ErrNotFound):
		t.reply.say(msgGone.In(t.lang))
		return t.resumeReview(ctx)
	case refused:
		t.reply.say(msgNotComposed.In(t.lang), msgConfirm.In(t.lang))
		return nil
	case err != nil:
		return err
	}
	t.showDraft(entry)
	return nil
}

// resumeReview returns to the interrupted review, or ends the conversation.
func (t *turnHandler) resumeReview(ctx context.Context) error {
	if t.state == nil || !t.state.isReviewing() {
		t.state = nil
		return nil
	}
	t.state.Step, t.state.Drafts = stepAsked, nil
	return t.repeat(ctx)
}
