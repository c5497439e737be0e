package openai

import "strings"

const (
	// Tags around the reasoning of DeepSeek R1 and models with the same template.
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// reasoningFilter removes a model's reasoning from an answer: white space and <think>…</think>
// blocks at the beginning. It holds back only what may become "<think>". The zero value is ready to
// use.
//
// Some chat templates end the prompt with <think>, so that the response has only the closing tag
// (vllm-project/vllm, issue 12999). Such reasoning cannot be distinguished from an answer without
// waiting for its end, and passes through.
type reasoningFilter struct {
	state thinkState
	// held is text that may become a tag.
	held string
}

type thinkState uint8

const (
	thinkLeading thinkState = iota // before the answer
	thinkInside                    // between the tags
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

// rest returns text that was held back and turned out to be no tag, at the end of the answer.
func (t *reasoningFilter) rest() string {
	if t.state != thinkLeading {
		return ""
	}
	return t.held
}

// tail returns the longest suffix of text that is a prefix of mark.
func tail(text, mark string) string {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if strings.HasPrefix(mark, text[len(text)-n:]) {
			return text[len(text)-n:]
		}
	}
	return ""
}
