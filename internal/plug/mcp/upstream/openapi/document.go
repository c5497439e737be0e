// Package openapi reads OpenAPI documents of 3.0 and 3.1, and makes tools of their operations: what
// a tool accepts, the HTTP request that a call of it stands for, and the result that a response is.
//
// It reads only what that needs, with bounds on everything, because documents come from strangers.
// Comments cite the OpenAPI Specification 3.1.1 ("OAS") by section.
package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"patchbay/internal/i18n"
	"patchbay/internal/jsonrpc"
)

const (
	// MaxSize limits a document, in bytes.
	MaxSize = 2 << 20
	// maxMarks limits the characters of a document that begin or separate values. Each value takes
	// a hundred times the memory of its mark.
	maxMarks = 500_000
	// maxDepth limits the nesting of a document.
	maxDepth = 100
	// maxValues limits the values of a document, where each alias counts as what it stands for.
	maxValues = 500_000
	// maxHops limits the references to references.
	maxHops = 16
	// maxRef limits a reference, in bytes.
	maxRef = 500
)

// versions are those that are read. Of 3.2, what is new is not.
var versions = []string{"3.0", "3.1", "3.2"}

// Errors of documents.
const (
	msgTooLarge   = i18n.Message("The OpenAPI document is too large: it may have %d bytes, and %d values.")
	msgUnreadable = i18n.Message("The OpenAPI document is neither JSON nor YAML that can be read.")
	msgNoOpenAPI  = i18n.Message("That is no OpenAPI document: it has no member openapi. See whether the address is that of the document itself.")
	msgVersion    = i18n.Message("The document is of OpenAPI %s; 3.0, 3.1 and 3.2 can be read.")
	msgNoPaths    = i18n.Message("The OpenAPI document has no operations.")
	msgNoServer   = i18n.Message("The OpenAPI document names no server that can be used. Set base_url to the address of the API.")
)

var (
	errDeep   = errors.New("nested too deep")
	errAmount = errors.New("too many values")
	errRef    = errors.New("a reference that leads nowhere, or out of the document")
)

// Document is an OpenAPI document.
type Document struct {
	// Title and Version are those of the API, and OpenAPI the version of the specification.
	Title, Version, OpenAPI string
	root                    map[string]any
}

// Parse reads a document in JSON or YAML. Its errors are texts for whoever gave it.
func Parse(text []byte) (*Document, error) {
	if len(text) > MaxSize || marks(text) > maxMarks {
		return nil, msgTooLarge.Errorf(MaxSize, maxValues)
	}
	root, err := readTree(text)
	if errors.Is(err, errAmount) {
		return nil, msgTooLarge.Errorf(MaxSize, maxValues)
	}
	top, ok := root.(map[string]any)
	if err != nil || !ok {
		return nil, msgUnreadable.Errorf()
	}
	d := &Document{root: top}
	switch version := top["openapi"].(type) {
	case string:
		d.OpenAPI = clip(version, 20)
	case json.Number:
		d.OpenAPI = clip(version.String(), 20)
	}
	if swagger, old := top["swagger"]; old && d.OpenAPI == "" {
		version, _ := scalar(swagger)
		return nil, msgVersion.Errorf(clip(version, 20))
	}
	switch {
	case d.OpenAPI == "":
		return nil, msgNoOpenAPI.Errorf()
	case !slices.ContainsFunc(versions, func(v string) bool { return strings.HasPrefix(d.OpenAPI, v) }):
		return nil, msgVersion.Errorf(d.OpenAPI)
	case len(object(top["paths"])) == 0:
		return nil, msgNoPaths.Errorf()
	}
	info := object(top["info"])
	d.Title, d.Version = clip(textOf(info["title"]), 200), clip(textOf(info["version"]), 100)
	return d, nil
}

// marks counts the characters that begin or separate values: no document has more values.
func marks(text []byte) (n int) {
	for _, c := range text {
		switch c {
		case ',', ':', '\n', '[', '{', '-':
			n++
		}
	}
	return n
}

