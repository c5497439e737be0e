package learn

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxBlanks and maxBlankText limit the questions in which blanks are looked for.
	maxBlanks    = 20
	maxBlankText = 4 << 10
)

// blank matches what the question of a card with clozes shows for hidden words: […] or a hint.
var blank = regexp.MustCompile(`\[[^\[\]\n]+\]`)

// HiddenWords returns what an answer has in place of the blanks of its question, which is all that
// a person is asked for: the rest of the answer repeats the question, and what follows on further
// lines is extra. Said is the recall without the words of the question around the blanks. The texts
// of any other question are returned unchanged.
func HiddenWords(question, answer, recall string) (hidden, said string) {
	question = WithoutMedia(question)
	blanks, around := blank.FindAllString(question, maxBlanks+1), blank.Split(question, -1)
	hasWords := strings.ContainsFunc(strings.Join(around, ""), isWordRune)
	if len(blanks) == 0 || len(blanks) > maxBlanks || len(question) > maxBlankText || !hasWords {
		return answer, recall
	}
	quoted := make([]string, len(around))
	for i, text := range around {
		quoted[i] = regexp.QuoteMeta(text)
	}
	frame, err := regexp.Compile(`(?s)^` + strings.Join(quoted, `(.+?)`) + `(?:\n.*)?$`)
	if err != nil {
		return answer, recall // not UTF-8
	}
	found := frame.FindStringSubmatch(WithoutMedia(answer))
	if found == nil {
		return answer, recall
	}
	var words []string
	for i, text := range found[1:] {
		if text = strings.TrimSpace(text); text != "" && text != blanks[i] { // else brackets of the text
			words = append(words, text)
		}
	}
	if len(words) == 0 {
		return answer, recall
	}
	return strings.Join(words, ", "), withoutFrame(recall, around)
}

// withoutFrame removes the texts around blanks from a recall, as far as they are there.
func withoutFrame(recall string, around []string) string {
	said := recall
	for _, text := range around {
		text = strings.TrimFunc(text, func(r rune) bool { return !isWordRune(r) })
		if utf8.RuneCountInString(text) > 1 {
			said = strings.Replace(said, text, " ", 1)
		}
	}
	if said == recall {
		return recall
	}
	if said = strings.Trim(said, " \t\n,.;:!?，。、；：！？"); said == "" {
		return recall // the words of the question alone
	}
	return said
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
