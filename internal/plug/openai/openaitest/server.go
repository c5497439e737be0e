// Package openaitest is a chat API of OpenAI's kind whose answers are written in
// advance, for tests and demonstrations. It keeps to the published API: it is
// as strict about requests as the original is, and its answers have all the
// fields of the original's. What other servers do differently is scripted with
// [Raw], [Reply.Body] and the like.
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

// maxBody bounds a request; pictures make them large.
const maxBody = 64 << 20

// Server is a chat API on a loopback port. It is safe for concurrent use; the
// fields are to be set before the first request.
type Server struct {
	// URL is the base_url: "http://127.0.0.1:…/v1".
	URL string
	// Key is the only key that is accepted; empty accepts everybody.
	Key string
	// Models are those that exist; empty means that any name is good.
	Models []string
	// NoModels answers requests for the list of models with 404.
	NoModels bool
	// OpenModels shows the list of models to those without a key too.
	OpenModels bool
	// Answer makes the reply when the script is used up. Nil says "Hello there."
	Answer func(*Request) Reply

	http *http.Server
	done chan struct{} // Serve has returned

	mu       sync.Mutex
	script   []Reply
	requests []*Request
	arrived  chan struct{} // closed and replaced when a request comes
}

// Request is a request for an answer, as it came.
type Request struct {
	Header http.Header
	Query  string
	// Body is the JSON as it was sent, Chat what it says.
	Body []byte
	Chat Chat

	done         chan struct{}
	disconnected bool
}

// Done is closed when the request was served, or given up by its sender.
func (r *Request) Done() <-chan struct{} { return r.done }

// Disconnected reports whether the sender went away before the reply was at its end. It
// is to be asked after Done.
func (r *Request) Disconnected() bool {
	<-r.done
	return r.disconnected
}

// Start makes a server and has it listen. The caller has to Close it.
func Start(script ...Reply) (*Server, error) {
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
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // always http.ErrServerClosed after Close
	}()
	return s, nil
}

// Close breaks all connections and waits for the listener to be gone.
func (s *Server) Close() {
	s.http.Close()
	<-s.done
}

// Script appends replies, one for each request to come.
func (s *Server) Script(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, replies...)
}

// Requests are those that came so far, in the order in which they came.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Await waits until n requests have come and returns the nth.
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

// record remembers a request and finds its reply.
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

// apiError is the published form of an error.
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

// checkKey checks the key.
func (s *Server) checkKey(w http.ResponseWriter, r *http.Request) bool {
	sent := r.Header.Get("Authorization")
	switch {
	case s.Key == "" || sent == "Bearer "+s.Key:
		return true
	case sent == "":
		fail(w, http.StatusUnauthorized, apiError{Message: "You didn't provide an API key.",
			Type: "invalid_request_error"})
	default:
		// The original shows a part of the key too.
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
