package console

import (
	"net/http"

	"patchbay/internal/console/page"
)

func (s *Server) homeRoutes() []page.Route {
	return []page.Route{{Pattern: "GET /{$}", Serve: s.home}}
}

// home is the first page.
func (s *Server) home(v *page.Visit) { v.Show(http.StatusOK, homePage(v)) }
