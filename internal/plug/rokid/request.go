package rokid

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"patchbay/internal/i18n"
)

// request is the body of a request of the platform: one turn of one wearer.
type request struct {
	// MessageID is, in spite of its name, the id of a session: the platform sends the same id in
	// every turn until the wearer leaves the agent (see the logs; the photo that answers take_photo
	// has it too).
	MessageID string
	AgentID   string
	UserID    string          // stable per account of the platform; may be empty
	Metadata  json.RawMessage // verbatim; nil if none
	Lang      string          // language tag from the metadata; may be empty
	Text      string
	Images    []string // addresses or data: URIs, in order
}

// msgMissing and msgInvalidJSON are the error texts for callers, as EyeClaw writes them
// (app/controllers/rokid_sse_controller.rb).
const (
	msgMissing     = "Missing required parameters: message_id, agent_id, or message"
	msgInvalidJSON = "Invalid JSON: "
)

var (
	errMissing = errors.New("missing message_id, agent_id, or message")
	// errTooLarge and errIncompleteBody can be caused by wearers, who therefore get a text.
	errTooLarge       = errors.New("the body is too large")
	errTooLong        = errors.New("the body is too large, and has no picture in it")
	errIncompleteBody = errors.New("the body did not arrive")
)

// errJSON means that the body is invalid JSON or has an invalid field.
type errJSON struct{ short string }

func (e *errJSON) Error() string { return msgInvalidJSON + e.short }

const (
	maxID    = 256      // bytes of an id; those in the logs have 13 or 32
	maxText  = 32 << 10 // bytes of the text; a minute of speech has about 1 KiB
	maxParts = 16       // pictures of one turn
	maxItems = 256      // elements of message; only the last ones are used
)

// parseRequest parses a body in any of the forms in the documentation, in the logs and in the code
// of other bridges: metadata flat (logs), nested in context (documentation), null or absent; ids as
// strings or numbers; the words in text or, as EyeClaw's controller accepts, in content; the
// address of a picture in image_url or, as in the documentation's own example, in text.
//
// On an error the request has the ids as far as they are known.
func parseRequest(body []byte) (request, error) {
	var raw struct {
		MessageID  scalar          `json:"message_id"`
		AgentID    scalar          `json:"agent_id"`
		UserID     scalar          `json:"user_id"`
		Metadata   json.RawMessage `json:"metadata"`
		Message    json.RawMessage `json:"message"`
		FirstImage string          `json:"first_round_image"`
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // some programs write a byte-order mark
	if err := json.Unmarshal(body, &raw); err != nil {
		return request{}, &errJSON{shortJSONError(err)}
	}
	r := request{MessageID: string(raw.MessageID), AgentID: string(raw.AgentID), UserID: string(raw.UserID)}
	if !isNull(raw.Metadata) {
		r.Metadata = raw.Metadata
		r.Lang = metadataLang(raw.Metadata)
	}
	items, err := parseItems(raw.Message)
	if err != nil {
		return r, err
	}
	if r.MessageID == "" || r.AgentID == "" || len(items) == 0 {
		return r, errMissing
	}
	for _, id := range []string{r.MessageID, r.AgentID, r.UserID} {
		if len(id) > maxID {
			return r, &errJSON{"an id is too long"}
		}
	}
	r.selectLastTurn(items)
	if raw.FirstImage != "" && len(r.Images) == 0 {
		r.Images = []string{asDataURI(raw.FirstImage)}
	}
	return r, nil
}

// parsePrefix parses the beginning of a truncated body. The platform sends the metadata and the ids
// before the message (order of keys in the logs).
func parsePrefix(body []byte) (r request) {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff"))))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return r
	}
	for {
		key, err := d.Token()
		if err != nil {
			return r
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return r
		}
		var id scalar
		if id.UnmarshalJSON(value) != nil || len(id) > maxID {
			id = ""
		}
		switch key {
		case "message_id":
			r.MessageID = string(id)
		case "agent_id":
			r.AgentID = string(id)
		case "metadata":
			r.Lang = metadataLang(value)
		}
	}
}

