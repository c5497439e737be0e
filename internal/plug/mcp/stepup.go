package mcp

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/jsonrpc"
)

const (
	// stepUpPause is how long a grant is not challenged again. Some programs cannot ask for more:
	// the TypeScript SDK 1.32 refreshes its token instead, repeats the call, and gives up if it is
	// challenged again. Their calls wait for an approval instead.
	stepUpPause = 10 * time.Minute
	// maxStepUps limits the grants that are remembered; when there are more, all are forgotten.
	maxStepUps = 10_000
)

// stepUps remembers which grants were challenged, and when. It is safe for concurrent use.
type stepUps struct {
	mu sync.Mutex
	at map[string]time.Time // by the id of the key
}

// begin reports whether a grant is challenged now: it was not, a short time ago.
func (s *stepUps) begin(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.at[key]; ok && now.Sub(at) < stepUpPause {
		return false
	}
	if s.at == nil || len(s.at) >= maxStepUps {
		s.at = map[string]time.Time{}
	}
	s.at[key] = now
	return true
}

// lacksDangerous reports whether a message is a call of a program that was let in by OAuth without
// [account.ScopeDangerous].
func (c *caller) lacksDangerous(m *jsonrpc.Message) bool {
	k := &c.principal.Key
	return m.Method == "tools/call" && k.Client != "" && !slices.Contains(k.Scopes, account.ScopeDangerous)
}

// challengeCall answers a call for which [caller.lacksDangerous] holds if its tool waits for an
// approval and the program was not challenged a short time ago: with an error that tells programs
// how to ask their person for more (2026-07-28 basic/authorization, "Scope Challenge Handling").
// Batches and streams that are open already have no status of their own; their calls wait for an
// approval as those of keys do.
func (s *Server) challengeCall(w http.ResponseWriter, r *http.Request, x *exchange) bool {
	name := x.text("name")
	if name == callTool && x.isFinder(name) {
		if found, _, e := readFoundCall(x.param("arguments")); e == nil {
			name = found
		}
	}
	v, e := x.view()
	if e != nil || !v.Asks(name) || !s.stepUps.begin(x.access.Key, time.Now()) {
		return false
	}
	s.metrics.refused.WithLabelValues("scope").Inc()
	w.Header().Set("WWW-Authenticate", s.challenge(r, account.ScopeDangerous)+`, error="insufficient_scope", `+
		`error_description="this tool is dangerous or for people, so its owner has to agree"`)
	writeJSON(w, http.StatusForbidden, jsonrpc.AppendError(nil, x.msg.ID, &jsonrpc.Error{Code: jsonrpc.InvalidRequest,
		Message: "the scope " + account.ScopeDangerous + " is needed for this tool"}))
	return true
}
