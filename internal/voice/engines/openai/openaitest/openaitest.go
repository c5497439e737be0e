// Package openaitest is a stand-in for a speech engine with the HTTP interface of OpenAI (API
// reference, Audio).
package openaitest

import (
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pcm"
)

// Key is the key that the engine accepts.
const Key = "sk-test-0123456789"

// Rate is the rate of its speech, in Hz.
const Rate = 24000

// Server is an engine. Its fields may be changed until the first request.
type Server struct {
	URL string // base address
	// Transcript returns what was said, given samples at 16 kHz.
	Transcript func(samples []int16) string
	// Sound returns how a text is spoken at [Rate]; nil: a tone of 60 ms for each character.
	Sound func(text string) []int16
	// Intercept answers a request in place of the engine if it returns true; nil: never. The path
	// is /audio/transcriptions or /audio/speech.
	Intercept func(path string, w http.ResponseWriter, r *http.Request) bool
	// Other answers requests for other paths; nil: they are not found.
	Other http.Handler

	http *http.Server
	done chan struct{} // Serve has returned

	mu      sync.Mutex
	spoken  []string
	manners []engine.Manner
	forms   []map[string]string
}

// test is what [New] needs of a test.
type test interface {
	Cleanup(func())
	Fatal(...any)
}

// New starts an engine, which stops with the test.
func New(t test) *Server {
	s, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start starts an engine at an address. The caller must Close it.
func Start(address string) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + l.Addr().String() + "/v1", Sound: Tone, done: make(chan struct{}),
		Transcript: func([]int16) string { return "what is the weather today" }}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/audio/transcriptions", s.guard(s.transcribe))
	mux.HandleFunc("POST /v1/audio/speech", s.guard(s.speak))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if s.Other == nil {
			http.NotFound(w, r)
			return
		}
		s.Other.ServeHTTP(w, r)
	})
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // always http.ErrServerClosed after Close
	}()
	return s, nil
}

// Close breaks all connections and waits until the listener is closed.
func (s *Server) Close() {
	_ = s.http.Close() // it has no connections afterwards
	<-s.done
}

// Tone is a tone of 440 Hz.
func Tone(text string) []int16 {
	samples := make([]int16, len([]rune(text))*Rate*60/1000)
	for i := range samples {
		samples[i] = int16(8000 * math.Sin(2*math.Pi*440*float64(i)/Rate))
	}
	return samples
}

// Spoken returns the texts that were spoken.
func (s *Server) Spoken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.spoken...)
}

// Manners returns how they were spoken.
func (s *Server) Manners() []engine.Manner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]engine.Manner(nil), s.manners...)
}

// Forms returns the fields of the forms with speech.
func (s *Server) Forms() []map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]map[string]string(nil), s.forms...)
}

func (s *Server) guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.Intercept != nil && s.Intercept(strings.TrimPrefix(r.URL.Path, "/v1"), w, r) {
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+Key {
			Refuse(w, http.StatusUnauthorized, "Incorrect API key provided: "+
				strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "invalid_api_key")
			return
		}
		next(w, r)
	}
}

// Refuse writes an error.
func Refuse(w http.ResponseWriter, status int, message, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": message,
		"type": "invalid_request_error", "code": code}}) // the client has gone
}

func (s *Server) transcribe(w http.ResponseWriter, r *http.Request) {
	file, header, err := r.FormFile("file")
	if err != nil || header.Filename != "speech.wav" {
		Refuse(w, http.StatusBadRequest, "no file", "missing")
		return
	}
	defer file.Close()
	in, err := pcm.NewWAV(file, 16000)
	if err != nil {
		Refuse(w, http.StatusBadRequest, err.Error(), "format")
		return
	}
	var samples []int16
	buf := make([]int16, 4096)
	for {
		n, err := in.Read(buf)
		if samples = append(samples, buf[:n]...); err != nil {
			break
		}
	}
	fields := map[string]string{}
	for name, values := range r.MultipartForm.Value {
		fields[name] = values[0]
	}
	s.mu.Lock()
	s.forms = append(s.forms, fields)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"text": s.Transcript(samples),
		"usage": map[string]any{"type": "duration", "seconds": float64(len(samples)) / 16000}}) // the client has gone
}

func (s *Server) speak(w http.ResponseWriter, r *http.Request) {
	var a struct {
		Model, Input, Voice string
		Format              string `json:"response_format"`
		Speed               float64
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil || json.Unmarshal(body, &a) != nil || a.Model == "" || a.Input == "" || a.Voice == "" {
		Refuse(w, http.StatusBadRequest, "model, input and voice are needed", "missing")
		return
	}
	s.mu.Lock()
	s.spoken = append(s.spoken, a.Input)
	s.manners = append(s.manners, engine.Manner{Voice: a.Voice, Speed: a.Speed})
	s.mu.Unlock()
	samples := s.Sound(a.Input)
	if a.Format != "pcm" { // as servers without Opus do
		_ = pcm.WriteWAV(w, Rate, samples) // the client has gone
		return
	}
	raw := make([]byte, 0, 2*len(samples))
	for _, v := range samples {
		raw = append(raw, byte(v), byte(uint16(v)>>8))
	}
	flusher := w.(http.Flusher)
	for len(raw) > 0 { // in pieces of 100 ms, as fast as they are read
		n := min(len(raw), 2*Rate/10)
		if _, err := w.Write(raw[:n]); err != nil {
			return
		}
		flusher.Flush()
		raw = raw[n:]
	}
}

// Hang waits until the client has gone, a minute at most.
func Hang(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
	select {
	case <-r.Context().Done():
	case <-time.After(time.Minute):
	}
}
