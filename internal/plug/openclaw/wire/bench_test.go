package wire

import "testing"

// BenchmarkInvoke measures all reading and writing of a gateway for one call of a node's command.
func BenchmarkInvoke(b *testing.B) {
	ask := AppendRequest(nil, "7:31574c09", MethodNodeInvoke,
		[]byte(`{"nodeId":"31574c09","command":"mcp.tools.call.v1","params":{"server":"kitchen","tool":"self.lamp.set","arguments":{"on":true}},"idempotencyKey":"7b1c"}`))
	done := InvokeResult{ID: "9a", NodeID: "31574c09", OK: true,
		Payload: []byte(`{"content":[{"type":"text","text":"the lamp is on"}]}`)}
	answer := AppendRequest(nil, "8:31574c09", MethodInvokeResult, done.Append(nil))
	var buf, payload []byte
	b.ReportAllocs()
	for b.Loop() {
		q, err := ParseRequest(ask)
		if err != nil {
			b.Fatal(err)
		}
		p, e := ParseInvoke(q.Params)
		if e != nil {
			b.Fatal(e)
		}
		r := InvokeRequest{ID: "9a", NodeID: p.NodeID, Command: p.Command, Params: p.Params, Timeout: p.Timeout(),
			IdempotencyKey: p.IdempotencyKey}
		payload = r.Append(payload[:0])
		buf = AppendEvent(buf[:0], EventInvoke, payload, 0)
		if q, err = ParseRequest(answer); err != nil {
			b.Fatal(err)
		}
		result, e := ParseInvokeResult(q.Params)
		if e != nil {
			b.Fatal(e)
		}
		payload = result.AppendInvoked(payload[:0], p.Command)
		buf = AppendResult(buf[:0], "7:31574c09", payload)
	}
}
