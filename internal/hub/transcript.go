package hub

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"patchbay/internal/talk"
)

// transcript is what a bot has said so far. Consecutive texts are joined, so that an answer takes
// memory for its length and not for its number of pieces.
type transcript struct {
	done        []talk.Event
	pendingText []byte // the text after the last event of done
}

func (t *transcript) add(e talk.Event) {
	if e.Kind == talk.KindText {
		t.pendingText = append(t.pendingText, e.Text...)
		return
	}
	t.flush()
	if e.Command != nil { // it stays valid when the bot goes on
		e.Command = &talk.Command{Name: e.Command.Name, Args: maps.Clone(e.Command.Args)}
	}
	e.Suggest = slices.Clone(e.Suggest)
	t.done = append(t.done, e)
}

func (t *transcript) flush() {
	if len(t.pendingText) > 0 {
		t.done = append(t.done, talk.Text(string(t.pendingText)))
		t.pendingText = t.pendingText[:0]
	}
}

func (t *transcript) empty() bool { return len(t.done) == 0 && len(t.pendingText) == 0 }

func (t *transcript) events() []talk.Event {
	t.flush()
	return t.done
}

// text returns the text of the answer.
func (t *transcript) text() string {
	if len(t.done) == 0 {
		return string(t.pendingText)
	}
	var b strings.Builder
	for _, e := range t.events() {
		if e.Kind == talk.KindText {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// transcriptPos is a position in a transcript: a number of events, and of bytes of the text after
// them.
type transcriptPos struct {
	Events int `json:"n"`
	Bytes  int `json:"b,omitempty"`
}

// since returns what follows a position, and the position after it. It has at most the given number
// of bytes of text (0: all), or a few less so that no character is cut; more reports whether there
// are others.
func (t *transcript) since(m transcriptPos, most int) (said []talk.Event, next transcriptPos, more bool) {
	left := most
	for i := m.Events; i <= len(t.done); i++ {
		var text string
		switch {
		case i == len(t.done):
			text = string(t.pendingText[min(m.Bytes, len(t.pendingText)):])
		case t.done[i].Kind == talk.KindText:
			text = t.done[i].Text[min(m.Bytes, len(t.done[i].Text)):]
		default:
			said = append(said, t.done[i])
		}
		if most > 0 && len(text) > left {
			text, more = truncateUTF8(text, left), true
		}
		if text != "" {
			said = append(said, talk.Text(text))
			m.Bytes += len(text)
			left -= len(text)
		}
		if more {
			return said, m, true
		}
		if i < len(t.done) {
			m = transcriptPos{Events: i + 1}
		}
	}
	return said, m, false
}

// truncateUTF8 returns at most the first n bytes of a text, without cutting a character.
func truncateUTF8(text string, n int) string {
	for cut := n; cut > max(0, n-utf8.UTFMax); cut-- {
		if utf8.RuneStart(text[cut]) {
			return text[:cut]
		}
	}
	return text[:n]
}
