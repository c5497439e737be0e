package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxEvent limits one event of a stream, in bytes, and thereby the memory that a stream needs. A
// usual event has 200 to 400 bytes; some servers send a whole answer or a whole call in one.
const maxEvent = 1 << 20

var errEventTooLong = errors.New("an event of the stream is longer than 1 MiB")

// doneMark ends a stream (OpenAI API reference, Create chat completion, stream).
var doneMark = []byte("[DONE]")

// events reads a stream of server-sent events (HTML Living Standard §9.2.6) as chat servers write
// them. It differs from the standard in three points:
//   - A line "error: …" is an event named error. llama.cpp sent such lines until late 2025
//     (ggml-org/llama.cpp, issue 16104 and pull request 16109).
//   - An event without the empty line after it counts at the end of the stream, and also when
//     another event begins and its data are complete.
//   - A carriage return alone does not end a line.
type events struct {
	r *bufio.Reader
	// data and name are the data and the type of the event so far.
	data []byte
	name []byte
	// lines is the number of lines in data.
	lines int
	// next is the first data line of the following event, if it was read already.
	next      []byte
	nextError bool
	hasNext   bool
	begun     bool
}

func newEvents(r *bufio.Reader) *events { return &events{r: r} }

// read returns the next event that has data. The data are valid until the next call. isError
// reports whether the server marked the event as an error. The error is io.EOF at the end of the
// stream.
func (e *events) read() (data []byte, isError bool, err error) {
	e.data, e.name, e.lines = e.data[:0], e.name[:0], 0
	if e.hasNext {
		e.data, e.lines, e.hasNext = append(e.data, e.next...), 1, false
		if e.nextError {
			e.name = append(e.name, "error"...)
		}
	}
	for {
		line, err := e.line()
		if err != nil {
			if err == io.EOF && len(bytes.TrimSpace(e.data)) > 0 {
				return e.data, string(e.name) == "error", nil
			}
			return nil, false, err
		}
		if len(line) == 0 {
			if len(bytes.TrimSpace(e.data)) > 0 {
				return e.data, string(e.name) == "error", nil
			}
			e.data, e.name, e.lines = e.data[:0], e.name[:0], 0
			continue
		}
		ready, err := e.field(line)
		if err != nil {
			return nil, false, err
		}
		if ready {
			return e.data, string(e.name) == "error", nil
		}
	}
}

// field adds a line to the event. ready reports whether the event before the line was complete.
func (e *events) field(line []byte) (ready bool, err error) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.name = append(e.name[:0], value...)
	case "data", "error":
		isError := string(name) == "error"
		// Checked only once per event, because it scans all of the data.
		if e.lines == 1 && json.Valid(e.data) {
			e.next, e.nextError, e.hasNext = append(e.next[:0], value...), isError, true
			return true, nil
		}
		if isError {
			e.name = append(e.name[:0], "error"...)
		}
		if len(e.data)+len(value) > maxEvent {
			return false, errEventTooLong
		}
		if e.lines > 0 {
			e.data = append(e.data, '\n')
		}
		e.data, e.lines = append(e.data, value...), e.lines+1
	}
	return false, nil
}

// line returns the next line without its end. It is valid until the next call.
func (e *events) line() ([]byte, error) {
	line, err := e.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		line, err = e.longLine(line)
	}
	if err != nil && (err != io.EOF || len(line) == 0) {
		return nil, err
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if !e.begun {
		e.begun = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return line, nil
}

// longLine reads the rest of a line that does not fit in the reader's buffer.
func (e *events) longLine(start []byte) ([]byte, error) {
	line := bytes.Clone(start)
	for {
		part, err := e.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxEvent+len("data: \r\n") {
			return nil, errEventTooLong
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}
