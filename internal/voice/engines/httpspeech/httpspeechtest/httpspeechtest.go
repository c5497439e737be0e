// Package httpspeechtest is a stand-in for services that answer a request with a sound, such as
// Piper's HTTP server and GPT-SoVITS. It can fail in many ways.
package httpspeechtest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/porttest"
	"patchbay/internal/voice/pcm"
)

// Fault is a way to fail.
type Fault string

// The faults.
const (
	None         Fault = ""
	Refuse       Fault = "refuse" // nothing listens
	TLS          Fault = "tls"    // a self-signed certificate
	Unauthorized Fault = "401"    // the response repeats the key and the text
	TooMany      Fault = "429"    // with Retry-After
	Rejected     Fault = "400"    // as GPT-SoVITS
	Failing      Fault = "500"
	Overloaded   Fault = "503"
	Redirect     Fault = "redirect"
	HangBefore   Fault = "hang before" // no response
	HangAfter    Fault = "hang after"  // no sound after the header
	HangMiddle   Fault = "hang middle" // no more of it
	SlowBytes    Fault = "slow bytes"  // a byte a second
	CutFirst     Fault = "cut first"   // the connection ends after the first bytes
	CutMiddle    Fault = "cut middle"
	WrongLength  Fault = "wrong length" // it ends before the length that was announced
	WrongGzip    Fault = "wrong gzip"
	Garbage      Fault = "garbage"    // a web page
	JSONError    Fault = "json error" // an error with status 200
	Empty        Fault = "empty"
	EndlessSound Fault = "endless"
	Burst        Fault = "burst" // all sound at once
)

// Faults are all but None.
var Faults = []Fault{Refuse, TLS, Unauthorized, TooMany, Rejected, Failing, Overloaded, Redirect, HangBefore, HangAfter,
	HangMiddle, SlowBytes, CutFirst, CutMiddle, WrongLength, WrongGzip, Garbage, JSONError, Empty, EndlessSound, Burst}

// RetryAfter is how long TooMany and Overloaded ask to wait.
const RetryAfter = 7 * time.Second

// Rate is the rate of its speech, in Hz.
const Rate = 22050

// Options are the script.
type Options struct {
	// Sound returns how a text is spoken at Rate; nil: a tone of 60 ms for each character.
	Sound func(text string) []int16
	PCM   bool   // without a header
	File  []byte // is sent instead, whatever the text
	Key   string // the expected bearer token; empty: none
	Fault Fault
}

// Request is what a client sent.
type Request struct {
	Method, Path, Query, Type, Body string
	Header                          http.Header `json:"-"`
}

// Server is a service. It takes the text from the query, a form, JSON or the body. It is safe for
// concurrent use.
type Server struct {
	URL string

	opt      Options
	mu       sync.Mutex
	requests []Request
}

// New starts a service that ends with the test.
func New(t testing.TB, o Options) *Server {
	if o.Sound == nil {
		o.Sound = tone
	}
	s := &Server{opt: o}
	h := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	if o.Fault == TLS {
		h.Config.ErrorLog = nil
		h.StartTLS()
	} else {
		h.Start()
	}
	s.URL = h.URL
	if o.Fault == Refuse {
		s.URL = "http://" + porttest.Refused(t)
	}
	t.Cleanup(h.Close)
	return s
}

func tone(text string) []int16 {
	samples := make([]int16, len([]rune(text))*Rate*60/1000)
	for i := range samples {
		samples[i] = int16(8000 * math.Sin(2*math.Pi*440*float64(i)/Rate))
	}
	return samples
}

// Requests returns what clients sent.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"),
		string(body), r.Header.Clone()})
	s.mu.Unlock()
	if s.opt.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.opt.Key {
		http.Error(w, "wrong key", http.StatusUnauthorized)
		return
	}
	text := r.URL.Query().Get("text")
	var a struct{ Text string }
	if json.Unmarshal(body, &a) == nil && a.Text != "" {
		text = a.Text
	}
	if s.opt.Fault.refuses(w, r, text) {
		return
	}
	s.sound(w, r, text)
}

// sound answers with a sound.
func (s *Server) sound(w http.ResponseWriter, r *http.Request, text string) {
	sound := bytes.NewBuffer(nil)
	switch samples := s.opt.Sound(text); {
	case s.opt.File != nil:
		sound.Write(s.opt.File)
	case s.opt.PCM:
		for _, v := range samples {
			_ = binary.Write(sound, binary.LittleEndian, v) // into memory
		}
	default:
		_ = pcm.WriteWAV(sound, Rate, samples) // into memory
	}
	if b := sound.Bytes(); s.opt.Fault == EndlessSound {
		sizes := []byte{0xff, 0xff, 0xff, 0xff} // not known
		copy(b[4:], sizes)
		copy(b[bytes.Index(b, []byte("data"))+4:], sizes)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	first, rest := sound.Bytes()[:sound.Len()/4], sound.Bytes()[sound.Len()/4:]
	if s.opt.Fault == CutFirst {
		first, rest = sound.Bytes()[:6], nil
	}
	send := func(b []byte) bool {
		_, err := w.Write(b)
		w.(http.Flusher).Flush()
		return err == nil
	}
	if s.opt.Fault.interrupts(w, r, send) || !send(first) {
		return
	}
	switch s.opt.Fault {
	case HangMiddle:
		<-r.Context().Done()
		return
	case CutFirst, CutMiddle:
		panic(http.ErrAbortHandler)
	case EndlessSound:
		for send(make([]byte, 64<<10)) {
		}
		return
	}
	send(rest)
}

// refuses answers instead of a sound, and reports whether it did.
func (f Fault) refuses(w http.ResponseWriter, r *http.Request, text string) bool {
	status := map[Fault]int{Unauthorized: 401, TooMany: 429, Rejected: 400, Failing: 500, Overloaded: 503,
		Redirect: 302}[f]
	switch {
	case status != 0:
		w.Header().Set("Location", "/elsewhere")
		if f == TooMany || f == Overloaded {
			w.Header().Set("Retry-After", "7")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"message": fmt.Sprintf("cannot say %s with %s", text,
			r.Header.Get("Authorization"))}) // the client has gone
	case f == HangBefore:
		<-r.Context().Done()
	default:
		return false
	}
	return true
}

// interrupts answers instead of the sound, and reports whether it did.
func (f Fault) interrupts(w http.ResponseWriter, r *http.Request, send func([]byte) bool) bool {
	switch f {
	case HangAfter:
		send(nil)
		<-r.Context().Done()
	case SlowBytes:
		for _, b := range []byte("RIFF\xff\xff\xff\xffWAVE") {
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
			}
			if !send([]byte{b}) {
				break
			}
		}
	case WrongLength:
		w.Header().Set("Content-Length", "100000")
		send([]byte("RIFF\xff\xff\xff\xffWAVE"))
		panic(http.ErrAbortHandler)
	case WrongGzip:
		w.Header().Set("Content-Encoding", "gzip")
		send([]byte("RIFF\xff\xff\xff\xffWAVE"))
	case Garbage:
		send([]byte("<html>not found</html>"))
	case JSONError:
		w.Header().Set("Content-Type", "application/json")
		send([]byte(`{"error":"no voice"}`))
	case Empty:
	default:
		return false
	}
	return true
}
