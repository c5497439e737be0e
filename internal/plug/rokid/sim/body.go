package sim

import (
	"bytes"
	"encoding/json"
	"time"
)

// turnBody is a request in the platform's form and order of keys (the logs of the package comment).
type turnBody struct {
	Metadata  metadata  `json:"metadata"`
	AgentID   string    `json:"agent_id"`
	UserID    string    `json:"user_id"`
	MessageID string    `json:"message_id"`
	Message   []message `json:"message"`
}

type metadata struct {
	Lang        string `json:"lang"`
	Location    string `json:"location"`
	CompanyID   int    `json:"company_id"`
	Latitude    string `json:"latitude"`
	Longitude   string `json:"longitude"`
	CurrentTime string `json:"currentTime"` // local time of the device, without zone
	Weather     string `json:"weather"`
	Battery     string `json:"battery"`
	RunningApp  string `json:"runningApp"`
}

// message has text or a picture; the other is null.
type message struct {
	Role     string  `json:"role"`
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	ImageURL *string `json:"image_url"`
}

func (g *Glasses) body(m message) []byte {
	return encode(turnBody{
		Metadata: metadata{
			Lang: g.Lang, Location: g.Location, CompanyID: g.CompanyID, Latitude: g.Latitude, Longitude: g.Longitude,
			CurrentTime: time.Now().Format(time.DateTime), Weather: g.Weather, Battery: g.Battery,
			RunningApp: g.RunningApp,
		},
		AgentID: g.AgentID, UserID: g.UserID, MessageID: g.MessageID(), Message: []message{m},
	})
}

// documentedBody is a request in the form of docs/ROKID_LINGZHU_SSE_API.md in sengmitnick/eyeclaw.
type documentedBody struct {
	MessageID string              `json:"message_id"`
	AgentID   string              `json:"agent_id"`
	UserID    string              `json:"user_id,omitempty"`
	Metadata  any                 `json:"metadata,omitempty"`
	Message   []documentedMessage `json:"message"`
}

type documentedMessage struct {
	Role string `json:"role"`
	Type string `json:"type"`
	Text string `json:"text"`
}

// DocumentedText returns a body for [Glasses.Post] as in the documentation's simplest example:
// without a wearer and without metadata.
func DocumentedText(messageID, agentID, text string) []byte {
	return encode(documentedBody{MessageID: messageID, AgentID: agentID,
		Message: []documentedMessage{{"user", "text", text}}})
}

// DocumentedImage returns a body as in the documentation's example of a picture, whose address is
// in text.
func DocumentedImage(messageID, agentID, address string) []byte {
	return encode(documentedBody{MessageID: messageID, AgentID: agentID,
		Message: []documentedMessage{{"user", "image", address}}})
}

// DocumentedContext returns a body as in the documentation's full example, with metadata nested in
// context.
func DocumentedContext(messageID, agentID, userID, text string) []byte {
	type context struct {
		Location    string `json:"location"`
		Latitude    string `json:"latitude"`
		Longitude   string `json:"longitude"`
		CurrentTime string `json:"currentTime"`
		Weather     string `json:"weather"`
		Battery     string `json:"battery"`
	}
	return encode(documentedBody{
		MessageID: messageID, AgentID: agentID, UserID: userID,
		Metadata: struct {
			Context context `json:"context"`
		}{context{"杭州市西湖区世贸中心", "39.9088", "116.3975", "2025-03-11 11:22:41", "晴天", "85%"}},
		Message: []documentedMessage{{"user", "text", text}},
	})
}

// encode encodes JSON without HTML escapes, as the platform does.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only strings and numbers are in it
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
