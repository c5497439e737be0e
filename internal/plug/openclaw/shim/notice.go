package shim

import (
	"cmp"
	"encoding/json"
	"strings"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// maxNoticeText limits the title and the text of a notification, in characters, as gateways do
	// (src/gateway/server-node-events.ts, MAX_NOTIFICATION_EVENT_TEXT_CHARS).
	maxNoticeText = 120
	// ownNoticePrefix is the prefix of Patchbay's own notifications, such as a device waking up.
	// They are no reason to wake an agent.
	ownNoticePrefix = "patchbay/"
)

// notification is the payload of notifications.changed, the closest event that gateways have
// (src/gateway/server-node-events.ts). It appears in the agent's next turn.
type notification struct {
	Change string `json:"change"`
	Key    string `json:"key"`
	Title  string `json:"title,omitempty"`
	Text   string `json:"text,omitempty"`
}

// queueNotice queues a device's notification. It does not block.
func (s *session) queueNotice(n hub.Notice) {
	counted := s.n.gateway.m.metrics.notices
	if strings.HasPrefix(n.Method, ownNoticePrefix) {
		return
	}
	select {
	case s.notices <- n:
	default:
		counted.WithLabelValues("full").Inc()
	}
}

// sendNotice sends a notification, within the rate limit.
func (s *session) sendNotice(n hub.Notice) {
	outcome := "told"
	switch {
	case !s.approved:
		outcome = "away"
	case !s.rate.Allow():
		outcome = "too_often"
	default:
		payload, _ := json.Marshal(notificationOf(n)) // of texts
		if !s.sendEvent(&wire.NodeEvent{Event: wire.NodeNotifications, Payload: payload}) {
			outcome = "refused"
		}
	}
	s.n.gateway.m.metrics.notices.WithLabelValues(outcome).Inc()
}

// notificationOf converts a notification for the gateway.
func notificationOf(n hub.Notice) notification {
	method := strings.TrimPrefix(n.Method, "notifications/")
	return notification{
		Change: "posted", Key: cmp.Or(clip(n.Provider+":"+method, maxNoticeText), "device"),
		Title: cmp.Or(clip(n.Title, maxNoticeText), clip(n.Provider, maxNoticeText)),
		Text:  clip(strings.TrimSpace(method+" "+noticeText(n.Params)), maxNoticeText),
	}
}

// noticeText returns the text or message among the parameters, or else all of them.
func noticeText(params json.RawMessage) string {
	if len(params) == 0 || !json.Valid(params) {
		return ""
	}
	for in := jsonrpc.Scan(params); in.Next(); {
		switch string(in.Key) {
		case "text", "message":
			if s := jsonrpc.Text(in.Value); s != "" {
				return s
			}
		}
	}
	if s := string(params); s != "{}" && s != "null" {
		return s
	}
	return ""
}
