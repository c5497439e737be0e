package xiaozhi

import (
	"context"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/pace"
)

// Door is the name of boards' turns.
const Door = "xiaozhi"

// turnOf is a turn of whoever talks to a board, with nothing said.
func turnOf(d store.Device, lang talk.Lang) *talk.Turn {
	return &talk.Turn{
		Bot: d.Bot, Door: Door, Address: d.Address, Person: Kind + ":" + d.Hardware, Conversation: Kind + ":" + d.Hardware, Lang: lang,
	}
}

var sayNobody = talk.Say{Zh: "这台设备还没有绑定智能体。", En: "No bot answers this board yet."}

// maxTyped bounds a question that was typed, in runes.
const maxTyped = 4000

// Ask puts something that was typed to the board's bot, and shows the answer sentence
// by sentence, without a sound. It returns when the answer is over.
func (c *Conversation) Ask(ctx context.Context, question string) error {
	if utf8.RuneCountInString(question) > maxTyped {
		question = string([]rune(question)[:maxTyped])
	}
	if err := c.Understood(question); err != nil {
		return err
	}
	generation := c.Generation()
	words := &wordless{next: make(chan string, 16)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !c.board.house.spawn(func() {
		defer close(words.next)
		c.answer(ctx, question, words)
	}) {
		return errDrained
	}
	words.show = c.Show
	_, err := c.Speak(ctx, generation, words)
	cancel()
	for range words.next { // until who writes has ended
	}
	if errors.Is(err, pace.ErrAborted) {
		return nil
	}
	return err
}

// answer has the bot answer, and gives the sentences.
func (c *Conversation) answer(ctx context.Context, question string, words *wordless) {
	c.board.mu.Lock()
	d := c.board.device
	c.board.mu.Unlock()
	if d.Bot == 0 {
		words.say(ctx, sayNobody.In(c.lang))
		return
	}
	turn := turnOf(d, c.lang)
	turn.Parts = []talk.Part{{Text: question}}
	var pending strings.Builder
	err := c.board.house.Hub.Answer(ctx, turn, func(e talk.Event) error {
		switch e.Kind {
		case talk.KindNote:
			return words.say(ctx, e.Text)
		case talk.KindText:
			pending.WriteString(e.Text)
			for {
				sentence, rest, ok := cutSentence(pending.String())
				if !ok {
					return nil
				}
				pending.Reset()
				pending.WriteString(rest)
				if err := words.say(ctx, sentence); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if s := strings.TrimSpace(pending.String()); s != "" {
		_ = words.say(ctx, s) // nobody looks any more
	}
	if f := talk.AsFailure(err); f != nil && !errors.Is(err, talk.ErrHungUp) {
		_ = words.say(ctx, f.Sentence(c.lang)) // nobody looks any more
	}
}

const (
	// longSentence is how long a sentence may be on a display, in bytes, before it is
	// cut at the next space.
	longSentence = 240
	// maxSentence is how long it may be at all. It bounds the memory, and the time
	// that it takes to look for an end, of an answer without any.
	maxSentence = 4 * longSentence
)

// cutSentence takes the first sentence off a text that is being written.
func cutSentence(text string) (sentence, rest string, ok bool) {
	for i, r := range text {
		end := i + utf8.RuneLen(r)
		switch {
		case strings.ContainsRune("。！？；!?;\n", r):
		case r == '.' && end < len(text) && text[end] == ' ': // and not a number's
		case r == ' ' && i > longSentence, i > maxSentence:
		default:
			continue
		}
		if s := strings.TrimSpace(text[:end]); s != "" {
			return s, text[end:], true
		}
	}
	return "", text, false
}

// wordless is speech without a sound: sentences are shown when they come.
type wordless struct {
	next chan string
	show func(string) error
}

func (w *wordless) say(ctx context.Context, s string) error {
	select {
	case w.next <- s:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Next implements [pace.Source]: there is never a packet.
func (w *wordless) Next(ctx context.Context) ([]byte, error) {
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
