package ankiconnect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"patchbay/internal/observe"
)

// maxBody limits a request: a picture or sound of 16 MiB in base64, with room for others. It is
// held in memory.
const maxBody = 48 << 20

// Limits of requests of nobody who is known yet.
const (
	maxDenied = 4 << 10 // bytes of one whose origin is not allowed: it asks for permission
	smallBody = 1 << 20 // bytes; larger ones are
	maxLarge  = 4       // at once
)

// Texts that clients know (plugin/__init__.py, handler).
const (
	textKey         = "valid api key must be provided"
	textUnsupported = "unsupported action"
)

// ServeHTTP answers a request of a client, or of a browser that asks whether a page may make one.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if !s.IsKnownHost(r.Host) {
		s.refuse(w, r, "host", http.StatusForbidden, "this host name is not allowed (setting mcp.hosts)")
		return
	}
	allowed := s.allowOrigin(h, r.Header.Get("Origin"))
	switch r.Method {
	case http.MethodOptions: // what browsers ask first (plugin/web.py, handlerWrapper)
		if r.Header.Get("Access-Control-Request-Private-Network") == "true" && allowed {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
		h.Set("Access-Control-Allow-Methods", "POST, GET, OPTIONS")
		w.WriteHeader(http.StatusOK)
	case http.MethodGet, http.MethodHead:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte("AnkiConnect v." + strconv.Itoa(Version))) //nolint:errcheck // the client has disconnected
	case http.MethodPost:
		s.post(w, r, allowed)
	default:
		h.Set("Allow", "POST, GET, OPTIONS")
		s.refuse(w, r, "method", http.StatusMethodNotAllowed, "this address takes POST")
	}
}

// allowOrigin sets the headers by which a browser lets a page read the answer, and reports whether
// it may (plugin/web.py, allowOrigin). A request without an origin is that of a program.
func (s *Server) allowOrigin(h http.Header, origin string) bool {
	h.Set("Access-Control-Allow-Headers", "Authorization, *") // the star does not include the former
	h.Add("Vary", "Origin")
	switch {
	case slices.Contains(s.Origins, "*"):
		h.Set("Access-Control-Allow-Origin", "*")
		return true
	case origin == "":
		h.Set("Access-Control-Allow-Origin", localOrigin)
		return true
	case slices.Contains(s.Origins, origin) || slices.Contains(s.Origins, localOrigin) && isLocal(origin):
		h.Set("Access-Control-Allow-Origin", origin)
		return true
	}
	h.Set("Access-Control-Allow-Origin", localOrigin)
	return false
}

// localOrigin stands for pages and extensions of this machine.
const localOrigin = "http://localhost"

// isLocal reports whether an origin is a page of this machine, or an extension of a browser.
func isLocal(origin string) bool {
	for _, of := range []string{"http://127.0.0.1", "https://127.0.0.1", "http://localhost", "https://localhost"} {
		if origin == of || strings.HasPrefix(origin, of+":") {
			return true
		}
	}
	for _, of := range []string{"chrome-extension://", "moz-extension://", "safari-web-extension://"} {
		if strings.HasPrefix(origin, of) {
			return true
		}
	}
	return false
}

// refuse answers with an error in the form of the API and logs it, without what was sent.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, reason string, status int, text string) {
	s.logRefusal(r, reason)
	w.WriteHeader(status)
	w.Write(errorAnswer(text)) //nolint:errcheck // the client has disconnected
}

// logRefusal counts and logs that a request was refused, or a part of it.
func (s *Server) logRefusal(r *http.Request, reason string) {
	s.count("", reason)
	s.Logger.WarnContext(r.Context(), "a request of a program for Anki was refused", "channel", Channel, "cause", reason,
		"address", s.Address(r), "host", r.Host, "origin", r.Header.Get("Origin"))
}

