package wire

import "patchbay/internal/jsonrpc"

// Append appends the message as JSON, with the members that its type has. SessionID is empty for
// messages to a board on MQTT without a conversation. Payload must be valid JSON. A hello has
// methods of its own.
func (m *Message) Append(b []byte) []byte {
	b = append(b, `{"session_id":`...)
	b = jsonrpc.AppendText(b, m.SessionID)
	b = appendText(b, "type", m.Type)
	switch m.Type {
	case TypeListen:
		b = appendText(b, "state", m.State)
		b = appendNonEmpty(b, "mode", m.Mode)
		b = appendNonEmpty(b, "text", m.Text)
	case TypeAbort:
		b = appendNonEmpty(b, "reason", m.Reason)
	case TypeSTT:
		b = appendText(b, "text", m.Text)
	case TypeLLM:
		b = appendText(b, "emotion", m.Emotion)
		b = appendNonEmpty(b, "text", m.Text)
	case TypeTTS:
		b = appendText(b, "state", m.State)
		if m.State == TTSSentenceStart {
			b = appendText(b, "text", m.Text)
		}
	case TypeSystem:
		b = appendText(b, "command", m.Command)
	case TypeAlert: // boards require all three, even if empty
		b = appendText(b, "status", m.Status)
		b = appendText(b, "message", m.Message)
		b = appendText(b, "emotion", m.Emotion)
	case TypeNotify:
		b = appendText(b, "audio_url", m.AudioURL)
		subtitles := m.Subtitles
		if subtitles == nil {
			subtitles = []Subtitle{} // boards do not accept null
		}
		b = appendMember(b, "subtitles", subtitles)
	}
	if m.Payload != nil {
		b = append(append(b, `,"payload":`...), m.Payload...)
	}
	if m.Glyphs != nil {
		b = append(append(b, `,"glyph_push":`...), m.Glyphs...)
	}
	return append(b, '}')
}

// AppendDetect appends a listen/detect message as boards do: wakeWord is not escaped.
func AppendDetect(b []byte, session, wakeWord string) []byte {
	b = append(append(b, `{"session_id":"`...), session...)
	b = append(b, `","type":"listen","state":"detect","text":"`...)
	return append(append(b, wakeWord...), `"}`...)
}

func appendText(b []byte, name, value string) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return jsonrpc.AppendText(b, value)
}

func appendNonEmpty(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendText(b, name, value)
}
