package api

import (
	"net/http"

	"patchbay/internal/control"
)

func (s *Server) upstreams(w http.ResponseWriter, r *http.Request, c control.Caller) {
	rows, err := s.Board.Store.Upstreams.ByOwner(r.Context(), c.Owner())
	if err != nil {
		s.broken(w, r, err)
		return
	}
	people, err := s.names(r.Context())
	if err != nil {
		s.broken(w, r, err)
		return
	}
	out := make([]control.Upstream, len(rows))
	for i, u := range rows {
		h := s.Upstream(u)
		if !c.Admin {
			h.Cause, h.Stderr = "", nil
		}
		for j := range h.Nodes {
			h.Nodes[j].Trouble = h.Nodes[j].Told.In(lang(r))
		}
		out[i] = control.Upstream{Upstream: u, OwnerName: people[u.Owner], UpstreamHealth: h, Trouble: h.Trouble.In(lang(r))}
	}
	reply(w, map[string]any{"upstreams": out})
}
