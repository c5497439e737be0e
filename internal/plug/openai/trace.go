package openai

import (
	"context"
	"errors"
	"strconv"

	"patchbay/internal/tracing"
)

// traceRound starts the span of a request to the model (semantic-conventions-genai at 002c8a6,
// docs/gen-ai/gen-ai-spans.md, "Inference").
func (b *Bot) traceRound(ctx context.Context) (context.Context, tracing.Span) {
	ctx, span := b.tracer.StartClient(ctx, "chat", b.settings.Model, b.endpoint.chat)
	span.Text("gen_ai.operation.name", "chat")
	span.Text("gen_ai.provider.name", "openai") // whose format it is
	span.Text("gen_ai.request.model", b.settings.Model)
	return ctx, span
}

// endRound ends the span of a request.
func endRound(span tracing.Span, out outcome, err error) {
	span.Listed("gen_ai.response.finish_reasons", out.finish)
	if out.usage != nil {
		span.Number("gen_ai.usage.input_tokens", int64(out.usage.Prompt))
		span.Number("gen_ai.usage.output_tokens", int64(out.usage.Completion))
	}
	_, ours := errors.AsType[*emitError](err)
	server, refused := errors.AsType[*serverError](err)
	switch {
	case err == nil:
	case ours, errors.Is(err, context.Canceled):
		span.Text("patchbay.outcome", "stopped")
	case refused && server.status != 0:
		span.Fail(strconv.Itoa(server.status))
	case refused:
		span.Fail("server_error")
	case errors.Is(err, errFirstByte), errors.Is(err, errIdle), errors.Is(err, errTail):
		span.Fail("timeout")
	default:
		if _, away := errors.AsType[*unreachableError](err); away {
			span.Fail("unreachable")
			break
		}
		span.Fail("_OTHER")
	}
	span.End()
}
