package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf8"
)

const (
	// maxResult bounds the result of a call, which is held in memory and passed
	// on in one piece.
	maxResult = 8 << 20
	// maxMessage bounds one message: a whole list of tools may come in one.
	maxMessage = 16 << 20
	// maxBatch bounds a batch, which servers of 2025-03-26 may send.
	maxBatch = 1000
)

var (
	errGarbled  = errors.New("what came is not a message of the protocol")
	errTooLarge = errors.New("the message is too large")
)

// message is anything that comes from a server. What it carries stays as the
// server wrote it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// rpcError is the error of a server that did get the request.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *rpcError) Error() string {
	return fmt.Sprintf("the server refused: %s (%d)", e.Message, e.Code)
}

// Codes of JSON-RPC and of MCP.
const (
	codeMethodNotFound = -32601
)

// readMessages reads one message or a batch of them.
func readMessages(data []byte) ([]message, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, errGarbled
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
		return nil, errGarbled
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
		return m, errGarbled
	}
	if isNull(m.ID) {
		m.ID = nil
	}
	if m.Method == "" && m.Result == nil && m.Error == nil {
		return m, errGarbled
	}
	return m, nil
}

// number is the id of an answer. Ours are numbers; some servers send them back
// as texts. It is 0 if it cannot be one of ours.
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

// Where the id stands in what programs write: near the beginning, or at the very
// end, where nothing but the message's own brace can follow.
var (
	idInHead = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d+)`)
	idInTail = regexp.MustCompile(`"id"\s*:\s*"?(\d+)"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// idOfHuge finds out whose answer a message is that was too large to be kept, by
// its first and last bytes. It is 0 if they do not tell.
func idOfHuge(head, tail []byte) int64 {
	for _, m := range [][][]byte{idInHead.FindSubmatch(head), idInTail.FindSubmatch(tail)} {
		if m != nil {
			return idNumber(m[1])
		}
	}
	return 0
}

// outgoing is a message to a server.
type outgoing struct {
	id     int64 // 0 for notifications and answers
	method string
	name   string // of the tool that is called
	// heads are headers of this request alone.
	heads map[string]string
	// limit is how large the answer may be.
	limit int
	body  []byte
}

// request writes a request, or a notification if id is 0.
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

// reply writes the answer to a request of the server: all we can is to be there.
func reply(m *message) *outgoing {
	type answer struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result,omitempty"`
		Error   any             `json:"error,omitempty"`
	}
	a := answer{Version: "2.0", ID: m.ID, Result: struct{}{}}
	if m.Method != "ping" {
		a.Result, a.Error = nil, map[string]any{"code": codeMethodNotFound, "message": "not supported by this client"}
	}
	body, err := encode(a)
	if err != nil {
		return nil
	}
	return &outgoing{body: body}
}

// encode writes JSON as it is meant, without HTML escapes.
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

// clip shortens a text from outside for a log or an error.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
