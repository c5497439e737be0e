package xiaozhi

import (
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"patchbay/internal/i18n"
	"patchbay/internal/plain"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/pace"
)

// Channel names the channel of boards' turns.
const Channel = "xiaozhi"

// newTurn returns a turn of the person who talks to a board, without parts.
func newTurn(d store.Device, lang i18n.Lang) *talk.Turn {
	return &talk.Turn{
		Bot: d.Bot, Channel: Channel, Address: d.Address, Person: Kind + ":" + d.Hardware,
		Conversation: Kind + ":" + d.Hardware, Lang: lang,
	}
}

const msgNobody = i18n.Message("No bot answers this board yet.")

// maxTyped limits a typed question, in runes.
const maxTyped = 4000

// Ask sends a typed question to the board's bot and shows the answer sentence by sentence, without
// audio. It returns when the answer is over.
func (c *Conversation) Ask(ctx context.Context, question string) error {
	if utf8.RuneCountInString(question) > maxTyped {
		question = string([]rune(question)[:maxTyped])
	}
	if err := c.ShowTranscript(question); err != nil {
		return err
	}
	generation := c.Generation()
	words := &textSource{next: make(chan string, 16)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !c.board.boards.spawn(func() {
		defer close(words.next)
		c.answer(ctx, question, func(s string) error { return words.send(ctx, s) })
	}) {
		return errServerStopping
	}
	words.show = c.ShowText
	_, err := c.Speak(ctx, generation, words)
	cancel()
	for range words.next { // until answer has returned
	}
	if errors.Is(err, pace.ErrAborted) {
		return nil
	}
	return err
}

// answer asks the bot and passes the sentences of its answer to say, whose error means that nobody
// wants to know the rest.
func (c *Conversation) answer(ctx context.Context, question string, say func(string) error) {
	d := c.board.current()
	if d.Bot == 0 {
		_ = say(msgNobody.In(c.lang))
		return
	}
	turn := newTurn(d, c.lang)
	turn.Parts = []talk.Part{{Text: question}}
	clean := plain.NewFilter(plain.Options{Markdown: true, Code: true, Emoji: true, Lang: c.lang})
	var split plain.Splitter
	var mood emotion
	sayAll := func(piece string) error {
		for _, s := range split.Write(piece) {
			if err := say(s); err != nil {
				return err
			}
		}
		return nil
	}
	err := c.board.boards.Hub.Answer(ctx, turn, func(e talk.Event) error {
		switch e.Kind {
		case talk.KindNote:
			return say(e.Text)
		case talk.KindText:
			if face := mood.read(e.Text); face != "" {
				if err := c.ShowEmotion(face); err != nil {
					return err
				}
			}
			return sayAll(clean.Write(e.Text))
		}
		return nil
	})
	_ = sayAll(clean.Flush())
	if rest := split.Flush(); rest != "" {
		_ = say(rest)
	}
	if f := talk.AsFailure(err); f != nil && !errors.Is(err, talk.ErrDisconnected) {
		_ = say(f.Sentence(c.lang))
	}
}

// textSource is a source without audio that shows each sentence when it arrives.
type textSource struct {
	next chan string
	show func(string) error
}

func (w *textSource) send(ctx context.Context, s string) error {
	select {
	case w.next <- s:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Next implements [pace.Source]. It never returns a packet, only the final error.
func (w *textSource) Next(ctx context.Context) ([]byte, error) {
	for {
		select {
		case s, ok := <-w.next:
			if !ok {
				return nil, io.EOF
			}
			if err := w.show(s); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