// post answers an action. Whoever shows a key in a header is known, or refused, before the body is
// read.
func (s *Server) post(w http.ResponseWriter, r *http.Request, allowed bool) {
	v := &visitor{}
	if allowed {
		var ok bool
		if v, ok = s.early(w, r); !ok {
			return
		}
	}
	defer func() { v.leave() }()
	body, free, ok := s.read(w, r, allowed, v.known())
	defer free()
	if !ok {
		return
	}
	req, err := parseRequest(body)
	if err == nil && req.Action == actionPermission {
		s.count(actionPermission, "ok")
		if !allowed { // the page may read that it is denied
			w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		}
		needsKey := s.keyWithout(r) == ""
		w.Write(req.answer(permission(allowed, needsKey))) //nolint:errcheck // the client has disconnected
		return
	}
	if !allowed {
		s.refuseOrigin(w, r)
		return
	}
	if err != nil {
		s.count("", "form")
		w.Write(errorAnswer(err.Error())) //nolint:errcheck // the client has disconnected
		return
	}
	if !v.known() || req.Key != "" && req.Key != v.secret { // what was sent counts more than a header
		v.leave()
		if v, ok = s.enter(w, r, cmp.Or(req.Key, s.keyWithout(r))); !ok {
			return
		}
	}
	free() // the number of requests of a key is limited, too
	s.answer(w, r, v, req)
}

func (s *Server) refuseOrigin(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, "origin", http.StatusForbidden, "this origin is not allowed (setting learn.anki_origins)")
}

// read reads a body. free gives back its place among the large ones, and may be called several
// times. It answers a refused request.
func (s *Server) read(w http.ResponseWriter, r *http.Request, allowed, known bool) (body []byte, free func(),
	ok bool) {
	free = func() {}
	most := int64(maxBody)
	if !allowed {
		most = maxDenied
	}
	in := http.MaxBytesReader(w, r.Body, most)
	var b bytes.Buffer
	_, err := b.ReadFrom(io.LimitReader(in, smallBody+1))
	if err == nil && b.Len() > smallBody {
		if !known {
			select {
			case s.large <- struct{}{}:
				free = sync.OnceFunc(func() { <-s.large })
			default:
				w.Header().Set("Retry-After", "10")
				s.refuse(w, r, "busy", http.StatusTooManyRequests,
					"too many large requests at once; try again later, or send the key in the header Authorization")
				return nil, free, false
			}
		}
		_, err = b.ReadFrom(in)
	}
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large && !allowed:
		s.refuseOrigin(w, r)
	case large:
		s.refuse(w, r, "size", http.StatusRequestEntityTooLarge,
			"the request is larger than "+strconv.Itoa(maxBody>>20)+" MiB")
	}
	return b.Bytes(), free, err == nil // otherwise the client has disconnected
}

// permission is the result of requestPermission: a page that may call still needs a key.
func permission(allowed, needsKey bool) any {
	if !allowed {
		return map[string]any{"permission": "denied"}
	}
	return map[string]any{"permission": "granted", "requireApikey": needsKey, "version": Version}
}

// keyWithout returns the key that a request uses which has none, see [WithKey]; empty: it needs
// one. A web page gets it only if its own origin is allowed: "http://localhost" stands for every
// page and extension of this machine.
func (s *Server) keyWithout(r *http.Request) string {
	origin := r.Header.Get("Origin")
	if origin != "" && (origin == localOrigin || !slices.Contains(s.Origins, origin)) {
		return ""
	}
	key, _ := r.Context().Value(defaultKey{}).(string)
	return key
}

// answer does what a request asks for, with the rights of its key.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, v *visitor, req *request) {
	all := &work{root: v.ctx, keys: map[string]*exchange{}}
	x := s.exchange(r, v, all)
	all.keys[v.secret] = x
	defer all.leave()
	w.Write(x.run(v.ctx, req, 0)) //nolint:errcheck // the client has disconnected
}

// exchange returns the exchange of somebody who makes a request, or a part of it.
func (s *Server) exchange(r *http.Request, v *visitor, all *work) *exchange {
	x := &exchange{server: s, from: r, visitor: v, work: all, caller: v.caller, profile: v.who.Person.Name,
		points: s.Control.Points, counted: s.Control.Learning(), request: observe.RequestID(r.Context()),
		keyless: s.keyWithout(r) != ""}
	x.learning = x.counted.Counted()
	return x
}

// errorAnswer is the answer of every version to a request that failed (plugin/web.py,
// format_exception_reply).
func errorAnswer(text string) []byte {
	out, err := json.Marshal(map[string]any{"result": nil, "error": text})
	if err != nil {
		return []byte(`{"result":null,"error":"internal error"}`) // only values that are no texts fail
	}
	return out
}
