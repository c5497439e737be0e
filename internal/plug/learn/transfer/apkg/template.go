package apkg

import (
	"strings"

	notecard "patchbay/internal/plug/learn/card"
)

// errTemplateTooLarge is the error of cards whose templates repeat their fields too often.
var errTemplateTooLarge = msgHuge.Errorf()

// noteType defines how a note's fields form questions and answers.
type noteType struct {
	fields    []string
	cloze     bool
	templates []template // by card index; cloze types have one for all
}

type template struct{ question, answer notecard.Template }

// card renders one card and returns the text of its question and its answer. values must hold
// Anki's special fields; card adds the note's fields. The cost is added to work.
func (t *noteType) card(fields []string, order int, values map[string]string,
	work *int64) (question, answer string, err error) {
	for i, name := range t.fields {
		if i < len(fields) {
			values[name] = fields[i]
		}
	}
	at := order
	if t.cloze {
		at = 0
	}
	if !t.cloze && len(t.templates) == 1 && len(t.fields) <= 2 || at < 0 || at >= len(t.templates) {
		return plain(fields)
	}
	s := notecard.Side{Values: values, Ordinal: order + 1, Plain: true}
	defer func() { *work += int64(s.Work) }()
	front, err := s.Render(t.templates[at].question)
	if err != nil {
		return "", "", errTemplateTooLarge
	}
	question = Text(front)
	s.Answer = true
	values["FrontSide"] = ""
	back, err := s.Render(t.templates[at].answer)
	if err != nil {
		return "", "", errTemplateTooLarge
	}
	answer = Text(afterAnswerLine(back))
	if question == "" || answer == "" && !t.cloze { // rendered by a script, or from pictures, which are dropped
		return plain(fields)
	}
	return question, answer, nil
}

// plain returns the first field as the question and the others as the answer.
func plain(fields []string) (question, answer string, err error) {
	var rest []string
	for i, f := range fields {
		switch text := Text(f); {
		case i == 0:
			question = text
		case text != "":
			rest = append(rest, text)
		}
	}
	answer = strings.Join(rest, "\n\n")
	if len(question)+len(answer) > 2*maxField {
		return "", "", errTemplateTooLarge
	}
	return question, answer, nil
}

// afterAnswerLine removes the question from an answer: everything before <hr id=answer>.
func afterAnswerLine(s string) string {
	for from := 0; ; {
		i := strings.Index(s[from:], "<hr")
		if i < 0 {
			return s
		}
		from += i
		end := strings.IndexByte(s[from:], '>')
		if end < 0 {
			return s
		}
		tag := strings.NewReplacer(`"`, "", "'", "", " ", "").Replace(s[from : from+end])
		from += end + 1
		if strings.HasPrefix(tag, "<hrid=answer") {
			return s[from:]
		}
	}
}
