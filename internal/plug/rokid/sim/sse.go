package sim

import (
	"bytes"
	"errors"
)

// maxEvent limits one event of a stream, in bytes.
const maxEvent = 1 << 20

var errEventTooLong = errors.New("an event is longer than 1 MiB")

// frame is one event as received. data is valid until the call that gets the frame returns. It is
// nil if the event has no data line.
type frame struct {
	name string // "message" by default
	data []byte
}

// parser splits a stream of server-sent events by the standard (HTML Living Standard §9.2.6),
// however the stream is cut: lines end with CR, LF or CRLF, a space after the colon is ignored, and
// an empty line ends an event.
type parser struct {
	comments int

	line      []byte
	cr        bool // the last line ended with CR, so that a following LF belongs to it
	started   bool // at least one line was read
	name      []byte
	data      []byte
	hasFields bool // the event has a name or data
	lines     int  // of data
}

var byteOrderMark = []byte("\ufeff")

// feed adds bytes and calls each for every event that ends in them. After an error the parser
// cannot be used any more.
func (p *parser) feed(b []byte, each func(frame)) error {
	for len(b) > 0 {
		if p.cr {
			p.cr = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		end := bytes.IndexAny(b, "\r\n")
		if end < 0 {
			p.line = append(p.line, b...)
			return p.tooLong()
		}
		p.line = append(p.line, b[:end]...)
		p.cr = b[end] == '\r'
		b = b[end+1:]
		if err := p.tooLong(); err != nil {
			return err
		}
		p.parseLine(p.line, each)
		p.line = p.line[:0]
	}
	return nil
}

func (p *parser) tooLong() error {
	if len(p.line)+len(p.data) > maxEvent {
		return errEventTooLong
	}
	return nil
}

// isUnfinished reports whether an event or a line has begun and not ended.
func (p *parser) isUnfinished() bool { return p.hasFields || len(p.line) > 0 }

func (p *parser) parseLine(line []byte, each func(frame)) {
	if !p.started {
		p.started = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		p.dispatch(each)
		return
	}
	if line[0] == ':' {
		p.comments++
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		p.hasFields = true
		p.name = append(p.name[:0], value...)
	case "data":
		p.hasFields = true
		if p.lines > 0 {
			p.data = append(p.data, '\n')
		}
		p.data = append(p.data, value...)
		p.lines++
	}
}

func (p *parser) dispatch(each func(frame)) {
	if !p.hasFields {
		return
	}
	f := frame{name: "message"}
	if len(p.name) > 0 {
		f.name = string(p.name)
	}
	if p.lines > 0 {
		f.data = p.data
		if f.data == nil {
			f.data = []byte{}
		}
	}
	each(f)
	p.name, p.data, p.hasFields, p.lines = p.name[:0], p.data[:0], false, 0
}
