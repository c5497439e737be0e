package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	"patchbay/internal/talk"
)

// promptMessage is a message of the request.
type promptMessage struct {
	role  string
	parts []talk.Part
	// calls are the calls that the model made in this message, and reasoning is the
	// reasoning_content that came with them.
	calls     []call
	reasoning string
	// toolCallID is the id of the call whose result this message is.
	toolCallID string
}

// Roles of messages.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// conversation returns the messages of a turn's first request: the system prompt, the history and
// the turn itself. Consecutive messages of one role are merged, because some chat templates reject
// them ("Conversation roles must alternate user/assistant", such as Gemma 3's). A person speaks
// twice in a row when the only answer was a command such as take_photo.
func (b *Bot) conversation(turn *talk.Turn, functions []function) ([]promptMessage, error) {
	now := b.currentParts(turn)
	if len(now) == 0 {
		return nil, talk.Fail(talk.Unreadable, "", nil)
	}
	out := []promptMessage{{role: roleSystem, parts: []talk.Part{{Text: b.systemPrompt(turn, functions)}}}}
	add := func(role string, parts ...talk.Part) {
		if last := &out[len(out)-1]; last.role == role {
			last.parts = append(last.parts, parts...)
			return
		}
		out = append(out, promptMessage{role: role, parts: parts})
	}
	for _, m := range remember(turn.History, b.settings.historyTokens()) {
		if m.Text == "" {
			continue
		}
		role := roleUser
		if m.Role == talk.RoleBot {
			role = roleAssistant
		}
		add(role, talk.Part{Text: m.Text})
	}
	add(roleUser, now...)
	return out, nil
}

// currentParts returns the parts of the turn in the form in which the model gets them.
func (b *Bot) currentParts(turn *talk.Turn) []talk.Part {
	var out []talk.Part
	words, picture := false, false
	for _, p := range turn.Parts {
		switch {
		case p.Image == nil:
			if strings.TrimSpace(p.Text) != "" {
				out, words = append(out, talk.Part{Text: p.Text}), true
			}
		case b.settings.Sees() && len(p.Image.Data) > 0:
			out, picture = append(out, p), true
		default:
			out = append(out, talk.Part{Text: msgUnseen.In(turn.Lang)})
		}
	}
	if picture && !words {
		out = append([]talk.Part{{Text: msgPhoto.In(turn.Lang)}}, out...)
	}
	return out
}

// streamOptions is the field with which a server is asked for the tokens of a streamed answer
// (platform.openai.com/docs/api-reference/chat/create). Not every server knows it.
const streamOptions = "stream_options"

// request returns the body of a request. A choice other than "" replaces the owner's tool_choice.
// With tokens the server is asked for their number.
func (b *Bot) request(turn *talk.Turn, messages []promptMessage, functions []function, choice string,
	tokens bool) []byte {
	var w bytes.Buffer
	w.Grow(len(b.opening) + messagesSize(messages) + functionsSize(functions) + 256)
	w.Write(b.opening)
	w.WriteString(`,"messages":[`)
	for i, m := range messages {
		if i > 0 {
			w.WriteByte(',')
		}
		writeMessage(&w, m)
	}
	w.WriteByte(']')
	if tokens {
		w.WriteString(`,"` + streamOptions + `":{"include_usage":true}`)
	}
	if len(functions) > 0 {
		b.writeFunctions(&w, functions, choice)
	}
	if b.settings.User && turn.Person != "" {
		w.WriteString(`,"user":`)
		writeString(&w, pseudonym(turn.Person))
	}
	w.WriteByte('}')
	return w.Bytes()
}

// writeFunctions writes the functions and the owner's settings for them. OpenAI rejects these
// settings in a request without functions ("'tool_choice' is only allowed when 'tools' are
// specified").
func (b *Bot) writeFunctions(w *bytes.Buffer, functions []function, choice string) {
	for i, f := range functions {
		if i == 0 {
			w.WriteString(`,"tools":[`)
		} else {
			w.WriteByte(',')
		}
		w.Write(f.schema)
	}
	w.WriteByte(']')
	for _, name := range functionFields {
		value := b.functionSettings[name]
		if name == "tool_choice" && choice != "" {
			value = json.RawMessage(`"` + choice + `"`)
		}
		if value != nil {
			w.WriteString(`,"` + name + `":`)
			w.Write(value)
		}
	}
}

