package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"patchbay/internal/i18n"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/mcp/upstream/openapi"
	"patchbay/internal/settings"
	"patchbay/internal/tool"
	"patchbay/internal/tracing"
)

// Errors of settings and documents of APIs.
const (
	msgNoAPI       = i18n.Message("document, base_url, query and basic are for OpenAPI documents; set transport to openapi, or take them out")
	msgAPIAddress  = i18n.Message("url or document is missing: give the address of an OpenAPI document, or its text")
	msgAPITwice    = i18n.Message("both url and document are given; keep one of them")
	msgAPIBase     = i18n.Message("base_url is missing: give the address of the API, which the document does not say")
	msgAPISignIn   = i18n.Message("client_id, client_secret and what else belongs to OAuth are for MCP servers; take them out")
	msgAPILogins   = i18n.Message("token and basic are both given; keep one of them")
	msgAPIBasic    = i18n.Message("basic must have the form name:password")
	msgAPITooLarge = i18n.Message("the document is too large: it may have %d bytes")
	msgAPIStatus   = i18n.Message("The OpenAPI document cannot be read: the server answered %d %s. See whether the address is that of the document itself.")
	msgAPIServer   = i18n.Message("The document says that the API is at %s, which is not where the document is. If that is to be trusted, set base_url to that address.")
)

// APIBase returns the address of the API that an OpenAPI document names, and an empty text if it
// names none. The error is about the document.
func APIBase(document string) (string, error) {
	d, err := openapi.Parse([]byte(document))
	if err != nil {
		return "", err
	}
	if u, err := d.Server(nil); err == nil {
		return u.String(), nil
	}
	return "", nil
}

// checkNoAPI returns an error if there are settings that only an API has.
func (s *Settings) checkNoAPI() error {
	if s.Document != "" || s.BaseURL != "" || len(s.Query) > 0 || s.Basic != "" {
		return msgNoAPI.Errorf()
	}
	return nil
}

func (s *Settings) checkAPI() error {
	switch {
	case s.Command != "" || len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != "":
		return msgBoth.Errorf()
	case s.URL == "" && s.Document == "":
		return msgAPIAddress.Errorf()
	case s.URL != "" && s.Document != "":
		return msgAPITwice.Errorf()
	case s.Document != "" && s.BaseURL == "":
		return msgAPIBase.Errorf()
	case len(s.Document) > openapi.MaxSize:
		return msgAPITooLarge.Errorf(openapi.MaxSize)
	case s.hasClient():
		return msgAPISignIn.Errorf()
	case s.Token != "" && s.Basic != "":
		return msgAPILogins.Errorf()
	case s.Basic != "" && (!strings.Contains(s.Basic, ":") || !httpguts.ValidHeaderFieldValue(s.Basic)):
		return msgAPIBasic.Errorf()
	}
	for name, address := range map[string]string{"url": s.URL, "base_url": s.BaseURL} {
		if address == "" {
			continue
		}
		if _, err := settings.ParseAddress(name, address, "https://example.com/openapi.json", "token"); err != nil {
			return err
		}
	}
	return errors.Join(settings.CheckCredential("token", s.Token), settings.CheckHeaders(s.Headers, "accept"))
}

// apiWire is the transport to an API that an OpenAPI document describes: it answers as an MCP
// server would, and calls the API.
type apiWire struct {
	s        *session
	settings *Settings
	name     string
	sender   sender

	mu         sync.Mutex
	doc        *openapi.Document // nil: not read yet
	base       *url.URL
	operations map[string]*openapi.Operation
	listed     []json.RawMessage
	left       []i18n.Text
	etag       string
	fresh      bool // it was read, and not listed since
}

func newAPIWire(s *session, spec *Spec, out sender) *apiWire {
	return &apiWire{s: s, settings: &spec.Settings, name: spec.name(), sender: out}
}

func (w *apiWire) setVersion(string, bool)   {}
func (w *apiWire) listen()                   {}
func (w *apiWire) isStateless() bool         { return false }
func (w *apiWire) cancelsByDisconnect() bool { return true }
func (w *apiWire) close()                    { w.sender.client.CloseIdleConnections() }

