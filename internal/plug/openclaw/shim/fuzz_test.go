package shim

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/wire"
)

// Every call of a gateway gets a result that gateways accept.
func FuzzInvoke(f *testing.F) {
	o := newSurface("x", []Device{speaker(1), speaker(2), lamp()})
	h := newFakeSource()
	for _, command := range append(slices.Clone(o.commands), "x") {
		for _, params := range []string{``, `null`, `{}`, `[]`, ` {"server":"lamp"}`,
			`{"server":"lamp","tool":"light","arguments":{"a":1}}`,
			`{"server":"speaker-1","name":"` + volume + `","arguments":{"volume":"\ud800"}}`,
			`{"cursor":"eA","server":"speaker-1","server":"speaker-2","action":5}`} {
			r := wire.InvokeRequest{ID: "1", NodeID: "n", Command: command, Timeout: time.Second}
			if params != "" {
				r.Params = json.RawMessage(params)
			}
			f.Add(r.Append(nil))
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := wire.ParseInvokeRequest(payload)
		if err != nil {
			return
		}
		c := commandRunner{h, Spec{}, o, "1"}
		got, failed := c.run(t.Context(), &r)
		if (got == nil) == (failed == nil) {
			t.Fatalf("%s and %+v", got, failed)
		}
		if failed != nil && (failed.Code == "" || failed.Message == "") || got != nil && !json.Valid(got) {
			t.Fatalf("%s %+v", got, failed)
		}
		result := wire.InvokeResult{ID: r.ID, NodeID: r.NodeID, OK: failed == nil, Payload: got, Error: failed}
		if _, e := wire.ParseInvokeResult(result.Append(nil)); e != nil {
			t.Fatalf("%s: %v", result.Append(nil), e)
		}
		select {
		case call := <-h.calls:
			var args map[string]any
			if json.Unmarshal(call.Args, &args) != nil || args == nil {
				t.Fatalf("the arguments are %s", call.Args)
			}
			if call.Tool != volume && call.Tool != "light" && call.Tool != "audio" {
				t.Fatalf("%s was called", call.Tool)
			}
		default:
		}
	})
}

// Every notification of a device becomes a valid notification for the gateway.
func FuzzNotice(f *testing.F) {
	f.Add("notifications/button", []byte(`{"pressed":true}`), "Lamp")
	f.Add("", []byte(`{"text":5,"message":"x"}`), "")
	f.Add("\n", []byte(`"x"`), "\xff")
	f.Fuzz(func(t *testing.T, method string, params []byte, title string) {
		n := notificationOf(hub.Notice{Provider: "board:1", Method: method, Params: params, Title: title})
		if n.Key == "" || n.Title == "" || strings.ContainsAny(n.Key+n.Title+n.Text, "\r\n") ||
			len([]rune(n.Text)) > maxNoticeText {
			t.Fatalf("%+v", n)
		}
	})
}
