package openai

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"patchbay/internal/talk"
	"patchbay/internal/toolbox"
)

const (
	// maxToolText limits what calls and their results add to a request, in bytes. Few models accept
	// more than 50,000 tokens on top of the rest.
	maxToolText = 200 << 10
	// maxEcho limits the text before a call that is sent back to the model, in bytes.
	maxEcho = 16 << 10
	// maxID limits the id of a call, in bytes. OpenAI's ids have 29 characters, but some gateways
	// put a signature into the id.
	maxID = 8 << 10
	// maxPictures is the maximum number of pictures of tools in a request.
	maxPictures = 4
)

// droppedText replaces results that no longer fit.
const droppedText = "[dropped]"

// callThread holds the messages after the question in a turn: the model's calls and their results.
// The zero value is ready to use.
type callThread struct {
	messages []promptMessage
	ids      map[string]bool
	madeIDs  int // number of generated ids
}

// add appends a round. The text last is added to the last result.
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

// id returns the id of a call. A missing, too long or repeated id is replaced by one of nine
// letters and digits, the only form that Mistral's API accepts ("must be a-z, A-Z, 0-9, with a
// length of 9"; anomalyco/opencode, issue 1680).
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

// callableName returns the name of a called function in a form that servers accept back.
func callableName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && toolbox.FunctionName.MatchString(string(r)) {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 64)]
}

// repairArguments returns the arguments of a call in a form that servers accept back. vLLM and
// llama.cpp reject a conversation with arguments that are not a JSON object (vllm-project/vllm,
// pull request 48922; ggml-org/llama.cpp, issue 25510).
func repairArguments(arguments string) string {
	object, err := toolbox.Arguments(arguments)
	if err != nil {
		return "{}"
	}
	return object
}

// hasPictures reports whether a message has a picture.
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

// dropPictures keeps only the newest pictures and replaces the others by text.
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

// dropTexts keeps the size within maxToolText: it first drops the oldest results, then the texts,
// reasoning and arguments of the model. The results of the newest round, which begins at newest,
// stay; [shareOf] limits them to half of maxToolText.
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
			m.parts, m.reasoning = nil, toolbox.Clip(m.reasoning, minReasoning)
			for j := range m.calls {
				m.calls[j].arguments = "{}"
			}
			over -= before - m.size()
		}
	}
}

// shareOf returns the limit for each of n results of a round, in bytes, at most the given maximum.
func shareOf(n, most int) int { return min(most, maxToolText/2/max(n, 1)) }

// minReasoning is the number of bytes of reasoning that are never dropped. Servers that require
// reasoning check that it is present.
const minReasoning = 100

// size returns the number of bytes of all texts and arguments.
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
