package upstream

import (
	"encoding/json"
	"time"

	"golang.org/x/time/rate"

	"patchbay/internal/tool"
)

const (
	// logBurst and logInterval limit the log messages outside of calls that are passed on, in a
	// burst and on average. Further ones are dropped: a server may log all day.
	logBurst    = 20
	logInterval = time.Second / 5
	// maxLogBytes limits the data of such a message; longer ones are dropped.
	maxLogBytes = 8 << 10
	// maxLoggedText limits what Patchbay's own log has of it.
	maxLoggedText = 500
)

func newLogLimit() *rate.Limiter { return rate.NewLimiter(rate.Every(logInterval), logBurst) }

// handleLog forwards a log message to the call that it belongs to, if that is known. One that came
// while nobody called is for the owner.
func (s *session) handleLog(from int64, params json.RawMessage) {
	var l tool.Log
	if json.Unmarshal(params, &l) != nil {
		return
	}
	if p := s.callOf(from); p != nil {
		s.deliverUpdate(p.id, update{log: &l})
	} else if !s.isCalled() && s.passes["logging"] {
		s.onLog(l)
	}
}

// isCalled reports whether a call is running.
func (s *session) isCalled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pending {
		if p.requests != nil {
			return true
		}
	}
	return false
}

// logged passes on a log message that belongs to no call, without secrets.
func (u *upstream) logged(l tool.Log) {
	if len(l.Data) > maxLogBytes || len(l.Logger) > maxName || !u.logLimit.Allow() {
		return
	}
	l.Logger, l.Data = u.redact(l.Logger), json.RawMessage(u.redact(string(l.Data)))
	u.log.Debug("upstream: the server logs", "level", clip(l.Level, maxName), "logger", l.Logger,
		"text", clip(string(l.Data), maxLoggedText))
	u.mu.Lock()
	r := u.live
	u.mu.Unlock()
	if r != nil && json.Valid(l.Data) {
		r.NotifyLog(l)
	}
}
