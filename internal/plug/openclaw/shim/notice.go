package shim

import (
	"cmp"
	"encoding/json"
	"strings"

	"patchbay/internal/board"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// maxNoticeText bounds the title and the text of a notice, in characters, as
	// gateways do.
	maxNoticeText = 120
	// ownNotices begins what Patchbay itself tells of a device: that it is awake, that
	// somebody talks to it. That is no news to wake an agent for.
	ownNotices = "patchbay/"
)

// notification is the payload of notifications.changed: the nearest that gateways
// have for what a device tells by itself. It stands in the next turn of the agent.
type notification struct {
	Change string `json:"change"`
	Key    string `json:"key"`
	Title  string `json:"title,omitempty"`
	Text   string `json:"text,omitempty"`
}

// noticed takes what a device has told by itself. It does not wait.
func (s *session) noticed(n board.Notice) {
	counted := s.n.shim.m.metrics.notices
	if strings.HasPrefix(n.Method, ownNotices) {
		return
	}
	select {
	case s.notices <- n:
	default:
		counted.WithLabelValues("full").Inc()
	}
}

// tellNotice tells the gateway, unless that happens too often.
func (s *session) tellNotice(n board.Notice) {
	outcome := "told"
	switch {
	case !s.approved:
		outcome = "away"
	case !s.rate.Allow():
		outcome = "too_often"
	default:
		payload, _ := json.Marshal(notificationOf(n)) // of texts
		if !s.send(&wire.NodeEvent{Event: wire.NodeNotifications, Payload: payload}) {
			outcome = "refused"
		}
	}
	s.n.shim.m.metrics.notices.WithLabelValues(outcome).Inc()
}

// notificationOf is a notice in the gateway's words.
func notificationOf(n board.Notice) notification {
	method := strings.TrimPrefix(n.Method, "notifications/")
	return notification{
		Change: "posted", Key: cmp.Or(clip(n.Outlet+":"+method, maxNoticeText), "device"),
		Title: cmp.Or(clip(n.Title, maxNoticeText), clip(n.Outlet, maxNoticeText)), Text: clip(strings.TrimSpace(method+" "+words(n.Params)), maxNoticeText),
	}
}

// words are what parameters say: their text or message, or else all of them.
func words(params json.RawMessage) string {
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
