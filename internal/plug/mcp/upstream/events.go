package upstream

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

const (
	// headKept and tailKept are what is kept of a message that is too large, to
	// find out whose answer it is.
	headKept = 256
	tailKept = 256
)

// event is one server-sent event, or one line of a command's output.
type event struct {
	name string
	data []byte
	// huge says that the data were larger than the limit; head and tail are what
	// is left of them.
	huge       bool
	head, tail []byte
	// id and retry are the newest of the stream, if it has any.
	id    string
	retry time.Duration
}

// piece takes bytes in and keeps at most limit of them, or else the first and
// the last.
type piece struct {
	limit      int
	data       []byte
	head, tail []byte
	huge       bool
}

func (p *piece) add(b []byte) {
	if !p.huge && len(p.data)+len(b) <= p.limit {
		p.data = append(p.data, b...)
		return
	}
	if !p.huge {
		p.huge = true
		p.head = append([]byte(nil), p.data[:min(len(p.data), headKept)]...)
		p.tail = append([]byte(nil), p.data[max(0, len(p.data)-tailKept):]...)
		p.data = nil
	}
	if room := headKept - len(p.head); room > 0 {
		p.head = append(p.head, b[:min(room, len(b))]...)
	}
	p.tail = append(p.tail, b[max(0, len(b)-tailKept):]...)
	p.tail = p.tail[max(0, len(p.tail)-tailKept):]
}

// events reads a stream of server-sent events. It keeps to the standard, except
// that a carriage return alone does not end a line, and that an event without
// the empty line after it counts at the end of the stream.
type events struct {
	r     *bufio.Reader
	limit int
	id    string
	retry time.Duration
	begun bool
}

func newEvents(r io.Reader, limit int) *events {
	return &events{r: bufio.NewReader(r), limit: limit}
}

// maxField bounds all lines but those of data.
const maxField = 4 << 10

// next returns the next event that has data. The error is io.EOF at the end.
func (e *events) next() (*event, error) {
	name, data := "", piece{limit: e.limit}
	lines := 0
	for {
		field, err := e.line(&data, &lines)
		switch {
		case err != nil && (err != io.EOF || lines == 0):
			return nil, err
		case err != nil, len(field) == 0 && lines > 0:
			return &event{name: name, data: data.data, huge: data.huge, head: data.head, tail: data.tail, id: e.id, retry: e.retry}, nil
		case len(field) == 0:
			name = ""
			continue
		}
		key, value, _ := bytes.Cut(field, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(key) {
		case "event":
			name = string(value)
		case "id":
			if !bytes.ContainsRune(value, 0) {
				e.id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

var dataField = []byte("data:")

// line reads a line. Data go to data as they come; any other line is returned,
// without its end. An empty one ends an event.
func (e *events) line(data *piece, lines *int) ([]byte, error) {
	part, err := e.r.ReadSlice('\n')
	if !e.begun {
		e.begun = true
		part = bytes.TrimPrefix(part, []byte("\ufeff"))
	}
	isData := bytes.HasPrefix(part, dataField)
	var field []byte
	if isData {
		if *lines > 0 {
			data.add([]byte("\n"))
		}
		*lines++
		part = bytes.TrimPrefix(part[len(dataField):], []byte(" "))
	}
	for {
		whole := err != bufio.ErrBufferFull
		if whole {
			part = bytes.TrimSuffix(bytes.TrimSuffix(part, []byte("\n")), []byte("\r"))
		}
		if isData {
			data.add(part)
		} else if len(field) < maxField {
			field = append(field, part...)
		}
		if whole {
			break
		}
		part, err = e.r.ReadSlice('\n')
	}
	if err != nil && (err != io.EOF || len(field) == 0 && !isData) {
		return nil, err
	}
	if isData {
		return []byte(":"), nil // nothing to do, and no end of an event either
	}
	return field, nil
}

// readLine reads one line of a command's output, without its end.
func readLine(r *bufio.Reader, limit int) (*event, error) {
	p, begun := piece{limit: limit}, false
	for {
		part, err := r.ReadSlice('\n')
		p.add(bytes.TrimSuffix(part, []byte("\n")))
		begun = begun || len(part) > 0
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && (err != io.EOF || !begun):
			return nil, err
		}
		return &event{data: bytes.TrimSuffix(p.data, []byte("\r")), huge: p.huge, head: p.head, tail: p.tail}, nil
	}
}
