package realtimetest

import (
	"net/http"
	"strings"
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
	KeyEvent     Fault = "key event"   // an error event for the key, and a Close frame
	QuotaEvent   Fault = "quota event"
	HalfFrame    Fault = "half frame" // the connection ends within a message
	Garbage      Fault = "garbage"    // a message that is not JSON
	BadFrame     Fault = "bad frame"  // bytes that are no frame
	BadSound     Fault = "bad sound"  // sound that is no base64
	OddSound     Fault = "odd sound"  // sound that ends within a sample
	WrongItem    Fault = "wrong item" // results of an item that is not the client's
	CutFirst     Fault = "cut first"  // the connection ends after the first result
	CutMiddle    Fault = "cut middle" // within the results
	CutLast      Fault = "cut last"   // before the end of the results
	Silence      Fault = "silence"    // no result, for ever
	Endless      Fault = "endless"    // sound without end
	DoubleEnd    Fault = "double end" // the last result twice
	Slow         Fault = "slow"       // one byte a second
	EmptyText    Fault = "empty text"
	HugeText     Fault = "2 MB text"
	LongText     Fault = "64 KiB text" // more than a transcript may have, less than a message
	FailedText   Fault = "failed text" // the service could not transcribe
	FailedSound  Fault = "failed sound"
)

// Faults are all but None.
var Faults = []Fault{Refuse, Unauthorized, Forbidden, NotFound, TooMany, Failing, Overloaded, HangBefore, HangAfter,
	KeyEvent, QuotaEvent, HalfFrame, Garbage, BadFrame, BadSound, OddSound, WrongItem, CutFirst, CutMiddle, CutLast,
	Silence, Endless, DoubleEnd, Slow, EmptyText, HugeText, LongText, FailedText, FailedSound}

// RetryAfter is how long TooMany and Overloaded ask to wait.
const RetryAfter = 7 * time.Second

// Bytes of frames (RFC 6455, 5.2).
var (
	halfFrame = []byte{0x81, 100, '{', '"'}       // a text of 100 bytes, of which 2 follow
	badFrame  = []byte{0xff, 0x05, 0, 0, 0, 0, 0} // reserved bits and an unknown opcode
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

// begins does what happens in place of the session, and reports whether anything did.
func (c *conn) begins() bool {
	code := map[Fault]string{KeyEvent: "invalid_api_key", QuotaEvent: "insufficient_quota"}[c.fault]
	if code == "" {
		return false
	}
	c.fail(code, "")
	_ = c.ws.Close(3000, "")
	return true
}

// interrupts does what happens in place of the n-th result, and reports whether the connection has
// ended.
func (c *conn) interrupts(n int) bool {
	switch {
	case c.fault == CutFirst && n == 1, c.fault == CutMiddle && n == 3:
	case c.fault == HalfFrame && n == 1:
		_, _ = c.raw.Write(halfFrame)
	case c.fault == BadFrame && n == 1:
		_, _ = c.raw.Write(badFrame)
		<-c.ctx.Done() // a reset would overtake the frame
		return true
	case c.fault == Garbage && n == 1:
		c.write([]byte("<html>garbage</html>"))
		return false
	case c.fault == Slow && n == 1:
		for range 60 {
			if _, err := c.raw.Write([]byte{0x81}); err != nil || !c.wait(time.Second) {
				return true
			}
		}
	default:
		return false
	}
	_ = c.raw.Close()
	return true
}

// last does what happens in place of the end of the results, and reports whether anything did.
func (c *conn) last() bool {
	switch c.fault {
	case CutLast:
		_ = c.raw.Close()
	case Silence:
		<-c.ctx.Done()
	default:
		return false
	}
	return true
}

// text returns a transcript with the fault.
func (f Fault) text(text string) string {
	switch f {
	case EmptyText:
		return ""
	case HugeText:
		return strings.Repeat("x", 2<<20)
	case LongText:
		return strings.Repeat("x", 64<<10)
	}
	return text
}
