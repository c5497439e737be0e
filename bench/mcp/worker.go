package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// wire is the revision of the protocol with which a server is called.
type wire string

const (
	bare     wire = "plain"      // a POST per call, without a handshake
	pipes    wire = "2024-11-05" // HTTP+SSE: responses come on a separate stream
	sessions wire = "2025-11-25" // Streamable HTTP with a session
	fresh    wire = "2026-07-28" // without sessions
)

// patience is the timeout of everything that is not measured: opening and closing.
const patience = 20 * time.Second

// worker is a client with a connection, a session, and one call at a time.
type worker struct {
	wire    wire
	link    *link
	stream  *link // for responses; nil unless the revision has it
	host    string
	path    string // path for calls
	key     string
	session string
	head    []byte // of all calls
	ids     int    // the last id
	answer  shape
	body    []byte
}

// openWorker connects a client, and performs the handshake if the revision has one.
func openWorker(c contender, number int, span time.Duration) (*worker, error) {
	at, err := url.Parse(c.at.URL)
	if err != nil {
		return nil, err
	}
	w := &worker{wire: c.wire, host: at.Host, path: at.Path, key: c.at.Key, ids: number * 10_000_000}
	if w.link, err = dial(w.host, span); err != nil {
		return nil, err
	}
	switch w.wire {
	case sessions:
		err = w.initialize()
	case pipes:
		err = w.openPipe(span)
	}
	if err == nil {
		method := ""
		if w.wire == fresh {
			method = "tools/call"
		}
		w.head = w.header(method, "echo")
		err = w.call()
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// close ends the session and closes the connections.
func (w *worker) close() {
	if w.session != "" {
		w.link.ask(fmt.Appendf(nil, "DELETE %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\n\r\n", w.path, w.host, w.key, w.session)) //nolint:errcheck // it is over anyway
	}
	w.link.close()
	if w.stream != nil {
		w.stream.close()
	}
}

// header is the header of a POST, up to the value of Content-Length.
func (w *worker) header(method, name string) []byte {
	h := fmt.Appendf(nil,
		"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", w.path, w.host)
	if w.key != "" {
		h = fmt.Appendf(h, "Authorization: Bearer %s\r\n", w.key)
	}
	if w.session != "" {
		h = fmt.Appendf(h, "Mcp-Session-Id: %s\r\n", w.session)
	}
	if w.wire == fresh || w.session != "" {
		h = fmt.Appendf(h, "Mcp-Protocol-Version: %s\r\n", w.wire)
	}
	if method != "" {
		h = fmt.Appendf(h, "Mcp-Method: %s\r\n", method)
	}
	if method == "tools/call" {
		h = fmt.Appendf(h, "Mcp-Name: %s\r\n", name)
	}
	return append(h, "Content-Length: "...)
}

// meta is the _meta field of every request without a session (MCP 2026-07-28).
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + string(fresh) +
	`","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`

func (w *worker) hello() []byte {
	return fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`, w.wire)
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// initialize starts a session.
func (w *worker) initialize() error {
	res, err := w.link.post(w.header("", ""), w.hello())
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if res.status != http.StatusOK || res.session == "" {
		return fmt.Errorf("initialize: status %d, session %q, %.200s", res.status, res.session, res.body)
	}
	w.session = res.session
	if res, err = w.link.post(w.header("", ""), []byte(initialized)); err == nil && res.status != http.StatusAccepted {
		err = fmt.Errorf("notifications/initialized: status %d, %.200s", res.status, res.body)
	}
	return err
}

// openPipe starts a session of HTTP+SSE (MCP 2024-11-05).
func (w *worker) openPipe(span time.Duration) (err error) {
	if w.stream, err = dial(w.host, span); err != nil {
		return err
	}
	path := w.path + "/sse"
	if err := w.stream.listen(fmt.Appendf(nil,
		"GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n", path, w.host,
		w.key)); err != nil {
		return err
	}
	event, data, err := w.stream.event()
	if err != nil || event != "endpoint" {
		return fmt.Errorf("the first event is %q %s: %w", event, data, err)
	}
	w.path = string(data)
	if err := w.send(w.hello()); err != nil {
		return err
	}
	if _, data, err = w.stream.event(); err != nil || !bytes.Contains(data, []byte(`"protocolVersion":"2024-11-05"`)) {
		return fmt.Errorf("initialize: %.200s: %w", data, err)
	}
	return w.send([]byte(initialized))
}

// send posts a message whose response, if any, comes on the stream.
func (w *worker) send(msg []byte) error {
	res, err := w.link.post(w.header("", ""), msg)
	if err == nil && res.status != http.StatusAccepted {
		err = fmt.Errorf("status %d: %.200s", res.status, res.body)
	}
	return err
}

// call calls the tool once and checks the response.
func (w *worker) call() error {
	w.ids++
	b := append(w.body[:0], `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, int64(w.ids), 10)
	b = append(b, `,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello `...)
	b = strconv.AppendInt(b, int64(w.ids), 10)
	b = append(b, `"}`...)
	if w.wire == fresh {
		b = append(append(b, ','), meta...)
	}
	b = append(b, "}}"...)
	w.body = b
	res, err := w.link.post(w.head, b)
	if err != nil {
		return err
	}
	answer := res.body
	if w.wire == pipes {
		if res.status != http.StatusAccepted {
			return fmt.Errorf("status %d: %.200s", res.status, res.body)
		}
		if _, answer, err = w.stream.event(); err != nil {
			return err
		}
	} else if res.status != http.StatusOK {
		return fmt.Errorf("status %d: %.200s", res.status, res.body)
	}
	if w.answer.fits(answer, w.ids) {
		return nil
	}
	w.answer, err = examine(answer, w.ids, w.wire)
	return err
}

// shape is a checked response, split at its id, which is also part of the echoed text. Later
// responses are only compared with it.
type shape struct {
	parts [][]byte // between the occurrences of the id
	want  []byte
}

// fits reports whether a response equals the checked one except for the id.
func (s *shape) fits(answer []byte, id int) bool {
	if s.parts == nil {
		return false
	}
	s.want = s.want[:0]
	for i, part := range s.parts {
		if i > 0 {
			s.want = strconv.AppendInt(s.want, int64(id), 10)
		}
		s.want = append(s.want, part...)
	}
	return bytes.Equal(s.want, answer)
}

// examine parses a response and validates it.
func examine(answer []byte, id int, w wire) (shape, error) {
	var m struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   json.RawMessage `json:"error"`
		Result  struct {
			Type    string `json:"resultType"`
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
			IsError bool `json:"isError"`
		} `json:"result"`
	}
	dec := json.NewDecoder(bytes.NewReader(answer))
	if err := dec.Decode(&m); err != nil {
		return shape{}, fmt.Errorf("the answer is no JSON (%w): %.300s", err, answer)
	}
	number := strconv.Itoa(id)
	_, rest := dec.Token()
	switch {
	case rest != io.EOF, m.JSONRPC != "2.0", string(m.ID) != number, m.Error != nil, m.Result.IsError,
		len(m.Result.Content) != 1, m.Result.Content[0].Type != "text", m.Result.Content[0].Text != "hello "+number,
		w == fresh && m.Result.Type != "complete":
		return shape{}, fmt.Errorf("the answer to call %s is wrong: %.300s", number, answer)
	}
	return shape{parts: bytes.Split(bytes.Clone(answer), []byte(number))}, nil
}