// protocol returns what is spoken with a server, for its owner.
func (s *session) protocol() string {
	if w, ok := s.wire.(*apiWire); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		return "OpenAPI " + w.doc.OpenAPI
	}
	return s.version
}

// approvable returns the form of a tool that its owner approves: that of an API has the parameters
// that the owner's settings fill in, too, so that changing these is no change of the API.
func (s *session) approvable(t *tool.Tool) *tool.Tool {
	w, ok := s.wire.(*apiWire)
	if !ok {
		return t
	}
	w.mu.Lock()
	o := w.operations[t.Name]
	w.mu.Unlock()
	if o == nil || bytes.Equal(o.Whole, o.Listed) {
		return t
	}
	if whole, ok := readTool(o.Whole); ok {
		return &whole
	}
	return t
}

// leftOut returns which operations of an API are no tools.
func (s *session) leftOut() []i18n.Text {
	w, ok := s.wire.(*apiWire)
	if !ok {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.left)
}

// send answers a request. Notifications need no answer: a call is cancelled by its context.
func (w *apiWire) send(ctx context.Context, m *outgoing) error {
	if m.id == 0 {
		return nil
	}
	result, err := w.answer(ctx, m)
	if err != nil {
		return err
	}
	id := fmt.Appendf(nil, "%d", m.id)
	if result == nil {
		refusal := &jsonrpc.Error{Code: codeMethodNotFound, Message: "there is no such method"}
		return w.s.deliver(m.id, &event{data: jsonrpc.AppendError(nil, id, refusal)})
	}
	return w.s.deliver(m.id, &event{data: jsonrpc.AppendResult(nil, id, result)})
}

// answer returns the result of a request; nil means that there is no such method.
func (w *apiWire) answer(ctx context.Context, m *outgoing) (json.RawMessage, error) {
	switch m.method {
	case "ping":
		return json.RawMessage("{}"), nil
	case "initialize":
		if err := w.read(ctx); err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return encode(map[string]any{"protocolVersion": newestSessionVersion,
			"capabilities": map[string]any{"tools": struct{}{}},
			"serverInfo":   map[string]string{"name": w.doc.Title, "version": w.doc.Version}})
	case "tools/list":
		if err := w.refresh(ctx); err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return encode(map[string]any{"tools": w.listed})
	case "tools/call":
		params := jsonrpc.Member(m.body, "params")
		return w.call(ctx, jsonrpc.Text(jsonrpc.Member(params, "name")), jsonrpc.Member(params, "arguments"), m.trace)
	}
	return nil, nil
}

// refresh reads the document again, unless that has just been done.
func (w *apiWire) refresh(ctx context.Context) error {
	w.mu.Lock()
	fresh := w.fresh
	w.fresh = false
	w.mu.Unlock()
	if fresh {
		return nil
	}
	return w.read(ctx)
}

// read reads the document. It stays as it is if that fails.
func (w *apiWire) read(ctx context.Context) error {
	text, etag := []byte(w.settings.Document), ""
	if w.settings.Document == "" {
		var err error
		if text, etag, err = w.fetch(ctx); err != nil {
			return err
		}
	}
	w.mu.Lock()
	same := w.doc != nil && (text == nil || w.settings.Document != "")
	w.mu.Unlock()
	if same {
		return nil
	}
	doc, err := openapi.Parse(text)
	if err != nil {
		return documentError(err)
	}
	base, err := w.settings.apiBase(doc)
	if err != nil {
		return documentError(err)
	}
	known := openapi.Credentials{Query: slices.Collect(maps.Keys(w.settings.Query))}
	for name := range w.settings.Headers {
		known.Headers = append(known.Headers, strings.ToLower(name))
	}
	list, left := doc.Operations(known)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doc, w.base, w.left, w.etag, w.fresh = doc, base, left, etag, true
	w.operations, w.listed = map[string]*openapi.Operation{}, []json.RawMessage{}
	for _, o := range list {
		w.operations[o.Name], w.listed = o, append(w.listed, o.Listed)
	}
	return nil
}

// documentError returns the state of an upstream whose document cannot be used.
func documentError(err error) error {
	t := &ConnectionError{Lasting: true, Message: msgUnreachable.With()}
	if text, ok := errors.AsType[*i18n.Error](err); ok {
		t.Message = text.Text
	}
	return t
}

