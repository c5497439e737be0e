package openaitest

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/voice/pcm"
)

// Fault is a way to fail.
type Fault string

// The faults.
const (
	None         Fault = ""
	Unreachable  Fault = "refuse"  // nothing listens
	BadTLS       Fault = "bad TLS" // a server without it
	Unauthorized Fault = "401"     // the response repeats the key
	TooMany      Fault = "429"     // with Retry-After
	Failing      Fault = "500"
	HangBefore   Fault = "hang before" // no response
	HangAfter    Fault = "hang after"  // nothing after the header
	HangMiddle   Fault = "hang middle" // no more of the body
	CutFirst     Fault = "cut first"   // the connection ends after the first bytes
	CutMiddle    Fault = "cut middle"
	CutLast      Fault = "cut last"     // before the end of the response is certain
	WrongLength  Fault = "wrong length" // it ends before the length that was announced
	WrongGzip    Fault = "wrong gzip"
	HalfGzip     Fault = "half gzip"  // a header, and nothing after it
	SlowBytes    Fault = "slow bytes" // a byte a second
	Garbage      Fault = "garbage"    // a web page
	DoubleEnd    Fault = "double end" // the last chunk of the body twice
	EmptyText    Fault = "empty text" // or no sound
	LongText     Fault = "64 KiB text"
	HugeText     Fault = "2 MB text"
	EndlessSound Fault = "endless sound"
)

// Faults are all but None.
var Faults = []Fault{Unreachable, BadTLS, Unauthorized, TooMany, Failing, HangBefore, HangAfter, HangMiddle, CutFirst,
	CutMiddle, CutLast, WrongLength, WrongGzip, HalfGzip, SlowBytes, Garbage, DoubleEnd, EmptyText, LongText, HugeText,
	EndlessSound}

// NewFailing starts an engine that fails, at both stages.
func NewFailing(t test, f Fault) *Server {
	s := New(t)
	switch f {
	case Unreachable:
		s.Close()
	case BadTLS:
		s.URL = strings.Replace(s.URL, "http:", "https:", 1)
	}
	s.Intercept = func(path string, w http.ResponseWriter, r *http.Request) bool {
		return s.fails(f, path == "/audio/speech", w, r)
	}
	return s
}

// statuses are those of faults that refuse a request.
var statuses = map[Fault]int{Unauthorized: 401, TooMany: 429, Failing: 500}

// fails answers a request with a fault, and reports whether it did.
func (s *Server) fails(f Fault, speaks bool, w http.ResponseWriter, r *http.Request) bool {
	if status := statuses[f]; status != 0 {
		w.Header().Set("Retry-After", "7")
		Refuse(w, status, "no entry with "+r.Header.Get("Authorization"), "refused")
		return true
	}
	if f == HangBefore {
		Hang(r)
		return true
	}
	body, err := io.ReadAll(r.Body) // only then the server notices that the client has gone
	if err != nil {
		return true
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return s.alters(f, speaks, w, r)
}

// alters answers a request with another body, and reports whether it did.
func (s *Server) alters(f Fault, speaks bool, w http.ResponseWriter, r *http.Request) bool {
	a := &answer{w: w, r: r, body: []byte(`{"text":"` + s.Transcript(nil) + `"}`)}
	if speaks {
		var b bytes.Buffer
		_ = pcm.WriteWAV(&b, Rate, s.Sound("a sentence")) // into memory
		a.body = b.Bytes()
	}
	switch f {
	case HangAfter:
		a.sends(0)
		a.hang()
	case HangMiddle:
		a.sends(len(a.body) / 2)
		a.hang()
	case CutFirst:
		a.cut(8)
	case CutMiddle:
		a.cut(len(a.body) / 2)
	case CutLast:
		a.cut(len(a.body))
	case WrongLength:
		w.Header().Set("Content-Length", "1000000")
		a.cut(len(a.body))
	case WrongGzip:
		w.Header().Set("Content-Encoding", "gzip")
		a.sends(len(a.body))
	case HalfGzip:
		w.Header().Set("Content-Encoding", "gzip")
		a.body = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3} // RFC 1952, 2.3
		a.sends(len(a.body))
	case SlowBytes:
		a.slowly()
	case Garbage:
		a.body = []byte("<html>not found</html>")
		a.sends(len(a.body))
	case DoubleEnd:
		a.endTwice()
	default:
		return a.says(f, speaks)
	}
	return true
}

// answer is a response.
type answer struct {
	w    http.ResponseWriter
	r    *http.Request
	body []byte
}

// sends sends the first bytes of the body. The client may have gone.
func (a *answer) sends(n int) bool {
	_, err := a.w.Write(a.body[:n])
	a.w.(http.Flusher).Flush()
	return err == nil
}

func (a *answer) hang() { <-a.r.Context().Done() }

// cut ends the connection after the first bytes of the body.
func (a *answer) cut(n int) {
	a.sends(n)
	panic(http.ErrAbortHandler)
}

func (a *answer) slowly() {
	for _, b := range a.body {
		_, err := a.w.Write([]byte{b})
		a.w.(http.Flusher).Flush()
		if err != nil {
			return
		}
		select {
		case <-a.r.Context().Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// endTwice sends the whole body in one chunk, and two last chunks (RFC 9112, 7.1).
func (a *answer) endTwice() {
	conn, out, err := a.w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err) // HTTP/1.1 can
	}
	defer conn.Close()
	_, _ = out.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
	_, _ = out.WriteString(strconv.FormatInt(int64(len(a.body)), 16) + "\r\n" + string(a.body) + "\r\n0\r\n\r\n0\r\n\r\n")
	_ = out.Flush() // the client may have gone
}

// says answers with another text or another sound, and reports whether it did.
func (a *answer) says(f Fault, speaks bool) bool {
	text := map[Fault]string{LongText: strings.Repeat("x", 64<<10), HugeText: strings.Repeat("x", 2<<20)}[f]
	switch {
	case f == EmptyText && speaks:
		a.body = nil
	case !speaks && (f == EmptyText || text != ""):
		a.body = []byte(`{"text":"` + text + `"}`)
	case f == EndlessSound && speaks:
		sizes := []byte{0xff, 0xff, 0xff, 0xff} // not known
		copy(a.body[4:], sizes)
		copy(a.body[bytes.Index(a.body, []byte("data"))+4:], sizes)
		a.sends(len(a.body))
		for a.body = make([]byte, 64<<10); a.sends(len(a.body)); {
		}
		return true
	default:
		return false
	}
	a.sends(len(a.body))
	return true
}