// selectLastTurn keeps the wearer's last input: of the run of user elements at the end, all
// pictures and the last text.
func (r *request) selectLastTurn(items []item) {
	last := -1
	for i, it := range items {
		if it.isUser() {
			last = i
		}
	}
	if last < 0 {
		return
	}
	first := last
	for first > 0 && items[first-1].isUser() {
		first--
	}
	for _, it := range items[first : last+1] {
		text, image := it.content()
		if text != "" {
			r.Text = text
		}
		if image != "" && len(r.Images) < maxParts {
			r.Images = append(r.Images, image)
		}
	}
	if len(r.Text) > maxText {
		cut := maxText
		for cut > 0 && !utf8.RuneStart(r.Text[cut]) {
			cut--
		}
		r.Text = r.Text[:cut]
	}
}

// item is one element of message.
type item struct {
	Role     string   `json:"role"`
	Type     string   `json:"type"`
	Text     scalar   `json:"text"`
	Content  scalar   `json:"content"`
	ImageURL imageURL `json:"image_url"`
}

// isUser reports whether the element is the wearer's. An element without a role is.
func (it item) isUser() bool { return it.Role == "" || strings.EqualFold(it.Role, "user") }

func (it item) content() (text, image string) {
	text, image = string(it.Text), string(it.ImageURL)
	if text == "" {
		text = string(it.Content)
	}
	text = strings.TrimSpace(text)
	if strings.EqualFold(it.Type, "image") && image == "" && isAddress(text) {
		text, image = "", text
	}
	return text, image
}

func isAddress(s string) bool {
	for _, scheme := range []string{"http://", "https://", "data:image/"} {
		if len(s) > len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
			return true
		}
	}
	return false
}

// parseItems parses message: an array or a single element.
func parseItems(raw json.RawMessage) ([]item, error) {
	if isNull(raw) {
		return nil, nil
	}
	var items []item
	target := any(&items)
	if raw[0] == '{' {
		items = make([]item, 1)
		target = &items[0]
	}
	if err := json.Unmarshal(raw, target); err != nil {
		return nil, &errJSON{shortJSONError(err)}
	}
	if len(items) > maxItems {
		items = items[len(items)-maxItems:]
	}
	return items, nil
}

// scalar is a string that may come as a number or null.
type scalar string

func (s *scalar) UnmarshalJSON(b []byte) error {
	switch {
	case isNull(b):
		*s = ""
	case b[0] == '"':
		return json.Unmarshal(b, (*string)(s))
	case b[0] == '-' || b[0] >= '0' && b[0] <= '9':
		*s = scalar(b)
	default:
		return errors.New("expected a text or a number")
	}
	return nil
}

// imageURL is an address that may come as a string or as an object with url.
type imageURL string

func (u *imageURL) UnmarshalJSON(b []byte) error {
	if isNull(b) {
		return nil
	}
	if b[0] == '{' {
		var o struct {
			URL string `json:"url"`
		}
		err := json.Unmarshal(b, &o)
		*u = imageURL(strings.TrimSpace(o.URL))
		return err
	}
	var s string
	err := json.Unmarshal(b, &s)
	*u = imageURL(strings.TrimSpace(s))
	return err
}

// metadataLang returns the language in metadata or in its context. Other forms of metadata are not
// an error, since the content is the device's.
func metadataLang(raw json.RawMessage) string {
	var m struct {
		Lang    scalar `json:"lang"`
		Context struct {
			Lang scalar `json:"lang"`
		} `json:"context"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return ""
	}
	if m.Lang != "" {
		return string(m.Lang)
	}
	return string(m.Context.Lang)
}

// asDataURI returns a data URI for base64 that comes without one.
func asDataURI(b64 string) string {
	if isAddress(b64) {
		return b64
	}
	return "data:image/jpeg;base64," + b64
}

func isNull(b []byte) bool { return len(b) == 0 || bytes.Equal(b, []byte("null")) }

// shortJSONError describes a JSON error without naming Go types or quoting the body.
func shortJSONError(err error) string {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("syntax error at byte %d", e.Offset)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return fmt.Sprintf("%s has the wrong type", e.Field)
	}
	return "not the expected form"
}

// lang returns the language for texts to the wearer.
func (r *request) lang(otherwise i18n.Lang) i18n.Lang { return i18n.ParseLang(r.Lang, otherwise) }
