package wire

import (
	"bytes"
	"encoding/json"
	"testing"
)

// through decodes and encodes a value.
func through[T any](t *testing.T, body []byte) []byte {
	t.Helper()
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		t.Errorf("%s: %v", body, err)
	}
	return mustJSON(v)
}

// reencode decodes and encodes the contents of a frame. It returns false for contents that this
// package does not write.
func reencode(t *testing.T, r recorded, body json.RawMessage) ([]byte, bool) {
	t.Helper()
	switch r.To + " " + r.Method {
	case "client connect.challenge":
		c, err := ParseChallenge(body)
		if err != nil {
			t.Error(err)
		}
		var has map[string]json.RawMessage
		_ = json.Unmarshal(body, &has)
		if has["capabilities"] != nil { // not sent by this package
			return mustJSON(struct {
				Challenge
				Capabilities json.RawMessage `json:"capabilities"`
			}{c, has["capabilities"]}), true
		}
		return mustJSON(c), true
	case "gateway connect":
		c, e := ParseConnect(body)
		if e != nil {
			return nil, false // TestHandshakes
		}
		again := mustJSON(c)
		for _, name := range []string{"caps", "scopes"} { // an empty list is equal to an absent one
			if bytes.Contains(body, []byte(`"`+name+`":[]`)) {
				again = restored(again, body, name)
			}
		}
		if c.Role == RoleOperator && !bytes.Contains(body, []byte(`"role"`)) {
			return nil, false
		}
		return again, true
	case "client connect":
		var h Hello
		if json.Unmarshal(body, &h) != nil || h.Snapshot.Sessions != nil || h.Features.Capabilities != nil {
			return nil, false // a real gateway's has more members, see TestHello
		}
		return h.JSON(), true
	case "client node.list":
		return withoutStats(t, body, through[NodeList])
	case "client node.describe":
		return withoutStats(t, body, through[NodeDetail])
	case "client node.pair.list":
		return withoutStats(t, body, through[NodePairs])
	case "client node.pair.approve":
		return through[ApprovedNode](t, body), true
	case "client node.pair.requested":
		return through[NodeRequest](t, body), true
	case "client node.pair.resolved", "client device.pair.resolved":
		return through[Decision](t, body), true
	case "gateway node.invoke":
		p, e := ParseInvoke(body)
		if e != nil {
			return nil, false // TestInvokeErrors
		}
		return mustJSON(p), true
	case "client node.invoke.request":
		p, err := ParseInvokeRequest(body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		return p.Append(nil), true
	case "gateway node.invoke.result":
		p, e := ParseInvokeResult(body)
		if e != nil {
			return nil, false
		}
		return p.Append(nil), true
	case "gateway node.event":
		p, e := ParseNodeEvent(body)
		if e != nil {
			t.Error(e)
		}
		var has map[string]json.RawMessage
		if _ = json.Unmarshal(body, &has); has["payload"] != nil { // an object, which this package does not write
			return mustJSON(map[string]any{"event": p.Event, "payload": p.Payload}), true
		}
		return p.Append(nil), true
	case "client node.event":
		return through[EventAck](t, body), true
	case "gateway node.pluginTools.update":
		p, e := ParsePluginTools(body)
		if e != nil {
			t.Error(e)
		}
		return mustJSON(p), true
	case "gateway chat.send":
		if ShapeChatSend.Invalid(body) != nil {
			return nil, false
		}
		return through[ChatSend](t, body), true
	case "gateway chat.abort":
		return through[ChatAbort](t, body), true
	case "client chat.send":
		return through[Run](t, body), true
	case "client chat.abort":
		return through[AbortResult](t, body), true
	case "client chat":
		e, err := ParseChat(body)
		if err != nil {
			t.Error(err)
		}
		return mustJSON(e), true
	case "client agent":
		var e AgentEvent
		if json.Unmarshal(body, &e) != nil || e.RunID == "" || e.Stream == "" {
			return nil, false // the response to the method agent
		}
		var more map[string]json.RawMessage
		_ = json.Unmarshal(body, &more)
		if more["sessionId"] != nil || !e.Heartbeat && more["isHeartbeat"] != nil {
			delete(more, "sessionId")
			delete(more, "isHeartbeat")
			return restored(mustJSON(e), body, "sessionId", "isHeartbeat"), true
		}
		return mustJSON(e), true
	}
	return nil, false
}

// restored copies members that this package does not write.
func restored(ours, theirs []byte, names ...string) []byte {
	var a, b map[string]json.RawMessage
	_ = json.Unmarshal(ours, &a)
	_ = json.Unmarshal(theirs, &b)
	for _, name := range names {
		if v, ok := b[name]; ok {
			a[name] = v
		}
	}
	return mustJSON(a)
}

// withoutStats skips rows from a simulated gateway in the recordings, which lack some members.
func withoutStats(t *testing.T, body []byte, again func(*testing.T, []byte) []byte) ([]byte, bool) {
	t.Helper()
	var rows []map[string]json.RawMessage
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		return nil, false
	}
	if all["nodeId"] != nil {
		rows = append(rows, all)
	}
	for _, list := range []string{"nodes", "paired"} {
		var more []map[string]json.RawMessage
		if json.Unmarshal(all[list], &more) == nil {
			rows = append(rows, more...)
		}
	}
	for _, row := range rows {
		if row["sessionHost"] == nil {
			return nil, false
		}
	}
	return again(t, body), true
}
