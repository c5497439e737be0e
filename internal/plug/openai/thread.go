package openai

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"patchbay/internal/talk"
)

const (
	// maxToolText bounds what calls and their results add to a request, in bytes:
	// models that take more than 50,000 tokens beside the rest are few.
	maxToolText = 200 << 10
	// maxEcho bounds what goes back of the words that the model said before it
	// called.
	maxEcho = 16 << 10
	// maxID bounds the id of a call. OpenAI's have 29 characters, but there are
	// gateways that put a signature into it.
	maxID = 8 << 10
	// maxPictures is how many pictures of tools the model sees at a time.
	maxPictures = 4
)

// droppedText stands for the results that have no room any more.
const droppedText = "[dropped]"

// callThread is what came after the question in a turn: what the model said and
// called, and what it was told about that. The zero value is ready.
type callThread struct {
	messages []promptMessage
	ids      map[string]bool
	madeIDs  int // how many ids were made up
}

// add takes in a round.
func (t *callThread) add(text, thought string, pending []*pendingCall, last string) {
	spoke := promptMessage{role: roleAssistant, reasoning: thought}
	if text != "" {
		spoke.parts = []talk.Part{{Text: text}}
	}
	var results []promptMessage
	var shown []talk.Part
	for i, e := range pending {
		c := e.call
		c.id, c.name, c.arguments = t.id(c.id), callableName(c.name), repairArguments(c.arguments)
		spoke.calls = append(spoke.calls, c)
		told := e.result
		if i == len(pending)-1 {
			told += last
		}
		results = append(results, promptMessage{role: roleTool, toolCallID: c.id, parts: []talk.Part{{Text: told}}})
		if len(e.pictures) > 0 {
			shown = append(shown, talk.Part{Text: fmt.Sprintf("What %s returned as pictures:", c.name)})
			for _, p := range e.pictures {
				shown = append(shown, talk.Part{Image: p})
			}
		}
	}
	newest := len(t.messages)
	t.messages = append(append(t.messages, spoke), results...)
	if len(shown) > 0 {
		t.messages = append(t.messages, promptMessage{role: roleUser, parts: shown})
	}
	t.dropPictures(maxPictures)
	t.dropTexts(newest)
}

// id is the call's own id if it has one that no other call of the turn has, and
// otherwise one of nine letters and digits, as Mistral wants them.
func (t *callThread) id(id string) string {
	for id == "" || len(id) > maxID || t.ids[id] {
		t.madeIDs++
		id = fmt.Sprintf("call%05d", t.madeIDs)
	}
	if t.ids == nil {
		t.ids = map[string]bool{}
	}
	t.ids[id] = true
	return id
}

// callableName is the name that the model called, such that servers take it back.
func callableName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && functionName.MatchString(string(r)) {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 64)]
}

// repairArguments are the arguments such that servers take them back: vLLM, llama.cpp
// and others refuse a conversation in which there are some that are no object.
func repairArguments(arguments string) string {
	object, err := normalizeArguments(arguments)
	if err != nil {
		return "{}"
	}
	return object
}

// hasPictures reports whether there are any.
func (t *callThread) hasPictures() bool {
	for _, m := range t.messages {
		for _, p := range m.parts {
			if p.Image != nil {
				return true
			}
		}
	}
	return false
}

// dropPictures keeps only the newest pictures.
func (t *callThread) dropPictures(keep int) {
	for i := len(t.messages) - 1; i >= 0; i-- {
		parts := t.messages[i].parts
		for j := len(parts) - 1; j >= 0; j-- {
			if parts[j].Image == nil {
				continue
			}
			if keep--; keep < 0 {
				parts[j] = talk.Part{Text: droppedText}
			}
		}
	}
}

// dropTexts makes room if it has to: by the oldest results, then by what the
// model said and wrote into calls. The results of the newest round, which begins
// at newest, stay: [shareOf] lets them have half of the room at most.
func (t *callThread) dropTexts(newest int) {
	over := t.size() - maxToolText
	for i := range t.messages[:newest] {
		if m := &t.messages[i]; over > 0 && m.role == roleTool {
			over -= len(m.parts[0].Text) - len(droppedText)
			m.parts[0].Text = droppedText
		}
	}
	for i := range t.messages {
		if m := &t.messages[i]; over > 0 && m.role == roleAssistant {
			before := m.size()
			m.parts, m.reasoning = nil, clip(m.reasoning, minReasoning)
			for j := range m.calls {
				m.calls[j].arguments = "{}"
			}
			over -= before - m.size()
		}
	}
}

// shareOf is how many bytes each of n results of a round may have, if each may
// have most.
func shareOf(n, most int) int { return min(most, maxToolText/2/max(n, 1)) }

// minReasoning is what is left of thoughts at least: servers that want them look
// whether they are there.
const minReasoning = 100

// size is how many bytes of texts and arguments there are.
func (t *callThread) size() int {
	n := 0
	for i := range t.messages {
		n += t.messages[i].size()
	}
	return n
}

func (m *promptMessage) size() int {
	n := len(m.reasoning)
	for _, p := range m.parts {
		n += len(p.Text)
	}
	for _, c := range m.calls {
		n += len(c.arguments)
	}
	return n
}

// clip is the beginning of a text, at most limit bytes of it, without half a
// character at the end.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	limit = max(limit, 0)
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
