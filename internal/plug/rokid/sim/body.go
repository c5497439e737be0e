package sim

import (
	"bytes"
	"encoding/json"
	"time"
)

// turnBody is a request as the platform sends it. The order of the fields is that of
// the platform.
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
	CurrentTime string `json:"currentTime"` // at the device, no zone
	Weather     string `json:"weather"`
	Battery     string `json:"battery"`
	RunningApp  string `json:"runningApp"`
}

// message has words or a picture; the other is null.
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

// documentedBody is a request as the documents of EyeClaw have it.
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

// DocumentedText is a body for [Glasses.Post] as in the documents' simplest
// example: no wearer, nothing about the device.
func DocumentedText(messageID, agentID, text string) []byte {
	return encode(documentedBody{MessageID: messageID, AgentID: agentID,
		Message: []documentedMessage{{"user", "text", text}}})
}

// DocumentedImage is a body as in the documents' example of a picture: its
// address is the text.
func DocumentedImage(messageID, agentID, address string) []byte {
	return encode(documentedBody{MessageID: messageID, AgentID: agentID,
		Message: []documentedMessage{{"user", "image", address}}})
}

// DocumentedContext is a body as in the documents' full example: what the device
// tells about itself is in a context of its own.
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

// encode leaves <, > and & as they are, as the platform does.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only texts and numbers are in it
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
