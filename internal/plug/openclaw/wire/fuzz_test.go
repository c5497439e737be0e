package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"
	"unicode/utf8"
)

// seeds adds the recorded contents of one direction.
func seeds(f *testing.F, to string, methods ...string) {
	f.Helper()
	for _, r := range lines[recorded](f, "frames.jsonl") {
		if r.To != to {
			continue
		}
		if methods == nil {
			f.Add([]byte(r.Frame))
			continue
		}
		for _, m := range methods {
			if m != r.Method {
				continue
			}
			if q, err := ParseRequest(r.Frame); err == nil && q.Params != nil {
				f.Add([]byte(q.Params))
			} else if v, err := Parse(r.Frame); err == nil && v.Payload != nil {
				f.Add([]byte(v.Payload))
			}
		}
	}
}

func FuzzRequest(f *testing.F) {
	seeds(f, "gateway")
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := ParseRequest(data)
		var bad *BadRequest
		if errors.As(err, &bad) {
			if answer := bad.AppendAnswer(nil); !json.Valid(answer) {
				t.Errorf("%s is answered with %s", data, answer)
			}
		}
		if err != nil {
			return
		}
		again := AppendRequest(nil, q.ID, q.Method, q.Params)
		p, err := ParseRequest(again)
		if err != nil || p.ID != q.ID || p.Method != q.Method || !bytes.Equal(p.Params, q.Params) {
			t.Errorf("%s became %s: %v", data, again, err)
		}
	})
}

func FuzzFrame(f *testing.F) {
	seeds(f, "client")
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data)
		if err != nil {
			return
		}
		var again []byte
		switch {
		case v.Error != nil:
			_, _, _ = v.Error.Detail(), v.Error.Next(), v.Error.Reason()
			again = AppendFailure(nil, v.ID, v.Error)
		case v.Type == TypeResponse:
			again = AppendResult(nil, v.ID, v.Payload)
		default:
			again = AppendEvent(nil, v.Event, v.Payload, v.Seq)
		}
		w, err := Parse(again)
		if err != nil || w.Type != v.Type || w.ID != v.ID || w.Event != v.Event || w.Seq != v.Seq ||
			v.Error == nil && !bytes.Equal(w.Payload, v.Payload) || (w.Error == nil) != (v.Error == nil) {
			t.Errorf("%s became %s: %v", data, again, err)
		}
	})
}

func FuzzConnect(f *testing.F) {
	seeds(f, "gateway", MethodConnect)
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		c, e := ParseConnect(data)
		if e != nil {
			if e.Close == 0 || len(e.Reason()) > MaxReason || !utf8.ValidString(e.Reason()) ||
				!json.Valid(AppendFailure(nil, "x", e)) {
				t.Errorf("%s: %+v", data, e)
			}
			return
		}
		_ = c.Verify("nonce", time.Unix(1700000000, 0))
		seven().Sign(c, sevenChallenge)
		if e := c.Verify(sevenChallenge.Nonce, time.UnixMilli(sevenChallenge.TS)); e != nil {
			t.Errorf("%s: %v", data, e)
		}
		if again, e := ParseConnect(mustJSON(c)); e != nil || again.Credential() != c.Credential() ||
			again.Role != c.Role {
			t.Errorf("%s became %s: %v", data, mustJSON(c), e)
		}
		s := &Surface{Platform: c.Client.Platform, Family: c.Client.DeviceFamily, Caps: c.Caps, Declared: c.Commands}
		s.Approved = append(s.Approved, (Policy{}).Declarable(s)...)
		for _, command := range c.Commands {
			_ = Policy{}.Refuse(s, command, c.Scopes)
		}
	})
}

func FuzzHello(f *testing.F) {
	seeds(f, "client", MethodConnect, EventChallenge)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = ParseChallenge(data)
		h, err := ParseHello(data)
		if err == nil && (h.Policy.TickIntervalMS <= 0 || h.Policy.MaxPayload <= 0) {
			t.Errorf("%s: %+v", data, h.Policy)
		}
	})
}

