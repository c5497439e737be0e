package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// link is a persistent HTTP connection. It uses no HTTP library, so that on a small machine the
// clients cost little.
type link struct {
	conn   net.Conn
	in     *bufio.Reader
	out    []byte
	got    []byte
	events *bufio.Reader // of a connection that became a stream
	data   []byte
}

// dial connects. The deadline of the connection is the measured time and some reserve.
func dial(host string, span time.Duration) (*link, error) {
	conn, err := net.DialTimeout("tcp", host, patience)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(span + patience)) //nolint:errcheck // TCP supports deadlines
	return &link{conn: conn, in: bufio.NewReaderSize(conn, 4<<10)}, nil
}

func (l *link) close() { l.conn.Close() }

// answer is an HTTP response. Its body is valid until the next one.
type answer struct {
	status  int
	session string
	stream  bool // an event stream
	chunked bool
	length  int
	body    []byte
}

// post sends a message and reads the response. head ends before the value of Content-Length.
func (l *link) post(head, msg []byte) (answer, error) {
	b := append(l.out[:0], head...)
	b = strconv.AppendInt(b, int64(len(msg)), 10)
	b = append(b, "\r\n\r\n"...)
	l.out = append(b, msg...)
	return l.ask(l.out)
}

// ask sends a request and reads the whole response. For an event stream, body is the data of its
// last event.
func (l *link) ask(request []byte) (answer, error) {
	if _, err := l.conn.Write(request); err != nil {
		return answer{}, err
	}
	a, err := l.head()
	if err != nil {
		return a, err
	}
	if a.chunked {
		chunks := httputil.NewChunkedReader(l.in)
		if a.body, err = io.ReadAll(chunks); err == nil {
			_, err = l.in.ReadSlice('\n') // the line after the last chunk (RFC 9112 §7.1)
		}
	} else {
		l.got = append(l.got[:0], make([]byte, a.length)...)
		_, err = io.ReadFull(l.in, l.got)
		a.body = l.got
	}
	if a.stream && err == nil {
		a.body, err = lastEvent(a.body)
	}
	return a, err
}

func lastEvent(body []byte) (data []byte, err error) {
	l := link{events: bufio.NewReader(bytes.NewReader(body))}
	for {
		_, next, err := l.event()
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		data = bytes.Clone(next)
	}
}

// listen sends a request whose response is an event stream.
func (l *link) listen(request []byte) error {
	if _, err := l.conn.Write(request); err != nil {
		return err
	}
	a, err := l.head()
	if err != nil {
		return err
	}
	if a.status != 200 || !a.stream {
		body := make([]byte, min(a.length, 300))
		io.ReadFull(l.in, body) //nolint:errcheck // it is only for the error
		return fmt.Errorf("status %d, stream %t: %s", a.status, a.stream, body)
	}
	var in io.Reader = l.in
	if a.chunked {
		in = httputil.NewChunkedReader(in)
	}
	l.events = bufio.NewReaderSize(in, 8<<10)
	return nil
}

// event reads the next event of a stream. Its data is valid until the next call.
func (l *link) event() (name string, data []byte, err error) {
	l.data = l.data[:0]
	for {
		line, err := l.events.ReadSlice('\n')
		if err != nil {
			return "", nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 && len(l.data) > 0 {
			return name, l.data, nil
		}
		if rest, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			name = string(rest)
		} else if rest, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			l.data = append(l.data, rest...)
		}
	}
}

// head reads the header of a response.
func (l *link) head() (a answer, err error) {
	line, err := l.line()
	if err != nil {
		return a, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return a, fmt.Errorf("no answer of HTTP: %.100q", line)
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return a, err
	}
	for {
		if line, err = l.line(); err != nil || len(line) == 0 {
			return a, err
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if a.length, err = strconv.Atoi(string(value)); err != nil || a.length < 0 || a.length > maxAnswer {
				return a, fmt.Errorf("an answer of %s bytes", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			a.chunked = true
		case bytes.EqualFold(name, []byte("Mcp-Session-Id")):
			a.session = string(value)
		case bytes.EqualFold(name, []byte("Content-Type")):
			a.stream = bytes.HasPrefix(value, []byte("text/event-stream"))
		}
	}
}

// maxAnswer is the maximum size of a response, in bytes. No server here should send more.
const maxAnswer = 1 << 20

func (l *link) line() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}