// apiBase returns the address that the paths of a document are below. A document must not choose
// another server than its own: what models say, and the owner's secrets, would go there.
func (s *Settings) apiBase(doc *openapi.Document) (*url.URL, error) {
	if s.BaseURL != "" {
		return url.Parse(strings.TrimSpace(s.BaseURL))
	}
	from, err := url.Parse(strings.TrimSpace(s.URL))
	if err != nil {
		return nil, err
	}
	base, err := doc.Server(from)
	if err == nil && !sameOrigin(base, from) {
		err = msgAPIServer.Errorf(base.String())
	}
	return base, err
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// fetch gets the document from its address. The text is nil if it has not changed.
func (w *apiWire) fetch(ctx context.Context) (text []byte, etag string, err error) {
	w.mu.Lock()
	etag = w.etag
	w.mu.Unlock()
	resp, err := w.sender.do(ctx, func() (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.settings.URL, nil)
		if err != nil {
			return nil, errors.New("the address is not a web address") // err would show the address
		}
		req.Header.Set("User-Agent", "patchbay")
		base, err := url.Parse(strings.TrimSpace(w.settings.BaseURL))
		if w.settings.BaseURL == "" || err == nil && sameOrigin(base, req.URL) {
			w.settings.authorize(req)
		}
		req.Header.Set("Accept", "application/json, application/yaml, text/yaml, */*;q=0.5")
		if etag != "" {
			req.Header.Set("If-None-Match", etag)
		}
		return req, nil
	})
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && etag != "":
		return nil, etag, nil
	case resp.StatusCode != http.StatusOK:
		status := readStatusError(resp)
		if status.isAuth() || status.location != "" {
			return nil, "", status
		}
		return nil, "", &ConnectionError{Message: msgAPIStatus.With(status.code, http.StatusText(status.code)),
			Lasting: status.code/100 == 4}
	}
	if text, err = io.ReadAll(io.LimitReader(resp.Body, openapi.MaxSize+1)); err != nil {
		return nil, "", &connectionLostError{err}
	}
	return text, resp.Header.Get("Etag"), nil
}

// authorize adds the owner's credentials to a request to an API.
func (s *Settings) authorize(req *http.Request) {
	s.setHeaders(req)
	for _, name := range slices.Sorted(maps.Keys(s.Query)) {
		pair := url.QueryEscape(name) + "=" + url.QueryEscape(s.Query[name])
		req.URL.RawQuery = strings.TrimPrefix(req.URL.RawQuery+"&"+pair, "&")
	}
}

// call calls an operation of the API. Its errors end the call, and never the session.
func (w *apiWire) call(ctx context.Context, name string, args json.RawMessage,
	trace tracing.Link) (json.RawMessage, error) {
	w.mu.Lock()
	o, base := w.operations[name], w.base
	w.mu.Unlock()
	if o == nil {
		return nil, tool.Fail(tool.Unknown, "There is no such tool.", nil)
	}
	r, err := o.Request(base, args)
	if err != nil {
		return nil, tool.Fail(tool.BadArgs, err.Error(), nil)
	}
	resp, err := w.sender.do(ctx, func() (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
		if err != nil {
			return nil, errors.New("the arguments give no valid address")
		}
		req.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.5")
		for name, value := range r.Header {
			req.Header.Set(name, value)
		}
		w.settings.authorize(req)
		trace.AddTo(req.Header)
		return req, nil
	})
	if err != nil {
		return nil, w.failure(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, openapi.MaxResponse+1))
	if err != nil {
		return nil, w.failure(&connectionLostError{err})
	}
	return o.Result(&openapi.Response{Status: resp.StatusCode, Header: resp.Header, Body: body,
		TooLarge: len(body) > openapi.MaxResponse}, w.s.redact), nil
}

// failure is the error of a call that got no response.
func (w *apiWire) failure(err error) error {
	e := &tool.Error{Code: tool.Lost, Cause: clip(w.s.redact(err.Error()), maxCause),
		Told: "The connection to " + w.name + " broke during the call. It is not known whether the call was carried out."}
	if _, unsent := errors.AsType[*unsentError](err); unsent {
		e.Code, e.Told = tool.Offline, w.name+" cannot be reached at the moment. Try again later."
	}
	return e
}
