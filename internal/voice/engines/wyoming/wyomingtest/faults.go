package wyomingtest

import (
	"io"
	"net"
	"strings"
	"time"
)

// Fault is a way to fail.
type Fault string

// The faults.
const (
	None         Fault = ""
	Refuse       Fault = "refuse"     // nothing listens
	Hang         Fault = "hang"       // nothing is read or sent after the first event
	HalfEvent    Fault = "half event" // the connection ends within an event
	Garbage      Fault = "garbage"    // a web page
	TLS          Fault = "tls"        // a server that expects TLS refuses
	WrongLength  Fault = "wrong length"
	HugeLength   Fault = "huge length"
	WrongData    Fault = "wrong data"
	LongLine     Fault = "long line"    // a line without end
	ErrorEvent   Fault = "error event"  // with the text in it
	CutFirst     Fault = "cut first"    // the connection ends after the first sound
	CutMiddle    Fault = "cut middle"   // after the third
	CutLast      Fault = "cut last"     // after the end of the sound
	SilentEnd    Fault = "silent end"   // nothing comes after the sound
	SlowBytes    Fault = "slow bytes"   // an event byte by byte, which takes minutes
	EndlessSound Fault = "endless"      // sound without end
	WrongFormat  Fault = "wrong format" // sound of 32 bits
	EmptyText    Fault = "empty text"   // or no sound
	HugeText     Fault = "2 MB text"
	LongText     Fault = "64 KiB text" // more than a transcript may have, less than an event
	DoubleEnd    Fault = "double end"
)

// Faults are all but None.
var Faults = []Fault{Refuse, Hang, HalfEvent, Garbage, TLS, WrongLength, HugeLength, WrongData, LongLine,
	ErrorEvent, CutFirst, CutMiddle, CutLast, SilentEnd, SlowBytes, EndlessSound, WrongFormat, EmptyText, HugeText,
	LongText, DoubleEnd}

// last is the place after all sound.
const last = -1

// wrong are bytes that are no event.
var wrong = map[Fault]string{
	HalfEvent:   `{"type":"transcript","data_length":100}` + "\n" + `{"text"`,
	Garbage:     "HTTP/1.1 400 Bad Request\r\n\r\n<html>",
	TLS:         "\x15\x03\x01\x00\x02\x02\x46", // an alert: protocol version (RFC 8446, 6)
	WrongLength: `{"type":"transcript","data_length":-5}` + "\n",
	HugeLength:  `{"type":"transcript","data_length":99999999}` + "\n",
	WrongData: `{"type":"transcript","data_length":4}` + "\n" + `[12]` +
		`{"type":"audio-chunk","data":7}` + "\n" + `{"type":"info","data":[]}` + "\n",
}

// fails does what happens at a place: after so many events with sound, or [last]. It reports
// whether the connection has ended.
func (c *conn) fails(place int) bool {
	f := c.s.opt.Fault
	if c.s.opt.Stage != c.got.Stage {
		return false
	}
	begin := place == 0 || c.got.Stage == Listen && place == 1
	switch {
	case f == Hang && begin, f == SilentEnd && place == last:
		_, _ = io.Copy(io.Discard, c.r) // until the client has gone
	case wrong[f] != "" && begin:
		_, _ = io.WriteString(c, wrong[f]) // the client may have gone
		if f == HalfEvent || f == TLS {
			_ = c.Conn.(*net.TCPConn).CloseWrite() // the client may have gone
		}
		_, _ = io.Copy(io.Discard, c.r) // a reset would overtake what was written
	case f == LongLine && begin:
		for piece := strings.Repeat("x", 64<<10); ; {
			if _, err := io.WriteString(c, piece); err != nil {
				break
			}
		}
	case f == ErrorEvent && begin:
		c.send("error", map[string]any{"text": "cannot say " + c.got.Text, "code": "VoiceNotFoundError"}, nil)
		_, _ = io.Copy(io.Discard, c.r)
	case f == SlowBytes && begin:
		for _, b := range []byte(`{"type":"transcript"}`) {
			if _, err := c.Write([]byte{b}); err != nil {
				break
			}
			select {
			case <-c.s.stop:
			case <-time.After(time.Second):
			}
		}
	case f == EndlessSound && place == 1 && c.got.Stage == Speak:
		for c.send("audio-chunk", map[string]any{"rate": c.s.opt.Rate, "width": 2, "channels": 1}, make([]byte, 64<<10)) {
		}
	case f == CutFirst && place == 1, f == CutMiddle && place == 3, f == CutLast && place == last:
	case f == CutLast && begin && c.got.Stage == Describe:
	default:
		return false
	}
	return true
}

// altered returns the transcript that a fault has.
func (c *conn) altered(text string) string {
	if c.s.opt.Stage != Listen {
		return text
	}
	switch c.s.opt.Fault {
	case EmptyText:
		return ""
	case HugeText:
		return strings.Repeat("x", 2<<20)
	case LongText:
		return strings.Repeat("x", 64<<10)
	}
	return text
}
