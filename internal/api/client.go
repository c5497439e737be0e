package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// Client calls the operations of a server. It is safe for concurrent use.
type Client struct {
	URL  string // of the server, without a slash at its end
	Key  string
	Lang i18n.Lang // of error messages
	HTTP http.Client
}

const (
	// callLimit is how long a client waits for an operation that is not expected to last.
	callLimit = 15 * time.Second
	// maxReply is the maximum size of a response, in bytes.
	maxReply = 16 << 20
)

// NewClient returns a client for the server at a URL.
func NewClient(url, key string, lang i18n.Lang) *Client {
	return &Client{URL: strings.TrimRight(url, "/"), Key: key, Lang: lang, HTTP: http.Client{
		// A redirect would send the key to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ErrUnauthorized means that the server refuses the key.
var ErrUnauthorized = i18n.Message("the server rejects the key; it needs scope operator or admin, and must not be revoked").Errorf()

const (
	msgNotPatchbay = i18n.Message("%s does not respond like a Patchbay server")
	msgAnswers     = i18n.Message("%s answers %s; is it a Patchbay server?")
	msgUnreachable = i18n.Message("%s cannot be reached: %v")
	msgUnnamed     = i18n.Message("a name or number is missing")
	msgBroke       = i18n.Message("the connection was lost before the answer was complete")
)

// Call calls the operation. Its error is a [*ServerError] if the server refuses.
func (o *Op[In, Out]) Call(ctx context.Context, c *Client, in In) (out Out, err error) {
	err = c.call(ctx, &o.Operation, in, &out)
	return out, err
}

// call calls an operation and decodes its response into *out. It is apart from [Op.Call] so that
// the program has it once, and not for each pair of types.
func (c *Client) call(ctx context.Context, o *Operation, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.limit, callLimit))
	defer cancel()
	path, query := o.Path, url.Values{}
	if v := reflect.ValueOf(in); v.Kind() == reflect.Struct {
		path = writeAddress(v, path, query)
	}
	if strings.HasSuffix(path, "/") || strings.Contains(path, "//") { // no handler has an empty wildcard
		return &ServerError{Failure{Message: msgUnnamed.In(c.Lang)}, http.StatusNotFound}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var body any
	if o.Method != http.MethodGet && o.Method != http.MethodDelete {
		body = in
	}
	resp, err := c.Send(ctx, o.Method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, cmp.Or(o.reply, maxReply))).Decode(out); err != nil {
		return msgNotPatchbay.Errorf(c.URL)
	}
	return nil
}

// writeAddress adds the fields of a struct that are in the URL to its path and query, as
// readAddress reads them.
func writeAddress(v reflect.Value, path string, query url.Values) string {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch name, inQuery := f.Tag.Get("path"), f.Tag.Get("query"); {
		case name != "":
			path = strings.ReplaceAll(path, "{"+name+"}", escapeSegment(addressText(v.Field(i))))
		case inQuery != "":
			if !v.Field(i).IsZero() {
				query.Set(inQuery, addressText(v.Field(i)))
			}
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			path = writeAddress(v.Field(i), path, query)
		}
	}
	return path
}

// escapeSegment escapes a text for a segment of a path. Servers would resolve a bare . or .. .
func escapeSegment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// addressText formats a field for the URL.
func addressText(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		if text, err := m.MarshalText(); err == nil {
			return string(text)
		}
	}
	panic(fmt.Sprintf("a field of type %s cannot be in an address", v.Type()))
}

// Send sends a request with a body in JSON; nil is no body, and a reader is the body itself. The
// response has status 200, and its body has to be closed. Its error is a [*ServerError] if the
// server refuses.
func (c *Client) Send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		content = b
	default:
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, content)
	if err != nil {
		return nil, err
	}
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.Do(req)
}

