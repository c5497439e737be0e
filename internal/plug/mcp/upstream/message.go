package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf8"

	"patchbay/internal/tracing"
)

const (
	// maxResult limits the result of a call, which is held in memory as a whole.
	maxResult = 8 << 20
	// maxMessage limits one message, which may contain a whole tool list.
	maxMessage = 16 << 20
	// maxBatch limits a batch, which servers of 2025-03-26 may send (basic/transports).
	maxBatch = 1000
)

var (
	errMalformed = errors.New("what came is not a message of the protocol")
	errTooLarge  = errors.New("the message is too large")
)

// message is any message from a server. Its payloads stay raw JSON.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// rpcError is a JSON-RPC error response of the server.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *rpcError) Error() string {
	return fmt.Sprintf("the server refused: %s (%d)", e.Message, e.Code)
}

// Error codes of JSON-RPC (JSON-RPC 2.0 §5.1).
const (
	codeMethodNotFound = -32601
	codeInternal       = -32603
)

// readMessages parses one message or a batch.
func readMessages(data []byte) ([]message, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, errMalformed
	}
	if data[0] != '[' {
		m, err := readMessage(data)
		if err != nil {
			return nil, err
		}
		return []message{m}, nil
	}
	var raw []json.RawMessage
	if json.Unmarshal(data, &raw) != nil || len(raw) > maxBatch {
		return nil, errMalformed
	}
	list := make([]message, 0, len(raw))
	for _, one := range raw {
		m, err := readMessage(one)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func readMessage(data []byte) (message, error) {
	var m message
	if len(data) == 0 || data[0] != '{' || json.Unmarshal(data, &m) != nil {
		return m, errMalformed
	}
	if isNull(m.ID) {
		m.ID = nil
	}
	if m.Method == "" && m.Result == nil && m.Error == nil {
		return m, errMalformed
	}
	return m, nil
}

// number returns the id of a response. Own ids are numbers; some servers return them as strings.
// It returns 0 for an id that cannot be an own one.
func (m *message) number() int64 { return idNumber(m.ID) }

func idNumber(raw json.RawMessage) int64 {
	if len(raw) > 1 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Where programs write the id: near the beginning, or at the very end, followed only by the
// closing brace of the message.
var (
	idInHead = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d+)`)
	idInTail = regexp.MustCompile(`"id"\s*:\s*"?(\d+)"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// idOfTooLarge returns the id of an oversized response, found in its first and last bytes, or 0.
func idOfTooLarge(head, tail []byte) int64 {
	for _, m := range [][][]byte{idInHead.FindSubmatch(head), idInTail.FindSubmatch(tail)} {
		if m != nil {
			return idNumber(m[1])
		}
	}
	return 0
}

// outgoing is a message to a server.
type outgoing struct {
	id     int64 // 0 for notifications and responses
	method string
	name   string // of the called tool
	// headers are additional headers of this request.
	headers map[string]string
	// trace is the span of this request.
	trace tracing.Link
	// limit is the maximum size of the response.
	limit int
	body  []byte
}

// request returns a request, or a notification if id is 0.
func request(id int64, method string, params any) (*outgoing, error) {
	body, err := encode(struct {
		Version string `json:"jsonrpc"`
		ID      int64  `json:"id,omitempty"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{"2.0", id, method, params})
	if err != nil {
		return nil, err
	}
	return &outgoing{id: id, method: method, body: body, limit: maxMessage}, nil
}

// response returns the response to a request of the server: a result, or, without one, an error.
func response(id, result, failure json.RawMessage) *outgoing {
	body, err := encode(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result,omitempty"`
		Error   json.RawMessage `json:"error,omitempty"`
	}{"2.0", id, result, failure})
	if err != nil {
		return nil
	}
	return &outgoing{body: body}
}

// encode returns v as JSON without HTML escapes.
func encode(v any) ([]byte, error) {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(w.Bytes(), []byte("\n")), nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

func isArray(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '[' }

// clip shortens external text for a log or an error.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
