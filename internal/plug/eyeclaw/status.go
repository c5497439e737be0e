package eyeclaw

import (
	"time"

	"patchbay/internal/i18n"
)

// Status is the state of a bot's plugin, for its owner.
type Status struct {
	// Online reports whether the bot is registered. It stays so for the grace time after its last
	// socket has closed.
	Online bool
	// Connections is the number of open sockets. Two mean that two plugins have the same token; the
	// newer one gets the questions.
	Connections int
	// Since is when the oldest of them connected; zero if there is none.
	Since time.Time
	// LastSeen is when the last frame or pong arrived; zero if never.
	LastSeen time.Time
	// LastAnswer is when an answer was last complete; zero if never.
	LastAnswer time.Time
	// LastError describes the last error, and LastErrorAt is its time. They stay until the next
	// error: an error older than LastAnswer is over.
	LastError   i18n.Text
	LastErrorAt time.Time
	// Command is a command for the owner to run where OpenClaw is, if one helps against the error.
	Command string
	// Reconnecting means that there is no socket, but the plugin is expected back.
	Reconnecting bool
	// OpenClaw is the version of the OpenClaw that a connector runs in, and Connector the
	// connector's; empty if they are not known.
	OpenClaw, Connector string
	Totals              Totals
}

// Totals are counters since this instance started.
type Totals struct {
	Connections int64 // sockets that connected
	Failures    int64 // questions that were sent and not answered completely
	Chunks      int64 // pieces of answers
}

// Status returns the state of a bot. It returns false for a bot whose plugin never connected to
// this instance.
func (s *Server) Status(bot int64) (Status, bool) {
	s.mu.Lock()
	h := s.bots[bot]
	s.mu.Unlock()
	if h == nil {
		return Status{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	st := Status{
		Online:      h.registered,
		Connections: len(h.conns),
		LastSeen:    h.lastSeen,
		LastAnswer:  h.lastAnswer,
		LastError:   h.lastError,
		LastErrorAt: h.lastErrorAt,
		Command:     fixCommand(h.lastError),
		Totals:      h.totals,
	}
	for _, c := range h.conns {
		st.OpenClaw, st.Connector = orDefault(c.openClaw, st.OpenClaw), orDefault(c.version, st.Connector)
		if st.Since.IsZero() || c.connectedAt.Before(st.Since) {
			st.Since = c.connectedAt
		}
		if seen := time.Unix(0, c.lastSeen.Load()); seen.After(st.LastSeen) {
			st.LastSeen = seen
		}
	}
	st.Reconnecting = !h.disconnectedAt.IsZero() && time.Since(h.disconnectedAt) < h.s.opt.Grace
	return st, true
}

// recordError stores an error for the owner.
func (h *pluginBot) recordError(what i18n.Text) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recordErrorLocked(what)
}

func (h *pluginBot) recordErrorLocked(what i18n.Text) {
	h.lastError, h.lastErrorAt = what, time.Now()
}
