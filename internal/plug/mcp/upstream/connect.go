package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"patchbay/internal/tool"
)

func plainDial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
}

// connect makes a connection and agrees with the server on how to speak, trying
// first what was right the last time. With an error it returns the session if it
// got so far, which is closed then.
func connect(ctx context.Context, spec *Spec, opt *Options, last knack, log *slog.Logger, redact func(string) string) (*session, knack, error) {
	first := last
	if first.transport == "" {
		first.transport = spec.Settings.transport()
	}
	s, err := connectBy(ctx, first, spec, opt, log, redact)
	if err == nil {
		return s, knack{first.transport, s.modern}, nil
	}
	if spec.Settings.Transport != "" || first.transport != HTTP || !tryLegacy(err) {
		return s, knack{}, err
	}
	older, errOlder := connectBy(ctx, knack{transport: SSE}, spec, opt, log, redact)
	if errOlder != nil {
		return s, knack{}, err // what is wrong with the usual transport says more
	}
	return older, knack{transport: SSE}, nil
}

// tryLegacy says that a server refused such that it may speak the older protocol
// only: it did not speak JSON-RPC.
func tryLegacy(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && status.code/100 == 4 && !status.auth()
}

// connectBy tries one transport.
func connectBy(ctx context.Context, how knack, spec *Spec, opt *Options, log *slog.Logger, redact func(string) string) (*session, error) {
	limit := opt.timings().connect
	if how.transport == Stdio {
		limit = opt.timings().start
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s := newSession(log, redact, opt.client())
	err := s.plug(ctx, how.transport, spec, opt)
	if err == nil {
		err = s.open(ctx, how.modern)
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

// plug gives the session its wire, by which nothing comes in before.
func (s *session) plug(ctx context.Context, transport string, spec *Spec, opt *Options) error {
	var err error
	switch transport {
	case Stdio:
		if spec.Guarded {
			return errGuarded
		}
		var w *stdio
		if w, err = newStdio(s, &spec.Settings, s.log); err == nil {
			s.wire = w
			w.begin()
		}
	case SSE:
		var w *legacy
		if w, err = newLegacy(ctx, s, &spec.Settings, opt.dial(spec)); err == nil {
			s.wire = w
			s.start(w.begin)
		}
	default:
		s.wire = newStreamable(s, &spec.Settings, opt.dial(spec))
	}
	return err
}

// Report is what a look at a server found.
type Report struct {
	// Server and Version are what the server calls itself.
	Server, Version string
	// Protocol is the revision that was agreed upon; Transport is what worked.
	Protocol, Transport string
	// Tools are those that would be offered; the numbers are as in [Status].
	Tools           []tool.Tool
	Hidden, Skipped int
	Cut             bool
}

// Check connects to a server once, reads its list of tools, and leaves. Of the
// options it uses Logger, Dial and Version, and of the spec Settings and Guarded.
// An error is a *[Trouble].
func Check(ctx context.Context, spec Spec, opt Options) (Report, error) {
	redact := spec.Settings.redactor().Replace
	s, how, err := connect(ctx, &spec, &opt, knack{}, opt.Logger, redact)
	if err != nil {
		return Report{}, withLines(explain(err, redact), s)
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(ctx, opt.timings().list)
	defer cancel()
	c, err := s.list(ctx, &spec.Settings)
	if err != nil {
		return Report{}, withLines(explain(err, redact), s)
	}
	return Report{
		Server: redact(clip(s.server.Name, maxName)), Version: redact(clip(s.server.Version, maxName)),
		Protocol: s.version, Transport: how.transport,
		Tools: c.tools, Hidden: c.hidden, Skipped: c.skipped, Cut: c.cut,
	}, nil
}

// withLines adds what a command said at last.
func withLines(t *Trouble, s *session) *Trouble {
	if s == nil {
		return t
	}
	if w, ok := s.wire.(*stdio); ok {
		for _, line := range w.lines() {
			t.Cause = clip(t.Cause+"; "+line, maxCause)
		}
	}
	return t
}
