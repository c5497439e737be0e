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

// said is a message for the model.
type said struct {
	role  string
	parts []talk.Part
}

// The roles of messages.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
)

// conversation is what the model is told in a turn: the system prompt, what was
// said before, and what is said now. Neighbours of one role are put together,
// because there are chat templates that insist on turns; a person speaks twice
// in a row when a command (take a photo) was all the answer they got.
func (b *Bot) conversation(turn *talk.Turn, tools []tool) ([]said, error) {
	now := b.nowSaid(turn)
	if len(now) == 0 {
		return nil, talk.Fail(talk.Unreadable, "", nil)
	}
	out := []said{{roleSystem, []talk.Part{{Text: b.systemPrompt(turn, tools)}}}}
	add := func(role string, parts ...talk.Part) {
		if last := &out[len(out)-1]; last.role == role {
			last.parts = append(last.parts, parts...)
			return
		}
		out = append(out, said{role, parts})
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

// nowSaid are the parts of the turn as the model gets them.
func (b *Bot) nowSaid(turn *talk.Turn) []talk.Part {
	var out []talk.Part
	words, picture := false, false
	for _, p := range turn.Parts {
		switch {
		case p.Image == nil:
			if strings.TrimSpace(p.Text) != "" {
				out, words = append(out, talk.Part{Text: p.Text}), true
			}
		case b.settings.images() && len(p.Image.Data) > 0:
			out, picture = append(out, p), true
		default:
			out = append(out, talk.Part{Text: sayUnseen.In(turn.Lang)})
		}
	}
	if picture && !words {
		out = append([]talk.Part{{Text: sayPhoto.In(turn.Lang)}}, out...)
	}
	return out
}

// request writes the body of a request.
func (b *Bot) request(turn *talk.Turn, messages []said, tools []tool) []byte {
	var w bytes.Buffer
	w.Grow(len(b.opening) + sizeOf(messages) + len(tools)*1024 + 256)
	w.Write(b.opening)
	w.WriteString(`,"messages":[`)
	for i, m := range messages {
		if i > 0 {
			w.WriteByte(',')
		}
		writeMessage(&w, m)
	}
	w.WriteByte(']')
	for i, t := range tools {
		if i == 0 {
			w.WriteString(`,"tools":[`)
		} else {
			w.WriteByte(',')
		}
		w.Write(t.schema)
	}
	if len(tools) > 0 {
		w.WriteByte(']')
	}
	if b.settings.User && turn.Person != "" {
		w.WriteString(`,"user":`)
		writeString(&w, pseudonym(turn.Person))
	}
	w.WriteByte('}')
	return w.Bytes()
}

// pseudonym is the same for the same person and tells nothing else about them.
func pseudonym(person string) string {
	sum := sha256.Sum256([]byte("patchbay user " + person))
	return "pb-" + hex.EncodeToString(sum[:16])
}

// sizeOf is about how many bytes messages take, escapes aside.
func sizeOf(messages []said) int {
	n := 0
	for _, m := range messages {
		n += 64
		for _, p := range m.parts {
			n += 64 + len(p.Text) + len(p.Text)/16
			if p.Image != nil {
				n += base64.StdEncoding.EncodedLen(len(p.Image.Data))
			}
		}
	}
	return n
}

// writeMessage writes the content as a plain string if it can: not every server
// takes a list of parts.
func writeMessage(w *bytes.Buffer, m said) {
	w.WriteString(`{"role":"` + m.role + `","content":`)
	var texts []string
	for _, p := range m.parts {
		if p.Image != nil {
			writeParts(w, m.parts)
			w.WriteByte('}')
			return
		}
		texts = append(texts, p.Text)
	}
	writeString(w, strings.Join(texts, "\n"))
	w.WriteByte('}')
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

// writeString writes a JSON string without HTML escapes, which would cost six
// bytes for each < and &.
func writeString(w *bytes.Buffer, text string) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string can be encoded and a buffer takes it
	w.Truncate(w.Len() - 1)
}
