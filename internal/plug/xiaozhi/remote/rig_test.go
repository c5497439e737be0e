package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/tool"
)

// asked is a request as a board received it.
type asked struct {
	id             int64
	method, cursor string
	name           string // of the tool
	args           string
	params         string
}

// rig is a client with a board: a goroutine that handles one request after the other, like the
// firmware's loop.
type rig struct {
	*Client
	t      *testing.T
	answer func(asked) []string // payloads; none for no response

	inbox chan []byte
	wg    sync.WaitGroup
	mu    sync.Mutex
	got   []asked
}

func newRig(t *testing.T, opt Options, answer func(asked) []string) *rig {
	r := &rig{t: t, answer: answer, inbox: make(chan []byte, 100)}
	if opt.Send == nil {
		opt.Send = func(payload []byte) error {
			r.inbox <- payload
			return nil
		}
	}
	r.Client = New(opt)
	r.wg.Go(func() {
		for payload := range r.inbox {
			for _, reply := range r.answer(r.read(payload)) {
				r.HandleMessage([]byte(reply))
			}
		}
	})
	t.Cleanup(r.end)
	return r
}

func (r *rig) end() {
	r.Close(nil)
	close(r.inbox)
	r.wg.Wait()
}

// read is as strict as the firmware: a request that firmware would drop fails the test.
func (r *rig) read(payload []byte) asked {
	m, err := jsonrpc.Parse(payload)
	if err != nil {
		r.t.Errorf("the firmware drops %s: %v", payload, err)
	}
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil || id < 1 || id > wire.MaxID {
		r.t.Errorf("the firmware does not give back the id %s", m.ID)
	}
	if len(m.Params) == 0 || m.Params[0] != '{' {
		r.t.Errorf("the params of %s are no object: %s", m.Method, m.Params)
	}
	if strings.Contains(string(payload), "null") {
		r.t.Errorf("there is a null in %s", payload)
	}
	var p struct {
		Cursor    string
		Users     bool `json:"withUserTools"`
		Name      string
		Arguments json.RawMessage
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		r.t.Errorf("%s: %v", m.Params, err)
	}
	if m.Method == "tools/list" && !p.Users {
		r.t.Errorf("a page is asked for without the tools for people: %s", m.Params)
	}
	if m.Method == "tools/call" && (len(p.Arguments) == 0 || p.Arguments[0] != '{') {
		r.t.Errorf("the arguments are no object: %s", m.Params)
	}
	a := asked{id: id, method: m.Method, cursor: p.Cursor, name: p.Name, args: string(p.Arguments),
		params: string(m.Params)}
	r.mu.Lock()
	r.got = append(r.got, a)
	r.mu.Unlock()
	return a
}

// methods returns the methods of all requests.
func (r *rig) methods() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, a := range r.got {
		out = append(out, a.method)
	}
	return strings.Join(out, " ")
}

func (r *rig) last() asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[len(r.got)-1]
}

func (r *rig) start() bool {
	r.t.Helper()
	changed, err := r.Start(r.t.Context(), Vision{})
	if err != nil {
		r.t.Fatal(err)
	}
	return changed
}

// Ping asks something that every board answers with an error, and that changes nothing.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.ask(ctx, outgoingRequest{method: "ping", params: []byte("{}"), timeout: setupTimeout, priority: true})
	return err
}

func (r *rig) names() string {
	var out []string
	for _, t := range r.Catalog().Tools {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

func (r *rig) call(ctx context.Context, name, args string) (*tool.Result, error) {
	return r.Call(ctx, &tool.Call{Tool: name, Args: json.RawMessage(args)})
}

func result(id int64, body string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, body)
}

// textResult is a result with one text, as firmware writes it.
func textResult(id int64, text string) string {
	return result(id, string(jsonrpc.AppendText([]byte(`{"content":[{"type":"text","text":`), text))+
		`}],"isError":false}`)
}

// plainError is an error as firmware before 2.5 writes it: without a code, and not escaped.
func plainError(id int64, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"message":"%s"}}`, id, text)
}

// codedError is an error as firmware writes it since 2.5.
func codedError(id int64, code int, text string) string {
	return string(jsonrpc.AppendError(nil, strconv.AppendInt(nil, id, 10), &jsonrpc.Error{Code: code, Message: text}))
}

// firmware answers requests like a board. Empty fields are omitted.
type firmware struct {
	version string
	tools   []string // the JSON of each
	call    func(asked) []string
}

const (
	toolStatus = `{"name":"self.get_device_status","description":"Provides the real-time information","inputSchema":{"type":"object","properties":{}}}`
	toolVolume = `{"name":"self.audio_speaker.set_volume","description":"If the current volume is unknown, you must call ` + "`self.get_device_status`" + ` tool first","inputSchema":{"type":"object","properties":{"volume":{"type":"integer","minimum":0,"maximum":100}},"required":["volume"]}}`
	toolPhoto  = `{"name":"self.camera.take_photo","description":"Take a photo","inputSchema":{"type":"object","properties":{"question":{"type":"string"}},"required":["question"]}}`
	toolReboot = `{"name":"self.reboot","description":"Reboot the system","inputSchema":{"type":"object","properties":{}},"annotations":{"audience":["user"]}}`
	toolUpdate = `{"name":"self.upgrade_firmware","description":"Upgrade firmware from a specific URL.","inputSchema":{"type":"object","properties":{"url":{"type":"string","default":"The URL of the firmware binary file to download and install"}}},"annotations":{"audience":["user"]}}`
)

func (f firmware) answer(a asked) []string {
	switch a.method {
	case "initialize":
		return []string{result(a.id,
			fmt.Sprintf(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"lichuang-dev","version":%q}}`, f.version))}
	case "tools/list":
		return []string{f.page(a)}
	case "tools/call":
		if f.call != nil {
			return f.call(a)
		}
		return []string{textResult(a.id, "true")}
	}
	return []string{plainError(a.id, "Method not implemented: "+a.method)}
}

// page returns a page of at most wire.MaxList bytes, and the name of the first tool that is not on
// it.
func (f firmware) page(a asked) string {
	var page []string
	size, found := 0, a.cursor == ""
	for _, t := range f.tools {
		var head struct{ Name string }
		_ = json.Unmarshal([]byte(t), &head)
		if found = found || head.Name == a.cursor; !found {
			continue
		}
		if size += len(t) + 1; size+30 > wire.MaxList {
			if len(page) == 0 {
				return plainError(a.id, "Failed to add tool "+head.Name+" because of payload size limit")
			}
			return result(a.id, `{"tools":[`+strings.Join(page, ",")+`],"nextCursor":"`+head.Name+`"}`)
		}
		page = append(page, t)
	}
	if len(page) == 0 {
		return plainError(a.id, "Failed to add tool  because of payload size limit")
	}
	return result(a.id, `{"tools":[`+strings.Join(page, ",")+`]}`)
}

var fw24 = firmware{version: "2.4.2", tools: []string{toolStatus, toolVolume, toolPhoto, toolReboot, toolUpdate}}

func code(err error) tool.Code {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Code
	}
	return ""
}
