package learn

import (
	"encoding/json"
	"strings"

	"patchbay/internal/i18n"
)

// Arguments that are lists are read item by item: one that is wrong is reported, and does not
// refuse the others. Schemas name the types of items in words for the same reason.

// looseTexts is a list of texts. An item that is none becomes its JSON text, which identifies
// nothing.
type looseTexts []string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *looseTexts) UnmarshalJSON(data []byte) error {
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	*l = make(looseTexts, len(items))
	for i, item := range items {
		var text string
		if json.Unmarshal(item, &text) != nil || string(item) == "null" {
			text = string(item)
		}
		(*l)[i] = text
	}
	return nil
}

// draftArgs is an item of create_knowledge_points, unread.
type draftArgs json.RawMessage

// UnmarshalJSON implements [json.Unmarshaler].
func (d *draftArgs) UnmarshalJSON(data []byte) error {
	*d = append((*d)[:0], data...)
	return nil
}

const (
	msgDraftForm = i18n.Message("each point is an object with question and answer")
	msgTextForm  = i18n.Message("%s must be a text")
	msgTagsForm  = i18n.Message("tags must be a list of texts")
)

// draft reads the item. A number or a truth value stands for its text, and null for nothing.
func (d draftArgs) draft() (out Draft, err error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(d, &fields) != nil || fields == nil {
		return out, invalid(msgDraftForm)
	}
	for name, into := range map[string]*string{"question": &out.Question, "answer": &out.Answer, "deck": &out.Deck} {
		if *into, err = looseText(fields[name]); err != nil {
			return out, invalid(msgTextForm, name)
		}
	}
	var tags []json.RawMessage
	if raw := fields["tags"]; len(raw) > 0 && json.Unmarshal(raw, &tags) != nil {
		tag, err := looseText(raw)
		if err != nil {
			return out, invalid(msgTagsForm)
		}
		out.Tags = strings.FieldsFunc(tag, func(r rune) bool { return strings.ContainsRune(" ,，、", r) })
	}
	for _, raw := range tags {
		tag, err := looseText(raw)
		if err != nil {
			return out, invalid(msgTagsForm)
		}
		out.Tags = append(out.Tags, tag)
	}
	return out, nil
}

// looseText returns a text, the text of a number or a truth value, or an empty one for null.
func looseText(raw json.RawMessage) (text string, err error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", nil
	case raw[0] == '"' || raw[0] == '{' || raw[0] == '[':
		return text, json.Unmarshal(raw, &text)
	}
	return string(raw), nil
}
