package openai

import (
	"unicode/utf8"

	"patchbay/internal/talk"
)

// messageOverhead is the number of tokens that a chat template adds to a message for its role and
// separators. The usual templates add three to five.
const messageOverhead = 4

// estimate returns the estimated number of tokens of a text: one for each character from the Hangul
// Jamo block upwards (which covers Chinese, Japanese and Korean), and one for every four bytes of
// anything else, rounded up.
//
// The tokenizers in use need 0.6 to 1 token for a Chinese character and one for four English
// letters, so the estimate is seldom too low for speech. It needs no vocabulary and takes a
// nanosecond per character.
func estimate(text string) int {
	const firstWide = 0x1100
	wide, other := 0, 0
	for _, r := range text {
		if r >= firstWide {
			wide++
		} else {
			other += utf8.RuneLen(r)
		}
	}
	return wide + (other+3)/4
}

// remember returns the newest part of a history that fits into budget tokens, oldest message first.
// The result never begins with a message of the bot, since models and chat templates expect the
// person to begin. No message is truncated.
func remember(history []talk.Message, budget int) []talk.Message {
	first := len(history)
	for first > 0 {
		cost := estimate(history[first-1].Text) + messageOverhead
		if cost > budget {
			break
		}
		budget -= cost
		first--
	}
	kept := history[first:]
	for len(kept) > 0 && (kept[0].Role != talk.RolePerson || kept[0].Text == "") {
		kept = kept[1:]
	}
	return kept
}
