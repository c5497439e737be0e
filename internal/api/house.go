package api

import (
	"net/http"

	"patchbay/internal/control"
)

// houseOperations are about the installation and its people.
func (s *Server) houseOperations() {
	s.document("GET /api/v1/status", "Tell which version runs, on which database, and which other instances there are", "", nil, nil, s.status)
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request, _ control.Caller) {
	reply(w, map[string]any{
		"version": s.Version, "database": s.Board.Store.Dialect(), "instance": s.Board.Bus.Instance, "others": s.Board.Bus.Peers(),
	})
}
