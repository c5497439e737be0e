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

// dropped stands for the results that have no room any more.
const dropped = "[dropped]"

// thread is what came after the question in a turn: what the model said and
// called, and what it was told about that. The zero value is ready.
type thread struct {
	messages []said
	ids      map[string]bool
	made     int // how many ids were made up
}

// add takes in a round.
func (t *thread) add(text, thought string, errands []*errand, last string) {
	spoke := said{role: roleAssistant, thought: thought}
	if text != "" {
		spoke.parts = []talk.Part{{Text: text}}
	}
	var results []said
	var shown []talk.Part
	for i, e := range errands {
		c := e.call
		c.id, c.name, c.arguments = t.id(c.id), callableName(c.name), repaired(c.arguments)
		spoke.calls = append(spoke.calls, c)
		told := e.told
		if i == len(errands)-1 {
			told += last
		}
		results = append(results, said{role: roleTool, answers: c.id, parts: []talk.Part{{Text: told}}})
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
		t.messages = append(t.messages, said{role: roleUser, parts: shown})
	}
	t.dropPictures(maxPictures)
	t.dropTexts(newest)
}

// id is the call's own id if it has one that no other call of the turn has, and
// otherwise one of nine letters and digits, as Mistral wants them.
func (t *thread) id(id string) string {
	for id == "" || len(id) > maxID || t.ids[id] {
		t.made++
		id = fmt.Sprintf("call%05d", t.made)
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

// repaired are the arguments such that servers take them back: vLLM, llama.cpp
// and others refuse a conversation in which there are some that are no object.
func repaired(arguments string) string {
	object, err := plainObject(arguments)
	if err != nil {
		return "{}"
	}
	return object
}

// pictures says whether there are any.
func (t *thread) pictures() bool {
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
func (t *thread) dropPictures(keep int) {
	for i := len(t.messages) - 1; i >= 0; i-- {
		parts := t.messages[i].parts
		for j := len(parts) - 1; j >= 0; j-- {
			if parts[j].Image == nil {
				continue
			}
			if keep--; keep < 0 {
				parts[j] = talk.Part{Text: dropped}
			}
		}
	}
}

// dropTexts makes room if it has to: by the oldest results, then by what the
// model said and wrote into calls. The results of the newest round, which begins
// at newest, stay: [shareOf] lets them have half of the room at most.
func (t *thread) dropTexts(newest int) {
	over := t.size() - maxToolText
	for i := range t.messages[:newest] {
		if m := &t.messages[i]; over > 0 && m.role == roleTool {
			over -= len(m.parts[0].Text) - len(dropped)
			m.parts[0].Text = dropped
		}
	}
	for i := range t.messages {
		if m := &t.messages[i]; over > 0 && m.role == roleAssistant {
			before := m.size()
			m.parts, m.thought = nil, clip(m.thought, leastThought)
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

// leastThought is what is left of thoughts at least: servers that want them look
// whether they are there.
const leastThought = 100

// size is how many bytes of texts and arguments there are.
func (t *thread) size() int {
	n := 0
	for i := range t.messages {
		n += t.messages[i].size()
	}
	return n
}

func (m *said) size() int {
	n := len(m.thought)
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