func FuzzInvoke(f *testing.F) {
	seeds(f, "gateway", MethodNodeInvoke)
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		p, e := ParseInvoke(data)
		if e != nil {
			return
		}
		if p.Timeout() < 0 || p.Timeout() > 24*time.Hour {
			t.Errorf("%s: %v", data, p.Timeout())
		}
		r := InvokeRequest{ID: "1", NodeID: p.NodeID, Command: p.Command, Params: p.Params, Timeout: p.Timeout(),
			IdempotencyKey: p.IdempotencyKey, SessionKey: p.SessionKey}
		got, err := ParseInvokeRequest(r.Append(nil))
		if err != nil || got.Command != r.Command || got.Timeout != r.Timeout {
			t.Errorf("%s became %s: %v", data, r.Append(nil), err)
		}
		if utf8.Valid(data) && !bytes.Equal(got.Params, r.Params) {
			t.Errorf("%s became %s", r.Params, got.Params)
		}
	})
}

func FuzzInvokeRequest(f *testing.F) {
	seeds(f, "client", EventInvoke)
	f.Add([]byte(`{"id":"a","nodeId":"b","command":"c","paramsJSON":"{","timeoutMs":1e99}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseInvokeRequest(data)
		if err != nil {
			return
		}
		again, err := ParseInvokeRequest(r.Append(nil))
		if err != nil || again.ID != r.ID || again.Timeout != r.Timeout ||
			!same(orNull(again.Params), orNull(r.Params)) {
			t.Errorf("%s became %s: %v", data, r.Append(nil), err)
		}
		_, _ = ParseToolCall(r.Params)
	})
}

func orNull(v []byte) []byte {
	if v == nil {
		return []byte("null")
	}
	return v
}

func FuzzInvokeResult(f *testing.F) {
	seeds(f, "gateway", MethodInvokeResult)
	f.Add([]byte(`{"id":"a","nodeId":"b","ok":false,"payloadJSON":{"a":1},"error":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		r, e := ParseInvokeResult(data)
		if e != nil {
			return
		}
		if out := r.AppendInvoked(nil, "c"); !json.Valid(out) {
			t.Errorf("%s brings %s", data, out)
		}
		again, e := ParseInvokeResult(r.Append(nil))
		if e != nil || again.OK != r.OK || !bytes.Equal(again.Payload, r.Payload) ||
			(again.PayloadJSON == nil) != (r.PayloadJSON == nil) {
			t.Errorf("%s became %s: %v", data, r.Append(nil), e)
		}
	})
}

func FuzzNodeEvent(f *testing.F) {
	seeds(f, "gateway", MethodNodeEvent)
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		p, e := ParseNodeEvent(data)
		if e != nil {
			return
		}
		again, e := ParseNodeEvent(p.Append(nil))
		if e != nil || again.Event != p.Event {
			t.Errorf("%s became %s: %v", data, p.Append(nil), e)
		}
	})
}

func FuzzPluginTools(f *testing.F) {
	seeds(f, "gateway", MethodPluginTools)
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		p, e := ParsePluginTools(data)
		if e != nil {
			return
		}
		for _, tool := range p.Tools {
			if !IsValidToolName(tool.Name) || tool.MCP != nil && tool.MCP.Server == "" {
				t.Errorf("%s: %+v", data, tool)
			}
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("kitchen", "self.audio.speaker", "kitchen_self", "audio.speaker")
	f.Add("", "", "厨房", "状态")
	f.Fuzz(func(t *testing.T, s1, t1, s2, t2 string) {
		a, b := ToolRef{s1, t1}, ToolRef{s2, t2}
		n := NewNames([]ToolRef{a, b})
		if !IsValidToolName(n.Name(a)) || !IsValidToolName(n.Name(b)) || (n.Name(a) == n.Name(b)) != (a == b) {
			t.Errorf("%v is %q, and %v is %q", a, n.Name(a), b, n.Name(b))
		}
	})
}

func FuzzEvents(f *testing.F) {
	seeds(f, "client", EventChat)
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := ParseChat(data); err == nil {
			_, _ = e.IsLast(), e.Text()
		}
		_ = ContentText(data)
	})
}
