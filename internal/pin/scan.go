package pin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What [Scan] finds.
const (
	Instruction = "instruction" // it speaks to the model, not about the tool
	Hidden      = "hidden"      // it has characters that people do not see
	OtherTool   = "other_tool"  // it names a tool of another server
)

// Warning is a text that the owner should look at.
type Warning struct {
	Found string `json:"found"` // a constant above
	// Text is the part of the text, with hidden characters made visible.
	Text string `json:"text"`
}

// instructions are phrases of known attacks on models by tool descriptions. They are narrow:
// whoever gets a warning for a harmless text ignores the next one.
var instructions = regexp.MustCompile(`(?is)` + strings.Join([]string{
	`\b(?:ignore|disregard|forget|override)\s+(?:\w+\s+){0,3}?(?:previous|prior|above|earlier|preceding)\s+` +
		`(?:\w+\s+){0,2}?(?:instructions?|prompts?|rules|messages|context|directives)\b`,
	`\b(?:ignore|disregard|forget|override)\s+(?:all|any|your|the)\s+(?:system\s+)?(?:instructions|prompts?|guidelines)\b`,
	`\b(?:do\s+not|don['’]t|never|must\s+not|without)\s+(?:tell|telling|inform|informing|notify|notifying|alert|alerting)` +
		`\s+(?:the\s+|your\s+)?(?:user|human|owner|person|anyone|anybody)\b`,
	`\b(?:do\s+not|don['’]t|never|must\s+not|without)\s+(?:mention|mentioning|reveal|revealing|disclose|disclosing)` +
		`\s+(?:\w+\s+){0,6}?to\s+(?:the\s+|your\s+)?(?:user|human|owner|anyone|anybody)\b`,
	`<\s*/?\s*(?:important|system|instructions?|secret|hidden|critical)\s*>`,
	`\bbefore\s+(?:using|calling|invoking|running|you\s+(?:use|call))\s+(?:any|all|every|each)\s+(?:of\s+the\s+)?` +
		`(?:other\s+)?tools?\b`,
	`\b(?:instead\s+of|in\s+place\s+of)\s+(?:any|all|every)\s+other\s+tools?\b`,
	`\byou\s+are\s+now\s+(?:a|an|in|the)\b`,
	`\bnew\s+(?:system\s+)?instructions\s*:`,
	`(?:~/\.ssh/|\bid_rsa\b|\bid_ed25519\b|~/\.aws/credentials|/etc/(?:passwd|shadow)\b|~/\.cursor/mcp\.json)`,
	`不要(?:告诉|告知|通知|提醒)用户`, `忽略(?:之前|以上|先前|前面|上述)的?(?:所有|全部)?的?(?:指令|指示|提示|说明)`,
	`ユーザーに(?:は)?(?:言わない|伝えない|知らせない)`, `(?:以前|これまで|上記|前)の(?:すべての)?(?:指示|命令)(?:を|は)(?:無視|忘れ)`,
}, "|"))

const (
	// maxWarnings limits the warnings about one form, and maxExcerpt the text of each.
	maxWarnings = 10
	maxExcerpt  = 160
)

// Scan returns what is suspicious about a form: its name, and all texts of its content. others are
// the names of tools of other servers.
func Scan(name string, raw []byte, others map[string]bool) []Warning {
	var out []Warning
	seen := map[Warning]bool{}
	add := func(found, text string) {
		w := Warning{found, excerpt(text)}
		if !seen[w] && len(out) < maxWarnings {
			seen[w] = true
			out = append(out, w)
		}
	}
	scanText(name, nil, add)
	eachText(raw, func(text string) { scanText(text, others, add) })
	return out
}

func scanText(text string, others map[string]bool, add func(found, text string)) {
	if i := hiddenAt(text); i >= 0 {
		add(Hidden, surroundings(text, i))
	}
	for _, at := range instructions.FindAllStringIndex(text, maxWarnings) {
		add(Instruction, text[at[0]:at[1]])
	}
	if len(others) == 0 {
		return
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != '.'
	}) {
		if word = strings.Trim(word, ".-"); others[word] {
			add(OtherTool, word)
		}
	}
}

// eachText calls f with every text in JSON, and every name of a member.
func eachText(raw []byte, f func(string)) {
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		t, err := d.Token()
		if err != nil {
			return
		}
		if text, ok := t.(string); ok {
			f(text)
		}
	}
}

// surroundings returns the text around an index.
func surroundings(text string, i int) string {
	from, to := max(i-maxExcerpt/4, 0), min(i+maxExcerpt/4, len(text))
	return strings.ToValidUTF8(text[from:to], "")
}

func excerpt(text string) string {
	text = Visible(strings.Join(strings.Fields(text), " "))
	if r := []rune(text); len(r) > maxExcerpt {
		return string(r[:maxExcerpt]) + "…"
	}
	return text
}

// Visible writes characters that people do not see, except line breaks and tabs, as their numbers.
// Text without such characters is returned unchanged.
func Visible(text string) string {
	if hiddenAt(text) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isInvisible(r) || isControl(r) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hiddenAt returns the index of the first hidden character, or -1. Scripts and emoji need some of
// them: those are hidden only where they have no use.
func hiddenAt(text string) int {
	before, inFlag := rune(0), false
	rightToLeft := strings.ContainsFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana)
	})
	for i, r := range text {
		if !isInvisible(r) && !isControl(r) {
			before, inFlag = r, r == flagBase
			continue
		}
		next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
		switch {
		case r == 0x200C || r == 0x200D: // joiners, between letters of some scripts and in emoji
			if before < 0x300 || next < 0x300 {
				return i
			}
		case r == 0x200E || r == 0x200F || r == 0x061C: // marks of direction
			if !rightToLeft {
				return i
			}
		case isTag(r): // in the flags of regions (UTS #51)
			if !inFlag {
				return i
			}
		case isVariation(r): // after the character that it changes
			if before == 0 || isVariation(before) || before < 0x80 && !isKeycap(before) {
				return i
			}
		default:
			return i
		}
		before = r
	}
	return -1
}

const flagBase = 0x1F3F4 // black flag, before the tags of a region

func isKeycap(r rune) bool { return r >= '0' && r <= '9' || r == '#' || r == '*' }

func isTag(r rune) bool { return r >= 0xE0000 && r <= 0xE007F }

func isVariation(r rune) bool { return r >= 0xFE00 && r <= 0xFE0F || r >= 0xE0100 && r <= 0xE01EF }

// isControl reports characters that terminals and displays act on.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }

func isInvisible(r rune) bool {
	switch {
	case r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x206F,
		r == 0xFEFF, r == 0x061C, r == 0x180E, r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0:
		return true
	}
	return isTag(r) || isVariation(r)
}
