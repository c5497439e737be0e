package gateway_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
	"patchbay/internal/tracing"
	"patchbay/internal/tracing/tracingtest"
)

// The trace of an operator's request goes on in the call of the node, and in the turn of a bot.
func TestTraceOfAnOperator(t *testing.T) {
	c := tracingtest.New(t)
	tracer := tracing.New(tracing.Options{URL: c.URL, Percent: 100, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { tracer.Close(context.Background()) })
	r := rigOn(t, hubtest.New(t, hubtest.Options{Hub: hub.Options{Installation: "test", Tracer: tracer}}),
		func(o *gateway.Options) { o.Tracer = tracer })
	r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error { return emit(talk.Text("hi")) })
	n, op := r.node(sim.Options{}, true), r.operator(r.token)
	const traceID, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for method, tt := range map[string]struct {
		params any
		span   string
	}{
		wire.MethodNodeInvoke: {invokeParams(n.ID(), "kitchen.echo", m{"a": 1}), "execute_tool"},
		wire.MethodChatSend:   {m{"sessionKey": "a", "message": "hi", "idempotencyKey": "run-1"}, "turn"},
	} {
		frame := wire.AppendRequest(nil, "traced", method, encode(t, tt.params))
		frame = append(frame[:len(frame)-1], `,"traceparent":"00-`+traceID+`-`+parent+`-00"}`...)
		must(t, op.Write(limited(t), frame))
		span := c.Await(t, method, func(s *tracingtest.Span) bool { return strings.HasPrefix(s.Name, tt.span) })
		if span.Trace != traceID || span.Parent != parent || span.Kind != "server" || span.Failed ||
			span.Attributes["patchbay.channel"] != "openclaw" {
			t.Errorf("%+v", span)
		}
	}
}
