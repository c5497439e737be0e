package xiaozhi

import (
	"context"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/pace"
	"patchbay/internal/voice/spoken"
)

// Channel names the channel of boards' turns.
const Channel = "xiaozhi"

// newTurn returns a turn of the person who talks to a board, without parts.
func newTurn(d store.Device, lang i18n.Lang) *talk.Turn {
	return &talk.Turn{
		Bot: d.Bot, Channel: Channel, Address: d.Address, Person: Kind + ":" + d.Hardware, Asker: d.Owner,
		Conversation: Kind + ":" + d.Hardware, Lang: lang,
	}
}

// notHeard records that something was said to the board's bot and did not become a question.
func (c *Conversation) notHeard(cause error) {
	d := c.board.current()
	if d.Bot == 0 {
		return
	}
	turn := newTurn(d, c.Lang())
	turn.ID = uuid.Must(uuid.NewV7()).String()
	boards := c.board.boards
	ctx, cancel := context.WithTimeout(boards.ctx, notHeardTimeout)
	defer cancel()
	if err := boards.Hub.NotHeard(ctx, turn, cause); err != nil {
		boards.Logger.WarnContext(ctx, "what was not recognised is not recorded", "board", d.Number, "error", err)
	}
}

// notHeardTimeout limits the wait for the database in which it is recorded.
const notHeardTimeout = 10 * time.Second

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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	words := newAnswerText(nil)
	done := make(chan struct{})
	if !c.board.boards.spawn(func() {
		defer close(done)
		c.answer(ctx, talk.Part{Text: question}, nil, nil, words)
	}) {
		return errServerStopping
	}
	source := &textSource{script: words, c: c}
	stats, err := c.Speak(ctx, generation, source)
	words.settle(source.shown(stats.Frames))
	cancel()
	<-done
	if errors.Is(err, pace.ErrAborted) {
		return nil
	}
	return err
}

// answer asks the bot and writes the sentences of its answer, and what it commands. commit is nil,
// or a [talk.Turn.Commit]. It returns when the answer is recorded, which is after it was played.
func (c *Conversation) answer(ctx context.Context, question talk.Part, commands []string,
	commit func(context.Context) error, to *answerText) {
	defer to.finish()
	d, lang := c.board.current(), c.Lang()
	say := func(text string) {
		_ = to.write(ctx, line{text: text, note: true, fixed: true}) // fails only if nobody waits
	}
	if d.Bot == 0 {
		say(msgNobody.In(lang))
		return
	}
	ended := c.list.expectAnswer()
	defer ended()
	w := newAnswerWriter(ctx, to, lang)
	turn := newTurn(d, lang)
	turn.Session, turn.Parts = c.id, []talk.Part{question}
	turn.Commands, turn.Commit = commands, commit
	turn.AwaitsAnswer = to.awaitAnswer
	turn.VoiceTimes = to.times.voiceTimes
	turn.Heard = func() (string, bool) {
		ended()
		w.flush()
		to.finish()
		return to.Heard()
	}
	err := c.board.boards.Hub.Answer(ctx, turn, w.event)
	to.turn, to.asked = turn.ID, question.Text
	w.flush()
	if f := talk.AsFailure(err); f != nil && !errors.Is(err, talk.ErrDisconnected) && !errors.Is(err, talk.ErrRevised) {
		say(f.Sentence(lang))
	}
}

// textPause is how long a bot writes nothing until the words so far are spoken: a model that writes
// does so ten times a second, and one that calls a tool may take long.
const textPause = 400 * time.Millisecond

// answerWriter makes pieces of the events of an answer.
type answerWriter struct {
	ctx  context.Context
	to   *answerText
	lang i18n.Lang

	mu    sync.Mutex // held while pieces are written
	text  *spoken.Text
	mood  emotion
	pause *time.Timer // nil before the first text
	over  bool        // flush was called
}

func newAnswerWriter(ctx context.Context, to *answerText, lang i18n.Lang) *answerWriter {
	return &answerWriter{ctx: ctx, to: to, lang: lang, text: spoken.New(lang, to.clauses)}
}

// event is a [talk.Emit]. Its error means that nobody wants to know the rest.
func (w *answerWriter) event(e talk.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Kind {
	case talk.KindCommand:
		w.to.want(e.Command.Name)
	case talk.KindNote:
		return w.write(spoken.Pieces(e.Text, w.lang), true) // it may be a late answer
	case talk.KindText:
		w.to.times.mark(stageFirstText, time.Now())
		if face := w.mood.read(e.Text); face != "" {
			if err := w.to.write(w.ctx, line{face: face}); err != nil {
				return err
			}
		}
		if w.pause == nil {
			w.pause = time.AfterFunc(textPause, w.onPause)
		}
		w.pause.Reset(textPause)
		return w.write(w.text.Write(e.Text), false)
	}
	return nil
}

// onPause writes the whole words so far.
func (w *answerWriter) onPause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if piece := w.text.Pause(); piece != "" && !w.over {
		_ = w.write([]string{piece}, false) // fails only if nobody waits
	}
}

// write writes pieces. Requires mu.
func (w *answerWriter) write(pieces []string, note bool) error {
	for _, p := range pieces {
		if err := w.to.write(w.ctx, line{text: p, note: note}); err != nil {
			return err
		}
	}
	return nil
}

// flush writes what is left, once the bot has ended.
func (w *answerWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over = true; w.pause != nil {
		w.pause.Stop()
	}
	_ = w.write(w.text.Flush(), false) // fails only if nobody waits
}

// textSource is a source without sound that has each sentence shown when it arrives. Its packets
// are empty.
type textSource struct {
	script *answerText
	c      *Conversation
	next   int    // number of the next line
	lines  []int  // of the sentences that Next has returned
	text   string // of the last one, until it is shown
}

// Next implements [pace.Source].
func (w *textSource) Next(ctx context.Context) ([]byte, error) {
	for {
		l, err := w.script.line(ctx, w.next)
		if err != nil {
			return nil, err
		}
		w.next++
		if l.face == "" {
			w.lines, w.text = append(w.lines, w.next-1), l.text
			return []byte{}, nil
		}
		if err := w.c.ShowEmotion(l.face); err != nil {
			return nil, err
		}
	}
}

// Text implements [pace.TextSource].
func (w *textSource) Text() (string, bool) {
	text := w.text
	w.text = ""
	return text, text != ""
}

// shown returns the number of the first line that was not shown, after some sentences were.
func (w *textSource) shown(sentences int) int {
	if sentences < len(w.lines) {
		return w.lines[sentences]
	}
	return w.next
}
