package upstream

import (
	"cmp"
	"context"
	"strconv"

	"patchbay/internal/tool"
	"patchbay/internal/tracing"
)

// trace starts the span of a request for a caller (semantic-conventions-genai at 002c8a6,
// docs/gen-ai/mcp.md, "Client"). The id of the session is left out: whoever has it may speak in it.
func (u *upstream) trace(ctx context.Context, method, target string) (context.Context, tracing.Span) {
	at := cmp.Or(u.spec.Settings.BaseURL, u.spec.Settings.URL)
	ctx, span := u.m.opt.Tracer.StartClient(ctx, method, target, at)
	span.Text("mcp.method.name", method)
	return ctx, span
}

// traced returns the link to the span of a request, and adds to the span what the session knows.
func (s *session) traced(ctx context.Context) tracing.Link {
	if s.client.tracer == nil {
		return tracing.Link{}
	}
	tracing.FromContext(ctx).Text("mcp.protocol.version", s.version)
	return s.client.tracer.LinkTo(ctx)
}

// linkMeta adds the span of a request to its _meta (SEP-414, part of 2026-07-28). Servers of
// earlier revisions get it only in place of a caller's own.
func (s *session) linkMeta(meta map[string]any, l tracing.Link) {
	if _, has := meta[tracing.HeaderParent]; l.Parent == "" || !s.modern && !has {
		return
	}
	meta[tracing.HeaderParent] = l.Parent
	if delete(meta, tracing.HeaderState); l.State != "" {
		meta[tracing.HeaderState] = l.State
	}
}

// endSpan ends the span of a request.
func endSpan(ctx context.Context, span tracing.Span, err error) {
	switch e := tool.AsError(err); {
	case e == nil:
	case ctx.Err() != nil:
		span.Fail(string(tool.Cancelled))
	case e.RPC != 0:
		span.Text("rpc.response.status_code", strconv.Itoa(e.RPC))
		span.Fail(strconv.Itoa(e.RPC))
	default:
		span.Fail(string(e.Code))
	}
	span.End()
}