// readTree parses JSON or YAML to values as encoding/json makes them, with numbers as texts.
func readTree(text []byte) (any, error) {
	text = bytes.TrimPrefix(bytes.TrimSpace(text), []byte("\ufeff"))
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	if bytes.HasPrefix(text, []byte("{")) && jsonrpc.Depth(text) <= maxDepth {
		in := json.NewDecoder(bytes.NewReader(text))
		in.UseNumber()
		var root any
		if err := in.Decode(&root); err == nil {
			if _, err = in.Token(); errors.Is(err, io.EOF) {
				return root, nil
			}
		}
	}
	if jsonrpc.Depth(text) > 10*maxDepth { // the parser of YAML recurses
		return nil, errDeep
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return nil, err
	}
	t := tree{left: maxValues}
	return t.value(&node, 0)
}

// tree converts nodes of YAML.
type tree struct{ left int }

func (t *tree) value(n *yaml.Node, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	if t.left--; t.left < 0 {
		return nil, errAmount
	}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) != 1 {
			return nil, errors.New("empty")
		}
		return t.value(n.Content[0], depth+1)
	case yaml.AliasNode: // one that contains itself ends at maxDepth
		return t.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := t.value(c, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		return t.object(n, depth)
	}
	return scalarNode(n), nil
}

func (t *tree) object(n *yaml.Node, depth int) (any, error) {
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		v, err := t.value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if merged := object(v); key.ShortTag() == "!!merge" && merged != nil {
			for name, v := range merged {
				if t.left--; t.left < 0 {
					return nil, errAmount
				}
				if _, has := out[name]; !has {
					out[name] = v
				}
			}
			continue
		}
		if key.Kind != yaml.ScalarNode {
			return nil, errors.New("a key is no text")
		}
		out[key.Value] = v // as it is written: 200 is the name of a response
	}
	return out, nil
}

func scalarNode(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
		var f float64
		if n.Decode(&f) == nil {
			if text, err := json.Marshal(f); err == nil {
				return json.Number(text)
			}
		}
	}
	return n.Value
}

// pointerToken decodes a token of a JSON pointer (RFC 6901 §4).
var pointerToken = strings.NewReplacer("~1", "/", "~0", "~")

// lookUp returns what a reference within the document leads to.
func (d *Document) lookUp(ref string) (any, error) {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok || len(ref) > maxRef {
		return nil, errRef
	}
	var at any = d.root
	for token := range strings.SplitSeq(pointer, "/") {
		name, err := url.PathUnescape(token) // RFC 6901 §6
		if err != nil {
			return nil, errRef
		}
		name = pointerToken.Replace(name)
		if at, ok = object(at)[name]; !ok {
			return nil, errRef
		}
	}
	return at, nil
}

// resolve follows references to an object.
func (d *Document) resolve(v any) (map[string]any, error) {
	for range maxHops {
		m := object(v)
		if m == nil {
			return nil, errRef
		}
		ref, ok := m["$ref"].(string)
		if !ok {
			return m, nil
		}
		var err error
		if v, err = d.lookUp(ref); err != nil {
			return nil, err
		}
	}
	return nil, errRef
}

// Server returns the address of the first server of the document that can be used. It is relative
// to that of the document, which is nil if the document has none.
func (d *Document) Server(from *url.URL) (*url.URL, error) {
	list, _ := d.root["servers"].([]any)
	if len(list) == 0 {
		list = []any{map[string]any{"url": "/"}} // OAS "OpenAPI Object", servers
	}
	for _, one := range list {
		if u := serverURL(object(one), from); u != nil {
			return u, nil
		}
	}
	return nil, msgNoServer.Errorf()
}

// serverURL returns the address of a server, or nil.
func serverURL(server map[string]any, from *url.URL) *url.URL {
	address, variables := textOf(server["url"]), object(server["variables"])
	for name, v := range variables {
		value, _ := scalar(object(v)["default"])
		address = strings.ReplaceAll(address, "{"+name+"}", value)
		if len(address) > 2000 {
			return nil
		}
	}
	u, err := url.Parse(address)
	if err == nil && from != nil {
		u = (&url.URL{Scheme: from.Scheme, Host: from.Host, Path: from.Path}).ResolveReference(u)
	}
	if err != nil || address == "" || strings.Contains(address, "{") || u.Scheme != "http" && u.Scheme != "https" ||
		u.Host == "" || u.User != nil {
		return nil
	}
	u.RawQuery, u.Fragment = "", ""
	return u
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}

func isTrue(v any) bool { return v == true }

// clip shortens a text.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
