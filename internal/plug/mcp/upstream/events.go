package upstream

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

const (
	// keptHeadBytes and keptTailBytes are how much of an oversized message is kept, to find the
	// id of the request it answers.
	keptHeadBytes = 256
	keptTailBytes = 256
)

// event is one server-sent event, or one line of a command's output.
type event struct {
	name string
	data []byte
	// tooLarge means that the data exceeded the limit; head and tail are its beginning and end.
	tooLarge   bool
	head, tail []byte
	// id and retry are the newest of the stream, if any.
	id    string
	retry time.Duration
}

// boundedBuffer keeps at most limit bytes of what is written to it. Beyond the limit, it keeps
// only the first and last bytes.
type boundedBuffer struct {
	limit      int
	data       []byte
	head, tail []byte
	tooLarge   bool
}

func (p *boundedBuffer) add(b []byte) {
	if !p.tooLarge && len(p.data)+len(b) <= p.limit {
		p.data = append(p.data, b...)
		return
	}
	if !p.tooLarge {
		p.tooLarge = true
		p.head = append([]byte(nil), p.data[:min(len(p.data), keptHeadBytes)]...)
		p.tail = append([]byte(nil), p.data[max(0, len(p.data)-keptTailBytes):]...)
		p.data = nil
	}
	if room := keptHeadBytes - len(p.head); room > 0 {
		p.head = append(p.head, b[:min(room, len(b))]...)
	}
	p.tail = append(p.tail, b[max(0, len(b)-keptTailBytes):]...)
	p.tail = p.tail[max(0, len(p.tail)-keptTailBytes):]
}

// eventReader reads a stream of server-sent events. It follows the HTML standard ("Server-sent
// events"), with two exceptions: a lone carriage return does not end a line, and an event without a
// terminating empty line counts at the end of the stream.
type eventReader struct {
	r     *bufio.Reader
	limit int
	id    string
	retry time.Duration
	begun bool
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReader(r), limit: limit}
}

// maxField limits the length of all lines but data lines.
const maxField = 4 << 10

// next returns the next event that has data. The error is io.EOF at the end.
func (e *eventReader) next() (*event, error) {
	name, data := "", boundedBuffer{limit: e.limit}
	lines := 0
	for {
		field, err := e.line(&data, &lines)
		switch {
		case err != nil && (err != io.EOF || lines == 0):
			return nil, err
		case err != nil, len(field) == 0 && lines > 0:
			return &event{name: name, data: data.data, tooLarge: data.tooLarge, head: data.head, tail: data.tail,
				id: e.id, retry: e.retry}, nil
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

// line reads a line. Data lines are appended to data as they arrive; other lines are returned
// without their line end. An empty line ends an event.
func (e *eventReader) line(data *boundedBuffer, lines *int) ([]byte, error) {
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
		return []byte(":"), nil // data line: no event end
	}
	return field, nil
}

// readLine reads one line of a command's output, without its end.
func readLine(r *bufio.Reader, limit int) (*event, error) {
	p, begun := boundedBuffer{limit: limit}, false
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
		return &event{data: bytes.TrimSuffix(p.data, []byte("\r")), tooLarge: p.tooLarge, head: p.head, tail: p.tail},
			nil
	}
}
