package stdio

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

// event is one server-sent event.
type event struct {
	name string
	data []byte
	huge bool // its data were too large, and are not here
}

// events reads server-sent events, of one stream or of several that continue each
// other.
type events struct {
	r *bufio.Reader
	// last is the id of the newest event, and retry how long to wait before coming
	// back; empty and 0 if the server said nothing.
	last  string
	retry time.Duration
}

// maxRetry bounds how long the server can make us wait.
const maxRetry = 5 * time.Second

func newEvents(r io.Reader) *events {
	e := &events{}
	e.from(r)
	return e
}

// from goes on with another stream.
func (e *events) from(r io.Reader) { e.r = bufio.NewReader(r) }

// next is the next event, also if it has no data. One that broke off is none.
func (e *events) next() (event, error) {
	var out event
	begun, lines, id := false, 0, e.last
	for {
		line, huge, err := readLine(e.r, maxMessage)
		if err != nil {
			return event{}, err
		}
		if huge {
			out.huge, begun = true, true
			continue
		}
		if len(line) == 0 {
			if begun {
				e.last = id
				return out, nil
			}
			continue
		}
		key, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(key) {
		case "data":
			if lines++; lines > 1 {
				out.data = append(out.data, '\n')
			}
			out.data = append(out.data, value...)
			if len(out.data) > maxMessage {
				out.huge, out.data = true, nil
			}
			begun = true
		case "event":
			out.name, begun = string(value), true
		case "id":
			begun = true
			if !bytes.ContainsRune(value, 0) && len(value) < 1000 {
				id = string(value)
			}
		case "retry":
			begun = true
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = min(time.Duration(ms)*time.Millisecond, maxRetry)
			}
		}
	}
}
