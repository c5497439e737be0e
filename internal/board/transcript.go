package board

import (
	"strings"

	"patchbay/internal/talk"
)

// A transcript is what a bot has said so far. Text pieces that follow one
// another are joined, so that an answer costs its length and not its number of
// pieces.
type transcript struct {
	done  []talk.Event
	words []byte // the text after the last of done
}

func (t *transcript) add(e talk.Event) {
	if e.Kind == talk.KindText {
		t.words = append(t.words, e.Text...)
		return
	}
	t.flush()
	t.done = append(t.done, e)
}

func (t *transcript) flush() {
	if len(t.words) > 0 {
		t.done = append(t.done, talk.Text(string(t.words)))
		t.words = t.words[:0]
	}
}

func (t *transcript) empty() bool { return len(t.done) == 0 && len(t.words) == 0 }

func (t *transcript) events() []talk.Event {
	t.flush()
	return t.done
}

// text is all the words of the answer.
func (t *transcript) text() string {
	if len(t.done) == 0 {
		return string(t.words)
	}
	var b strings.Builder
	for _, e := range t.events() {
		if e.Kind == talk.KindText {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}
