package openai

import "strings"

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// reasoningFilter takes what a model thinks aloud out of an answer: white space and
// <think>…</think> blocks at its beginning. Nothing is held back but what may
// still become "<think>". The zero value is ready.
//
// Templates that put <think> into the prompt make servers send only the closing
// mark; what comes before that cannot be told from an answer without waiting for
// the end, and is let through.
type reasoningFilter struct {
	state thinkState
	// held is a beginning that may become a mark.
	held string
}

type thinkState uint8

const (
	thinkLeading thinkState = iota // nothing of the answer was seen yet
	thinkInside                    // between the marks
	thinkOver                      // in the answer
)

// pass returns the part of a piece of text that belongs to the answer.
func (t *reasoningFilter) pass(text string) string {
	if t.state == thinkOver {
		return text
	}
	text = t.held + text
	t.held = ""
	for {
		if t.state == thinkInside {
			end := strings.Index(text, thinkClose)
			if end < 0 {
				t.held = tail(text, thinkClose)
				return ""
			}
			text, t.state = text[end+len(thinkClose):], thinkLeading
		}
		text = strings.TrimLeft(text, " \t\r\n")
		switch {
		case strings.HasPrefix(text, thinkOpen):
			text, t.state = text[len(thinkOpen):], thinkInside
		case strings.HasPrefix(thinkOpen, text):
			t.held = text
			return ""
		default:
			t.state = thinkOver
			return text
		}
	}
}

// rest is what was held back and turned out to be no mark, at the end of the
// answer.
func (t *reasoningFilter) rest() string {
	if t.state != thinkLeading {
		return ""
	}
	return t.held
}

// tail is the longest end of text that mark begins with.
func tail(text, mark string) string {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if strings.HasPrefix(mark, text[len(text)-n:]) {
			return text[len(text)-n:]
		}
	}
	return ""
}
