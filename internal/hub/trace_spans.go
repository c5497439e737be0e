package hub

import (
	"context"
	"errors"
	"strconv"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/tracing"
)

// Operations of generative AI in OpenTelemetry (semantic-conventions-genai at 002c8a6,
// docs/gen-ai/gen-ai-agent-spans.md), and the attribute that names them.
const (
	attrOperation = "gen_ai.operation.name"
	opInvokeAgent = "invoke_agent"
	opExecuteTool = "execute_tool"
)

// traceTurn starts the span of a turn, in the trace of its asker. It ends with the run.
func (h *Hub) traceTurn(ctx, asker context.Context, turn *talk.Turn, bot store.Bot) (context.Context, tracing.Span) {
	if h.Tracer == nil {
		return ctx, tracing.Span{}
	}
	ctx, span := h.Tracer.Start(h.Tracer.Under(ctx, asker), "turn", turn.Channel)
	span.Text("patchbay.turn.id", turn.ID)
	span.Text("patchbay.channel", turn.Channel)
	span.Text("gen_ai.agent.id", strconv.FormatInt(bot.Number, 10))
	span.Text("gen_ai.agent.name", bot.Name)
	span.Text("patchbay.bot.kind", bot.Kind)
	return ctx, span
}

// endSpan ends the span of a run that has ended.
func (r *run) endSpan() {
	if r.hub.Tracer == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	outcome := outcomeDone
	switch {
	case r.revised != nil:
		outcome = "revised"
	case r.stopped:
		outcome = "stopped"
	case r.notAsked:
		outcome = outcomeDisconnected
	case r.failure != nil:
		outcome = outcomeFailed
		r.span.Fail(string(r.failure.Code))
	case r.undelivered:
		outcome = "late"
	}
	r.span.Text("patchbay.outcome", outcome)
	r.span.Text("patchbay.intercepted_by", r.interceptedBy)
	r.span.Seconds("patchbay.queued", r.waited)
	r.span.Seconds("patchbay.first_piece", r.first)
	r.span.Number("patchbay.pieces", r.pieces)
	if r.turn.VoiceTimes != nil {
		traceVoice(r.span, r.turn.VoiceTimes())
	}
	r.span.End()
}

// traceVoice adds the stages of a spoken turn.
func traceVoice(span tracing.Span, v *talk.VoiceTimes) {
	if v == nil {
		return
	}
	for _, stage := range []struct {
		name string
		ms   int64
	}{
		{"commit", v.Commit}, {"transcript", v.Transcript}, {"first_text", v.FirstText},
		{"first_sentence", v.FirstSentence}, {"first_sound", v.FirstSound}, {"interrupted", v.Interrupted},
	} {
		if stage.ms > 0 {
			span.Event("voice."+stage.name, v.SpeechEnded.Add(time.Duration(stage.ms)*time.Millisecond))
		}
	}
}

// traceBot starts the span of a bot that answers, on the instance that holds it.
func traceBot(ctx context.Context, t *tracing.Tracer, turn *talk.Turn) (context.Context, tracing.Span) {
	ctx, span := t.Start(ctx, opInvokeAgent, "")
	if t != nil {
		span.Text(attrOperation, opInvokeAgent)
		span.Text("gen_ai.agent.id", strconv.FormatInt(turn.Bot, 10))
	}
	return ctx, span
}

func endBotSpan(span tracing.Span, err error) {
	switch {
	case err == nil:
	case errors.Is(err, talk.ErrDisconnected), errors.Is(err, talk.ErrRevised), errors.Is(err, context.Canceled):
		span.Text("patchbay.outcome", "stopped")
	default:
		span.Fail(string(talk.AsFailure(err).Code))
	}
	span.End()
}

// traceCall starts the span of a call. The name of the tool is added when it is known that there is
// such a tool: any other may be a text.
func (h *Hub) traceCall(ctx context.Context, c *tool.Call) (context.Context, tracing.Span) {
	ctx, span := h.Tracer.Start(ctx, opExecuteTool, "")
	if h.Tracer != nil {
		span.Text(attrOperation, opExecuteTool)
		span.Text("gen_ai.tool.call.id", c.ID)
		span.Text("patchbay.channel", c.Caller.Channel)
		span.Text("patchbay.turn.id", c.Caller.Turn)
	}
	return ctx, span
}

// endCallSpan ends the span of a call, given its record.
func endCallSpan(span tracing.Span, o *RegisteredTool, row *store.Call) {
	if o != nil {
		span.Rename(opExecuteTool, o.Name)
		span.Text("gen_ai.tool.name", o.Name)
		span.Text("patchbay.provider", o.offer.ID)
		span.Text("patchbay.provider.kind", o.offer.Kind)
	}
	span.Text("patchbay.outcome", row.Outcome)
	if row.Code != "" {
		span.Fail(row.Code)
	} else if row.Outcome == callToolError {
		span.Fail(callToolError) // as the conventions for MCP call it
	}
	span.End()
}
