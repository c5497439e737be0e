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
	name     string
	data     []byte
	tooLarge bool // the data exceeded the limit and were dropped
}

// eventReader reads server-sent events (HTML standard, "Server-sent events") of one stream, or of
// several that resume each other.
type eventReader struct {
	r *bufio.Reader
	// lastID is the id of the newest event, and retry the reconnect delay; empty and 0 if the
	// server sent none.
	lastID string
	retry  time.Duration
}

// maxRetry limits the reconnect delay that a server may request.
const maxRetry = 5 * time.Second

func newEventReader(r io.Reader) *eventReader {
	e := &eventReader{}
	e.reset(r)
	return e
}

// reset continues with another stream.
func (e *eventReader) reset(r io.Reader) { e.r = bufio.NewReader(r) }

// next returns the next event, even without data. It drops an incomplete one.
func (e *eventReader) next() (event, error) {
	var out event
	begun, lines, id := false, 0, e.lastID
	for {
		line, tooLarge, err := readLine(e.r, maxAnswer)
		if err != nil {
			return event{}, err
		}
		if tooLarge {
			out.tooLarge, begun = true, true
			continue
		}
		if len(line) == 0 {
			if begun {
				e.lastID = id
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
			if len(out.data) > maxAnswer {
				out.tooLarge, out.data = true, nil
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