func functionsSize(functions []function) int {
	n := 0
	for _, f := range functions {
		n += len(f.schema) + 1
	}
	return n
}

// pseudonym returns an identifier that is the same for the same person and reveals nothing else.
func pseudonym(person string) string {
	sum := sha256.Sum256([]byte("patchbay user " + person))
	return "pb-" + hex.EncodeToString(sum[:16])
}

// messagesSize estimates the number of bytes that messages take as JSON.
func messagesSize(messages []promptMessage) int {
	n := 0
	for _, m := range messages {
		n += 64 + len(m.reasoning)
		for _, p := range m.parts {
			n += 64 + len(p.Text) + len(p.Text)/16
			if p.Image != nil {
				n += base64.StdEncoding.EncodedLen(len(p.Image.Data))
			}
		}
		for _, c := range m.calls {
			n += 128 + len(c.arguments) + len(c.arguments)/8 + len(c.extra)
		}
	}
	return n
}

func writeMessage(w *bytes.Buffer, m promptMessage) {
	w.WriteString(`{"role":"` + m.role + `"`)
	if m.toolCallID != "" {
		w.WriteString(`,"tool_call_id":`)
		writeString(w, m.toolCallID)
	}
	w.WriteString(`,"content":`)
	writeContent(w, m)
	if m.reasoning != "" {
		w.WriteString(`,"reasoning_content":`)
		writeString(w, m.reasoning)
	}
	if len(m.calls) > 0 {
		writeCalls(w, m.calls)
	}
	w.WriteByte('}')
}

// writeContent writes the content as a plain string where possible, because not every server
// accepts a list of parts.
func writeContent(w *bytes.Buffer, m promptMessage) {
	if len(m.parts) == 0 {
		w.WriteString("null") // the API itself uses null for a message that only has calls
		return
	}
	var texts []string
	for _, p := range m.parts {
		if p.Image != nil {
			writeParts(w, m.parts)
			return
		}
		texts = append(texts, p.Text)
	}
	writeString(w, strings.Join(texts, "\n"))
}

func writeCalls(w *bytes.Buffer, made []call) {
	for i, c := range made {
		if i == 0 {
			w.WriteString(`,"tool_calls":[`)
		} else {
			w.WriteByte(',')
		}
		w.WriteString(`{"id":`)
		writeString(w, c.id)
		w.WriteString(`,"type":"function","function":{"name":`)
		writeString(w, c.name)
		w.WriteString(`,"arguments":`)
		writeString(w, c.arguments)
		w.WriteByte('}')
		if c.extra != nil {
			w.WriteString(`,"extra_content":`)
			w.Write(bytes.ToValidUTF8(c.extra, []byte("\ufffd")))
		}
		w.WriteByte('}')
	}
	w.WriteByte(']')
}

func writeParts(w *bytes.Buffer, parts []talk.Part) {
	for i, p := range parts {
		w.WriteByte("[,"[min(i, 1)])
		if p.Image == nil {
			w.WriteString(`{"type":"text","text":`)
			writeString(w, p.Text)
			w.WriteByte('}')
			continue
		}
		w.WriteString(`{"type":"image_url","image_url":{"url":"data:`)
		w.WriteString(p.Image.MIME)
		w.WriteString(";base64,")
		w.Grow(base64.StdEncoding.EncodedLen(len(p.Image.Data)))
		w.Write(base64.StdEncoding.AppendEncode(w.AvailableBuffer(), p.Image.Data))
		w.WriteString(`"}}`)
	}
	w.WriteByte(']')
}

// writeString writes a JSON string without HTML escapes, which take six bytes for each < and &.
func writeString(w *bytes.Buffer, text string) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string can be encoded and a buffer takes it
	w.Truncate(w.Len() - 1)
}
