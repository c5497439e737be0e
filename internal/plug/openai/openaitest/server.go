// Package openaitest is a chat API in the form of OpenAI's with scripted answers, for tests and
// demonstrations. It follows the published API (OpenAI API reference, Create chat completion): it
// validates requests as strictly as the original, and its answers have all fields of the
// original's. Deviations of other servers are scripted with [Raw], [Reply.Body] and the like.
package openaitest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxBody limits a request, in bytes. Pictures make requests large.
const maxBody = 64 << 20

// Server is a chat API on a loopback port. It is safe for concurrent use; the fields must be set
// before the first request.
type Server struct {
	// URL is the base_url: "http://127.0.0.1:…/v1".
	URL string
	// Key is the only accepted key. Empty accepts every request.
	Key string
	// Models are the existing models. Empty accepts every name.
	Models []string
	// NoModels answers requests for the list of models with 404.
	NoModels bool
	// OpenModels returns the list of models without a key too.
	OpenModels bool
	// Answer returns the reply when the script is used up. Nil answers "Hello there."
	Answer func(*Request) Reply

	http *http.Server
	done chan struct{} // Serve has returned

	mu       sync.Mutex
	script   []Reply
	requests []*Request
	arrived  chan struct{} // closed and replaced when a request arrives
}

// Request is a received request for an answer.
type Request struct {
	Header http.Header
	Query  string
	// Body is the JSON as it was sent, Chat the parsed form.
	Body []byte
	Chat Chat

	done         chan struct{}
	disconnected bool
}

// Done returns a channel that is closed when the request was served or its sender gave up.
func (r *Request) Done() <-chan struct{} { return r.done }

// Disconnected reports whether the client disconnected before the end of the reply. It waits for
// Done.
func (r *Request) Disconnected() bool {
	<-r.done
	return r.disconnected
}

// Start starts a server with a script. The caller must Close it.
func Start(script ...Reply) (*Server, error) { return StartWith(func(*Server) {}, script...) }

// StartWith is Start with fields that configure sets before the server accepts requests: clients
// may be other processes, which the race detector does not see waiting.
func StartWith(configure func(*Server), script ...Reply) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the chat API: %w", err)
	}
	s := &Server{
		URL:     "http://" + l.Addr().String() + "/v1",
		script:  script,
		done:    make(chan struct{}),
		arrived: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("GET /v1/models", s.listModels)
	mux.HandleFunc("GET /v1/models/{model...}", s.showModel)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, apiError{
			Message: fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.URL.Path), Type: "invalid_request_error",
		})
	})
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	configure(s)
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // always http.ErrServerClosed after Close
	}()
	return s, nil
}

// ServeHTTP answers requests for the API at another address.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.http.Handler.ServeHTTP(w, r) }

// Close breaks all connections and waits until the listener is closed.
func (s *Server) Close() {
	s.http.Close()
	<-s.done
}

// Script appends replies, one for each future request.
func (s *Server) Script(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, replies...)
}

// Requests returns the requests so far, in order of arrival.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Await waits for the nth request and returns it.
func (s *Server) Await(ctx context.Context, n int) (*Request, error) {
	for {
		s.mu.Lock()
		came := s.arrived
		if len(s.requests) >= n {
			defer s.mu.Unlock()
			return s.requests[n-1], nil
		}
		s.mu.Unlock()
		select {
		case <-came:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// record stores a request and returns its reply.
func (s *Server) record(r *Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	close(s.arrived)
	s.arrived = make(chan struct{})
	if len(s.script) > 0 {
		reply := s.script[0]
		s.script = s.script[1:]
		return reply
	}
	if s.Answer != nil {
		return s.Answer(r)
	}
	return Reply{Steps: []Step{Text("Hello"), Text(" there.")}}
}

// apiError is OpenAI's form of an error.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func fail(w http.ResponseWriter, status int, e apiError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]apiError{"error": e})
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	if !s.checkKey(w, r) {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
		fail(w, http.StatusBadRequest, apiError{Message: "you must provide a body of type application/json",
			Type: "invalid_request_error"})
		return
	}
	req := &Request{Header: r.Header.Clone(), Query: r.URL.RawQuery, Body: body, done: make(chan struct{})}
	bad := parse(body, &req.Chat)
	reply := s.record(req)
	defer func() {
		req.disconnected = req.disconnected || r.Context().Err() != nil
		close(req.done)
	}()
	switch {
	case bad != nil:
		fail(w, http.StatusBadRequest, *bad)
	case len(s.Models) > 0 && !slices.Contains(s.Models, req.Chat.Model):
		fail(w, http.StatusNotFound, apiError{
			Message: "The model `" + req.Chat.Model + "` does not exist or you do not have access to it.",
			Type:    "invalid_request_error", Code: new("model_not_found"),
		})
	default:
		req.disconnected = !reply.write(w, r, &req.Chat)
	}
}

// checkKey reports whether the key is valid, and writes the error otherwise.
func (s *Server) checkKey(w http.ResponseWriter, r *http.Request) bool {
	sent := r.Header.Get("Authorization")
	switch {
	case s.Key == "" || sent == "Bearer "+s.Key:
		return true
	case sent == "":
		fail(w, http.StatusUnauthorized, apiError{Message: "You didn't provide an API key.",
			Type: "invalid_request_error"})
	default:
		// The original repeats a part of the key too.
		fail(w, http.StatusUnauthorized, apiError{
			Message: "Incorrect API key provided: " + strings.TrimPrefix(sent, "Bearer ") + ".",
			Type:    "invalid_request_error", Code: new("invalid_api_key"),
		})
	}
	return false
}

type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (s *Server) listModels(w http.ResponseWriter, r *http.Request) {
	if s.NoModels {
		fail(w, http.StatusNotFound, apiError{Message: "Not found", Type: "invalid_request_error"})
		return
	}
	if !s.OpenModels && !s.checkKey(w, r) {
		return
	}
	data := []model{}
	for _, id := range s.Models {
		data = append(data, model{ID: id, Object: "model", Created: created, OwnedBy: "openaitest"})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data})
}

func (s *Server) showModel(w http.ResponseWriter, r *http.Request) {
	if !s.checkKey(w, r) {
		return
	}
	id := r.PathValue("model")
	if !slices.Contains(s.Models, id) {
		fail(w, http.StatusNotFound, apiError{
			Message: "The model " + strconv.Quote(id) + " does not exist", Type: "invalid_request_error",
			Param: new("model"), Code: new("model_not_found"),
		})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(model{ID: id, Object: "model", Created: created, OwnedBy: "openaitest"})
}
