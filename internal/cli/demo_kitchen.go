package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/sim"
)

const (
	msgWherePhoto  = i18n.Message("Where was this photo taken?")
	msgAtLake      = i18n.Message("At the lake, at sunset")
	msgCardMade    = i18n.Message("a card with the photo, %d bytes, that the board just took")
	msgSpoken      = i18n.Message("[spoken: %s]")
	msgBoardSays   = i18n.Message("%s says: %s")
	msgKitchenNote = i18n.Message("a program made a card of a photo; %d cards were reviewed by voice while cooking")
)

// playKitchen has a program make a card of a photo of the board, and reviews words by voice.
func playKitchen(ctx context.Context, st *demoRun) error {
	if st.kitchen == nil || st.speech == nil {
		return errors.New("there is no board, or no speech engine")
	}
	if err := st.kitchen.makeCard(ctx); err != nil {
		return err
	}
	// A conversation that is open knows the person's language, and not that they want to learn.
	if err := st.kitchen.Press(ctx); err != nil {
		return err
	}
	st.speech.faster.Store(8)
	question, err := st.kitchen.tell(ctx, msgQuizOn.In(st.sh.lang, st.learner.deck.Words))
	if err != nil {
		return err
	}
	word, known := wordOf(question, st.learner.deck.Readings)
	if word == "" {
		return fmt.Errorf("there is no word in %q", question)
	}
	heard, err := st.kitchen.tell(ctx, known)
	if err != nil {
		return err
	}
	if !otherWord(heard, word, st.learner.deck.Readings) {
		return fmt.Errorf("after %q there is no other word in %q", known, heard)
	}
	if heard, err = st.kitchen.tell(ctx, msgForgot.In(st.sh.lang)); err != nil {
		return err
	}
	if again, _ := wordOf(heard, st.learner.deck.Readings); again == "" {
		return fmt.Errorf("the answer to a forgotten word is not in %q", heard)
	}
	st.note = msgKitchenNote.In(st.sh.lang, 2)
	return nil
}

// wordOf returns the word that is in a text, and its reading; empty: there is none.
func wordOf(text string, readings map[string]string) (word, reading string) {
	for w := range readings { // the longest, since one word may be a part of another
		if strings.Contains(text, w) && len(w) > len(word) {
			word = w
		}
	}
	return word, readings[word]
}

// otherWord reports whether there is another word in a text, which may have the first one, too.
func otherWord(text, first string, readings map[string]string) bool {
	word, _ := wordOf(strings.ReplaceAll(text, first, " "), readings)
	return word != ""
}

// makeCard takes a photo with the board, and adds a point with it.
func (k *demoKitchen) makeCard(ctx context.Context) error {
	st := k.st
	raw, err := k.call(ctx, "_self_camera_take_photo", map[string]any{"question": msgOnBoard.In(st.sh.lang)})
	if err != nil {
		return err
	}
	var taken struct{ Content []struct{ Data []byte } }
	if err := json.Unmarshal(raw, &taken); err != nil || len(taken.Content) != 2 {
		return fmt.Errorf("the result of the photo is %s (%v)", raw, err)
	}
	photo := taken.Content[1].Data
	st.line("⇢", "create_knowledge_point "+msgWherePhoto.In(st.sh.lang))
	answer := msgAtLake.In(st.sh.lang) + "\n\n![](sunset.jpg)"
	text, err := k.program.call(ctx, "create_knowledge_point", map[string]any{"question": msgWherePhoto.In(st.sh.lang),
		"answer": answer, "deck": st.learner.deck.Flags, "tags": []string{"photo"}, "media": []map[string]string{
			{"name": "sunset.jpg", "data": base64.StdEncoding.EncodeToString(photo)}}})
	if err != nil {
		return err
	}
	var point struct{ ID string }
	if err := json.Unmarshal([]byte(text), &point); err != nil {
		return err
	}
	raw, err = k.program.ask(ctx, "tools/call", map[string]any{"name": "reveal_answer",
		"arguments": map[string]any{"knowledge_point_id": point.ID}})
	if err != nil {
		return err
	}
	var shown struct{ Content []struct{ Data []byte } }
	if err := json.Unmarshal(raw, &shown); err != nil {
		return err
	}
	for _, c := range shown.Content {
		if bytes.Equal(c.Data, photo) {
			st.line("⇠", msgCardMade.In(st.sh.lang, len(photo)))
			return nil
		}
	}
	return fmt.Errorf("the photo does not come back with the card: %.300s", raw)
}

// tell has a text spoken to the board, and returns what the board says.
func (k *demoKitchen) tell(ctx context.Context, text string) (string, error) {
	st := k.st
	st.speech.hear(text)
	st.line("›", msgSpoken.In(st.sh.lang, text))
	a, err := k.Ask(ctx, sim.GoodMorning())
	if err != nil {
		return "", err
	}
	if a.Transcript != text {
		return "", fmt.Errorf("the board heard %q instead of %q", a.Transcript, text)
	}
	said := strings.Join(a.Sentences, " ")
	st.line("‹", msgBoardSays.In(st.sh.lang, msgKitchen.In(st.sh.lang), said))
	return said, nil
}
