package api

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/control"
)

// Operations on pictures and sounds of knowledge points.
var (
	LearnMedia = learning("GET /api/v1/learn/media", "List pictures and sounds of knowledge points, or those that none uses",
		(*control.Learning).MediaList)
	RemoveLearnMedia = learning("DELETE /api/v1/learn/media/{name}", "Delete a picture or sound",
		(*control.Learning).RemoveMedia)
	RemoveUnusedMedia = learning("POST /api/v1/learn/media/clean", "Delete the pictures and sounds that no knowledge point uses",
		(*control.Learning).RemoveUnusedMedia)
)

// learnMediaOperations adds them.
func (s *Server) learnMediaOperations() {
	s.operate(LearnMedia, RemoveLearnMedia, RemoveUnusedMedia)
	s.handle(Operation{Method: http.MethodPost, Path: "/api/v1/learn/media",
		Summary: "Store the uploaded picture or sound of knowledge points",
		In:      reflect.TypeFor[control.NewLearnMedia](), Out: reflect.TypeFor[control.LearnMediaFile](),
		Takes: fileKind, Scope: account.ScopeLearn}, s.saveMedia)
	s.handle(Operation{Method: http.MethodGet, Path: control.LearnMediaPath + "{name}",
		Summary: "Return a picture or sound of knowledge points", In: reflect.TypeFor[control.LearnMediaName](),
		Kind: fileKind, Scope: account.ScopeLearn}, s.learnMedia)
}

// saveMedia stores the body.
func (s *Server) saveMedia(w http.ResponseWriter, r *http.Request, c control.Caller) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, control.MaxLearnMedia+1))
	if err != nil && len(data) <= control.MaxLearnMedia {
		s.fails(w, r, err)
		return
	}
	out, err := s.Learning().SaveMedia(r.Context(), c, control.NewLearnMedia{Name: r.URL.Query().Get("name")}, data)
	if err != nil {
		s.fails(w, r, err)
		return
	}
	reply(w, out)
}

// harmless matches types that a browser may show. What else is opened there is downloaded.
var harmless = regexp.MustCompile(`^(image/(png|jpeg|gif|webp|avif|bmp)|audio/[a-z0-9+.-]+|video/[a-z0-9+.-]+)$`)

// learnMedia sends a picture or sound.
func (s *Server) learnMedia(w http.ResponseWriter, r *http.Request, c control.Caller) {
	m, data, err := s.Learning().Media(r.Context(), c, control.LearnMediaName{Name: r.PathValue("name")})
	if err != nil {
		s.fails(w, r, err)
		return
	}
	h := w.Header()
	if !harmless.MatchString(m.Type) {
		h.Set("Content-Disposition", "attachment")
	}
	h.Set("Content-Type", m.Type)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+m.Hash+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}
