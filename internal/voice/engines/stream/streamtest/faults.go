package streamtest

import (
	"net/http"
	"time"
)

// Fault is a way to fail.
type Fault string

// The faults.
const (
	None         Fault = ""
	Refuse       Fault = "refuse" // nothing listens
	Unauthorized Fault = "401"
	Forbidden    Fault = "403"
	NotFound     Fault = "404"
	TooMany      Fault = "429" // with Retry-After
	Failing      Fault = "500"
	Overloaded   Fault = "503"         // with Retry-After
	HangBefore   Fault = "hang before" // no response to the request
	HangAfter    Fault = "hang after"  // nothing is read or sent after it
	HalfFrame    Fault = "half frame"  // the connection ends within a message
	Garbage      Fault = "garbage"     // a message that is not JSON
	BadFrame     Fault = "bad frame"   // bytes that are no frame
	CutFirst     Fault = "cut first"   // the connection ends after the first sound
	CutMiddle    Fault = "cut middle"  // after the third
	CutLast      Fault = "cut last"    // after the end of the sound
	SilentEnd    Fault = "silence after end"
	EmptyText    Fault = "empty text"
	HugeText     Fault = "2 MB text"
	LongText     Fault = "64 KiB text" // more than a transcript may have, less than a message
	DoubleEnd    Fault = "double end"  // the last text twice
	BusyClose    Fault = "busy close"  // a Close frame with code 1013
)

// Faults are all but None.
var Faults = []Fault{Refuse, Unauthorized, Forbidden, NotFound, TooMany, Failing, Overloaded, HangBefore, HangAfter,
	HalfFrame, Garbage, BadFrame, CutFirst, CutMiddle, CutLast, SilentEnd, EmptyText, HugeText, LongText, DoubleEnd,
	BusyClose}

// RetryAfter is how long TooMany and Overloaded ask to wait.
const RetryAfter = 7 * time.Second

// Bytes of frames (RFC 6455, 5.2).
var (
	halfFrame = []byte{0x81, 100, '{', '"'}    // a text of 100 bytes, of which 2 follow
	badFrame  = []byte{0xff, 0xff, 0x00, 0x00} // reserved bits and an unknown opcode
	busyFrame = []byte{0x88, 2, 0x03, 0xf5}    // Close with code 1013
)

// statuses are the HTTP statuses that refuse the upgrade.
var statuses = map[Fault]int{Unauthorized: 401, Forbidden: 403, NotFound: 404, TooMany: 429, Failing: 500,
	Overloaded: 503}

// refuses does what happens instead of the upgrade, and reports whether anything did.
func (f Fault) refuses(w http.ResponseWriter, r *http.Request) bool {
	if status := statuses[f]; status != 0 {
		if f == TooMany || f == Overloaded {
			w.Header().Set("Retry-After", "7")
		}
		// Some servers repeat what they were sent.
		http.Error(w, r.Header.Get("Authorization"), status)
		return true
	}
	if f == HangBefore {
		<-r.Context().Done()
		return true
	}
	return false
}

// interrupts does what happens after a number of messages with sound, and reports whether the
// connection has ended.
func (f Fault) interrupts(c *conn, messages int) bool {
	switch {
	case f == CutFirst && messages == 1, f == CutMiddle && messages == 3:
	case f == HalfFrame && messages == 1:
		_, _ = c.raw.Write(halfFrame)
	case f == BadFrame && messages == 1:
		_, _ = c.raw.Write(badFrame)
		_, _, _ = c.ws.Read(c.ctx) // what was sent meanwhile; a reset would overtake the frame
		return false
	case f == BusyClose && messages == 1:
		_, _ = c.raw.Write(busyFrame)
		return false
	case f == Garbage && messages == 1:
		c.send("<html>garbage</html>")
		return false
	default:
		return false
	}
	_ = c.raw.Close()
	return true
}

// ends does what happens instead of the last text, and reports whether anything did.
func (f Fault) ends(c *conn) bool {
	switch f {
	case CutLast:
		_ = c.raw.Close()
	case SilentEnd:
		_, _, _ = c.ws.Read(c.ctx)
	default:
		return false
	}
	return true
}
