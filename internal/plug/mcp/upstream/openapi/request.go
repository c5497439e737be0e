package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxURL limits the address of a request, in bytes; servers refuse longer ones.
const maxURL = 16 << 10

// Request is the request that a call stands for.
type Request struct {
	Method string
	URL    string
	Header map[string]string
	Body   []byte // nil: none
}

// Errors of arguments, for models.
var (
	errArgs    = errors.New("the arguments must be a JSON object")
	errTooLong = errors.New("the arguments are too long for an address")
)

var templateName = regexp.MustCompile(`\{([^{}/]*)\}`)

// validPath reports whether the path begins at the server's address, stays below it, and has a
// parameter for each of its gaps.
func (o *Operation) validPath() bool {
	if len(o.path) > maxPath {
		return false
	}
	rest := templateName.ReplaceAllStringFunc(o.path, func(gap string) string {
		for _, p := range o.params {
			if p.in == "path" && "{"+p.name+"}" == gap {
				return "x"
			}
		}
		return gap
	})
	if !strings.HasPrefix(o.path, "/") || strings.ContainsAny(rest, "{}?#\\") {
		return false
	}
	plain, err := url.PathUnescape(rest)
	return err == nil && (&url.URL{Path: plain, RawPath: rest}).EscapedPath() == rest && !hasDots(rest)
}

// hasDots reports whether a path has a segment that leads upwards, or stays where it is (RFC 3986
// §5.2.4), also if a server first decodes it.
func hasDots(path string) bool {
	plain, err := url.PathUnescape(path)
	segments := strings.FieldsFunc(plain, func(r rune) bool { return r == '/' || r == '\\' })
	return err != nil || slices.Contains(segments, ".") || slices.Contains(segments, "..")
}

// Request makes the request of a call. Its errors are texts for whoever called.
func (o *Operation) Request(base *url.URL, raw json.RawMessage) (*Request, error) {
	args := map[string]any{}
	if len(raw) > 0 {
		in := json.NewDecoder(bytes.NewReader(raw))
		in.UseNumber()
		if in.Decode(&args) != nil || args == nil {
			return nil, errArgs
		}
	}
	path, query, header, err := o.place(args)
	if err != nil {
		return nil, err
	}
	origin := url.URL{Scheme: base.Scheme, Host: base.Host}
	address := origin.String() + strings.TrimSuffix(base.EscapedPath(), "/") + path
	if len(query) > 0 {
		address += "?" + strings.Join(query, "&")
	}
	if len(address) > maxURL {
		return nil, errTooLong
	}
	if u, err := url.Parse(address); err != nil || u.Host != base.Host || u.Scheme != base.Scheme {
		return nil, errors.New("the arguments give no valid address")
	}
	r := &Request{Method: o.method, URL: address, Header: header}
	return r, o.writeBody(r, args)
}

// place puts arguments where the parameters belong.
func (o *Operation) place(args map[string]any) (path string, query []string, header map[string]string, err error) {
	path, header = o.path, map[string]string{}
	gaps := map[string]string{}
	for i := range o.params {
		p := &o.params[i]
		v, given := args[p.arg]
		if !given || v == nil {
			if p.required {
				return "", nil, nil, fmt.Errorf("the argument %s is missing", p.arg)
			}
			continue
		}
		switch p.in {
		case "query":
			query = append(query, p.asQuery(v)...)
		case "header":
			value := strings.TrimSpace(p.asPath(v))
			if !httpguts.ValidHeaderFieldValue(value) || len(value) > maxURL {
				return "", nil, nil, fmt.Errorf("the argument %s cannot be sent in a header", p.arg)
			}
			header[p.name] = value
		case "path":
			text := p.asPath(v)
			if text == "" || len(text) > maxURL {
				return "", nil, nil, fmt.Errorf("the argument %s is empty or too long", p.arg)
			}
			gaps["{"+p.name+"}"] = text
		}
	}
	path = templateName.ReplaceAllStringFunc(path, func(gap string) string { return gaps[gap] })
	if hasDots(path) {
		return "", nil, nil, errors.New("the arguments make a path that leads elsewhere")
	}
	return path, query, header, nil
}

// content returns what the body is made of, and false if nothing was given for it.
func (b *body) content(args map[string]any) (any, bool) {
	if b.arg != "" {
		v, given := args[b.arg]
		return v, given
	}
	members := map[string]any{}
	for arg, name := range b.names {
		if v, given := args[arg]; given {
			members[name] = v
		}
	}
	return members, len(members) > 0
}

// writeBody writes the body of a request.
func (o *Operation) writeBody(r *Request, args map[string]any) error {
	if o.body == nil {
		return nil
	}
	content, given := o.body.content(args)
	if !given {
		return nil
	}
	r.Header["Content-Type"] = o.body.kind
	switch o.body.form {
	case asText:
		r.Body = []byte(flat(content))
		return nil
	case asForm:
		r.Body = []byte(o.body.urlencoded(object(content)))
		return nil
	case asMultipart:
		return o.body.multipart(r, object(content))
	}
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(content); err != nil {
		return errArgs
	}
	r.Body = bytes.TrimSpace(w.Bytes())
	return nil
}

// urlencoded writes a form: arrays as repeated members, and objects as JSON, unless the document
// gives a style.
func (b *body) urlencoded(members map[string]any) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		p, ok := b.styles[name]
		if !ok {
			p = param{name: name, in: "query", style: "form", explode: true}
			p.json = object(members[name]) != nil
		}
		list = append(list, p.asQuery(members[name])...)
	}
	return strings.Join(list, "&")
}

// multipart writes a form of texts (RFC 7578).
func (b *body) multipart(r *Request, members map[string]any) error {
	var w bytes.Buffer
	form := multipart.NewWriter(&w)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		list, ok := members[name].([]any)
		if !ok {
			list = []any{members[name]}
		}
		for _, v := range list {
			if err := form.WriteField(name, flat(v)); err != nil {
				return err
			}
		}
	}
	if err := form.Close(); err != nil {
		return err
	}
	r.Header["Content-Type"], r.Body = form.FormDataContentType(), w.Bytes()
	return nil
}