// Do sends a request with the client's key. It returns what [Client.Send] does; the response may
// also have the other statuses.
func (c *Client) Do(req *http.Request, others ...int) (*http.Response, error) {
	req.Header.Set("Authorization", "Bearer "+c.Key)
	req.Header.Set("Accept-Language", string(c.Lang))
	req.Header.Set("User-Agent", "patchbay")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if e, ok := err.(*url.Error); ok { //nolint:errorlint // it is what Do returns
			err = e.Err // which does not repeat method and URL
		}
		return nil, msgUnreachable.Errorf(c.URL, err)
	}
	if resp.StatusCode == http.StatusOK || slices.Contains(others, resp.StatusCode) {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		return nil, ErrUnauthorized
	}
	e := &ServerError{Status: resp.StatusCode}
	if json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&e.Failure) != nil || e.Message == "" {
		return nil, msgAnswers.Errorf(c.URL, resp.Status)
	}
	return nil, e
}

// ServerError is the response of a server that refuses or fails.
type ServerError struct {
	Failure
	Status int // HTTP status
}

// Error implements error, in the language of the client.
func (e *ServerError) Error() string { return e.Message }

// Ask asks a bot and calls line with the lines of the answer as they arrive.
func (c *Client) Ask(ctx context.Context, q any, line func(Line) error) error {
	return stream(ctx, c, http.MethodPost, "/api/v1/ask", q, func(l Line) (bool, error) { return l.End, line(l) })
}

// CallTool calls a tool and calls line with the lines of its response.
func (c *Client) CallTool(ctx context.Context, q ToolCall, line func(ToolLine) error) error {
	return stream(ctx, c, http.MethodPost, "/api/v1/tools/"+url.PathEscape(q.Name)+"/call", q,
		func(l ToolLine) (bool, error) { return l.End, line(l) })
}

// CallDeviceTool calls a tool of a device by its own or its full name, and calls line with the
// lines of its response.
func (c *Client) CallDeviceTool(ctx context.Context, device string, q ToolCall, line func(ToolLine) error) error {
	return stream(ctx, c, http.MethodPost,
		"/api/v1/devices/"+url.PathEscape(device)+"/tools/"+url.PathEscape(q.Name)+"/call", q,
		func(l ToolLine) (bool, error) { return l.End, line(l) })
}

// Listen returns what a device hears, as an Ogg stream, until ctx ends. The caller closes it.
func (c *Client) Listen(ctx context.Context, device string) (io.ReadCloser, error) {
	resp, err := c.Send(ctx, http.MethodGet, "/api/v1/devices/"+url.PathEscape(device)+"/listen", nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Notices calls line with the notices of all devices, or of one, until ctx ends.
func (c *Client) Notices(ctx context.Context, device string, line func(NoticeLine) error) error {
	path := "/api/v1/notices"
	if device != "" {
		path += "?" + url.Values{"device": {device}}.Encode()
	}
	return stream(ctx, c, http.MethodGet, path, nil, func(l NoticeLine) (bool, error) { return false, line(l) })
}

// Backup starts a backup and returns it, encrypted if there is a passphrase. The caller closes it.
// An error while it is read means that the backup is incomplete.
func (c *Client) Backup(ctx context.Context, passphrase string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/api/v1/backup", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set(passphraseHeader, passphrase)
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Restore sends a backup, which the next start of the server restores. The passphrase is that of an
// encrypted backup.
func (c *Client) Restore(ctx context.Context, passphrase string, file io.Reader) (out control.Restoring, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/api/v1/restore", file)
	if err != nil {
		return out, err
	}
	req.Header.Set(passphraseHeader, passphrase)
	resp, err := c.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&out); err != nil {
		return out, msgNotPatchbay.Errorf(c.URL)
	}
	return out, nil
}

// stream sends a request and calls line with the lines of its response as they arrive, until one is
// the last.
func stream[T any](ctx context.Context, c *Client, method, path string, body any,
	line func(T) (last bool, err error)) error {
	resp, err := c.Send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(resp.Body)
	for {
		var l T
		if err := lines.Decode(&l); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return msgBroke.Errorf()
		}
		if last, err := line(l); err != nil || last {
			return err
		}
	}
}
