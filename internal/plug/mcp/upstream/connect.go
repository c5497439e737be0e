package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

func plainDial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
}

// connect opens a connection and does the handshake, starting with the transport that worked last;
// prepare, which may be nil, gets each session before that. If the handshake fails, it returns the
// session, closed, together with the error.
func connect(ctx context.Context, spec *Spec, opt *Options, last transportHint, log *slog.Logger,
	redact func(string) string, prepare func(*session)) (*session, transportHint, error) {
	first := last
	if first.transport == "" {
		first.transport = spec.Settings.transport()
	}
	s, err := connectBy(ctx, first, spec, opt, log, redact, prepare)
	if err == nil {
		return s, transportHint{first.transport, s.modern}, nil
	}
	if spec.Settings.Transport != "" || first.transport != HTTP || !mayBeLegacy(err) {
		return s, transportHint{}, err
	}
	older, errOlder := connectBy(ctx, transportHint{transport: SSE}, spec, opt, log, redact, prepare)
	if errOlder != nil {
		return s, transportHint{}, err // the error of the usual transport is more useful
	}
	return older, transportHint{transport: SSE}, nil
}

// mayBeLegacy reports whether a refusal suggests that the server only knows the older transport:
// the response was not JSON-RPC (2026-07-28 basic/transports/streamable-http, "Backward
// Compatibility").
func mayBeLegacy(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && status.code/100 == 4 && !status.isAuth()
}

// connectBy connects over one transport.
func connectBy(ctx context.Context, how transportHint, spec *Spec, opt *Options, log *slog.Logger,
	redact func(string) string, prepare func(*session)) (*session, error) {
	limit := opt.timings().connectTimeout
	if how.transport == Stdio {
		limit = opt.timings().startTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s := newSession(log, redact, opt.client())
	s.slug, s.passes, s.roots = spec.Slug, spec.Settings.passes(), spec.Settings.roots()
	if prepare != nil {
		prepare(s)
	}
	err := s.attachWire(ctx, how.transport, spec, opt)
	if err == nil {
		err = s.handshake(ctx, how.modern)
	}
	if err == nil {
		return s, nil
	}
	if status, ok := errors.AsType[*statusError](err); ok && status.metadata != "" {
		log.Info("upstream: the server says where tokens are to be had", "resource_metadata", redact(status.metadata))
	}
	s.close()
	return s, err
}

// attachWire creates the session's wire. Nothing is received before the wire is set.
func (s *session) attachWire(ctx context.Context, transport string, spec *Spec, opt *Options) error {
	var err error
	switch transport {
	case Stdio:
		if spec.Untrusted {
			return errUntrusted
		}
		var w *stdio
		if w, err = newStdio(s, &spec.Settings, s.log); err == nil {
			s.wire = w
			w.begin()
		}
	case SSE:
		var w *sseWire
		if w, err = newSSEWire(ctx, s, &spec.Settings, newSender(spec, opt)); err == nil {
			s.wire = w
			s.start(w.begin)
		}
	case OpenAPI:
		s.wire = newAPIWire(s, spec, newSender(spec, opt))
	default:
		s.wire = newStreamable(s, &spec.Settings, newSender(spec, opt))
	}
	return err
}

// Report is the result of [Check].
type Report struct {
	// Server and Version are the server's own name and version.
	Server, Version string
	// Protocol is the negotiated revision; Transport is the one that worked.
	Protocol, Transport string
	// Tools are the tools that would be offered; the counters are those of [Status].
	Tools           []tool.Tool
	Hidden, Skipped int
	Truncated       bool
	LeftOut         []i18n.Text
}

// Check connects to a server once, reads its tool list, and disconnects. It uses Logger, Dial
// and Version of the options, and Settings and Untrusted of the spec. An error is a
// *[ConnectionError].
func Check(ctx context.Context, spec Spec, opt Options) (Report, error) {
	opt.addTokens(&spec)
	redact := spec.redactor()
	s, how, err := connect(ctx, &spec, &opt, transportHint{}, opt.Logger, redact, nil)
	if err != nil {
		return Report{}, withStderr(explain(err, redact), s)
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(ctx, opt.timings().listTimeout)
	defer cancel()
	c, err := s.list(ctx, &spec.Settings)
	if err != nil {
		return Report{}, withStderr(explain(err, redact), s)
	}
	return Report{
		Server: redact(clip(s.server.Name, maxName)), Version: redact(clip(s.server.Version, maxName)),
		Protocol: s.protocol(), Transport: how.transport,
		Tools: c.tools, Hidden: c.hidden, Skipped: c.skipped, Truncated: c.truncated, LeftOut: s.leftOut(),
	}, nil
}

// withStderr adds the last error output of a command.
func withStderr(t *ConnectionError, s *session) *ConnectionError {
	if s == nil {
		return t
	}
	if w, ok := s.wire.(*stdio); ok {
		for _, line := range w.stderrLines() {
			t.Cause = clip(t.Cause+"; "+line, maxCause)
		}
	}
	return t
}
