package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"patchbay/internal/i18n"
)

const (
	// maxOperations limits the operations of a document.
	maxOperations = 2000
	// maxWork limits the cost of all schemas of a document together.
	maxWork = 300_000
	// maxName limits the name of a tool: with the name of its upstream, model APIs take 64.
	maxName = 48
	// maxAbout limits the description of a tool, in bytes.
	maxAbout = 4 << 10
	// maxParams limits the parameters of an operation.
	maxParams = 200
	// maxPath limits the template of a path, in bytes.
	maxPath = 1000
)

// Reasons why an operation is left out; the first text is the operation.
const (
	msgLeftRef     = i18n.Message("%s: it refers to something that the document does not contain")
	msgLeftSchema  = i18n.Message("%s: a schema of it is too large, or cannot be read")
	msgLeftPath    = i18n.Message("%s: its path cannot be used")
	msgLeftServer  = i18n.Message("%s: it is on a server of its own")
	msgLeftCookie  = i18n.Message("%s: it needs a cookie")
	msgLeftHeader  = i18n.Message("%s: it needs a header that cannot be set")
	msgLeftBody    = i18n.Message("%s: bodies of the type %s cannot be sent")
	msgLeftFiles   = i18n.Message("%s: files cannot be sent")
	msgLeftMethod  = i18n.Message("%s: the method is not supported")
	msgLeftTooMany = i18n.Message("%d further operations: the document has too many")
)

// methods are those whose operations become tools.
var methods = []string{"get", "head", "put", "post", "delete", "patch"}

// Credentials name what the owner has set and the document must not ask models for.
type Credentials struct {
	Headers []string // names in lower case
	Query   []string
}

// Operation is an operation of a document, as a tool.
type Operation struct {
	// Name is that of the tool, and Listed the tool as an MCP server lists it.
	Name   string
	Listed json.RawMessage
	// Whole is the same with the parameters that the owner has set. It does not depend on settings.
	Whole json.RawMessage

	method, path string
	params       []param
	body         *body
	hasOutput    bool
}

// reader makes tools of operations.
type reader struct {
	d        *Document
	known    Credentials
	work     int
	spare    int // work left for reading operations without credentials
	names    map[string]bool
	tools    []*Operation
	left     []i18n.Text
	overflow int
}

// Operations returns the operations that can be called, and why the others cannot.
func (d *Document) Operations(known Credentials) (list []*Operation, left []i18n.Text) {
	r := &reader{d: d, known: known, work: maxWork, spare: maxWork, names: map[string]bool{}}
	paths := object(d.root["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, err := d.resolve(paths[path])
		if err != nil {
			r.leave(msgLeftRef.With(clip(path, 100)))
			continue
		}
		for _, method := range methods {
			if item[method] != nil {
				r.add(method, path, item)
			}
		}
		for _, method := range []string{"options", "trace"} {
			if item[method] != nil {
				r.leave(msgLeftMethod.With(title(method, path)))
			}
		}
	}
	if r.overflow > 0 {
		r.left = append(r.left, msgLeftTooMany.With(r.overflow))
	}
	return r.tools, r.left
}

func title(method, path string) string { return strings.ToUpper(method) + " " + clip(path, 100) }

func (r *reader) leave(why i18n.Text) {
	if len(r.left) >= maxOperations {
		r.overflow++
		return
	}
	r.left = append(r.left, why)
}

// add adds an operation, or records why it is left out.
func (r *reader) add(method, path string, item map[string]any) {
	if len(r.tools)+len(r.left) >= maxOperations || r.work <= 0 {
		r.overflow++
		return
	}
	op := object(item[method])
	name := title(method, path)
	if op == nil {
		r.leave(msgLeftRef.With(name))
		return
	}
	if op["servers"] != nil || item["servers"] != nil {
		r.leave(msgLeftServer.With(name))
		return
	}
	o := &Operation{method: strings.ToUpper(method), path: path}
	why, err := r.read(o, op, item)
	switch {
	case !why.IsZero():
		r.leave(why)
	case errors.Is(err, errRef):
		r.leave(msgLeftRef.With(name))
	case err != nil:
		r.leave(msgLeftSchema.With(name))
	default:
		o.Whole = r.whole(o, op, item)
		r.names[o.Name] = true
		r.tools = append(r.tools, o)
	}
}

// whole returns the tool of an operation that was read as it is without credentials. That has its
// own limit of work: otherwise credentials would decide which operations are left out.
func (r *reader) whole(o *Operation, op, item map[string]any) json.RawMessage {
	if len(r.known.Headers) == 0 && len(r.known.Query) == 0 {
		return o.Listed
	}
	known, work := r.known, r.work
	r.known, r.work = Credentials{}, r.spare
	defer func() { r.known, r.work, r.spare = known, work, r.work }()
	bare := &Operation{method: o.method, path: o.path}
	if why, err := r.read(bare, op, item); err != nil || !why.IsZero() {
		return o.Listed
	}
	return bare.Listed
}

// read reads an operation. A text says why it is left out.
func (r *reader) read(o *Operation, op, item map[string]any) (why i18n.Text, err error) {
	name := title(o.method, o.path)
	in := &input{properties: map[string]any{}, defs: map[string]any{}}
	if why, err = r.params(o, in, op, item); err != nil || !why.IsZero() {
		return why, err
	}
	if !o.validPath() {
		return msgLeftPath.With(name), nil
	}
	if op["requestBody"] != nil && o.method != "GET" && o.method != "HEAD" {
		if why, err = r.readBody(o, in, op["requestBody"]); err != nil || !why.IsZero() {
			return why, err
		}
	}
	o.Name = r.name(op, o.method, o.path)
	listed := map[string]any{"name": o.Name, "inputSchema": in.schema(), "annotations": hints(o.method)}
	if short := clip(textOf(op["summary"]), 200); short != "" {
		listed["title"] = short
	}
	if about := about(op); about != "" {
		listed["description"] = about
	} else {
		listed["description"] = name
	}
	if out := r.output(op); out != nil {
		listed["outputSchema"], o.hasOutput = out, true
	}
	o.Listed, err = json.Marshal(listed)
	return i18n.Text{}, err
}

// about returns the description of an operation.
func about(op map[string]any) string {
	short, long := strings.TrimSpace(textOf(op["summary"])), strings.TrimSpace(textOf(op["description"]))
	text := long
	if !strings.HasPrefix(long, short) {
		text = strings.TrimSpace(short + "\n\n" + long)
	}
	if text == "" {
		text = short
	}
	if isTrue(op["deprecated"]) {
		text = strings.TrimSpace("Deprecated. " + text)
	}
	return clip(text, maxAbout)
}

// hints returns the annotations of a tool (RFC 9110 §9.2: safe and idempotent methods).
func hints(method string) map[string]bool {
	switch method {
	case "GET", "HEAD":
		return map[string]bool{"readOnlyHint": true, "openWorldHint": true}
	case "DELETE":
		return map[string]bool{"readOnlyHint": false, "destructiveHint": true, "idempotentHint": true,
			"openWorldHint": true}
	case "PUT":
		return map[string]bool{"readOnlyHint": false, "idempotentHint": true, "openWorldHint": true}
	}
	return map[string]bool{"readOnlyHint": false, "openWorldHint": true}
}

// name returns the name of a tool: the operation's, or its method and path.
func (r *reader) name(op map[string]any, method, path string) string {
	full := strings.ToLower(method) + "_" + path
	if id := textOf(op["operationId"]); id != "" {
		if name := toName(id, maxName); !r.names[name] {
			return name
		}
	}
	name := toName(full, maxName)
	if r.names[name] || len(full) > maxName {
		sum := sha256.Sum256([]byte(full))
		name = toName(full, maxName-9) + "_" + hex.EncodeToString(sum[:4])
	}
	return name
}

// toName makes a name of letters, digits, "_" and "-" of a text.
func toName(text string, limit int) string {
	var b strings.Builder
	gap := false
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
			if gap && b.Len() > 0 {
				b.WriteByte('_')
			}
			gap = false
			b.WriteRune(c)
		default:
			gap = true
		}
		if b.Len() >= limit {
			break
		}
	}
	name := strings.Trim(b.String()[:min(b.Len(), limit)], "_-")
	if name == "" {
		sum := sha256.Sum256([]byte(text))
		return "op_" + hex.EncodeToString(sum[:4])
	}
	return name
}

// input collects the arguments of a tool.
type input struct {
	properties, defs map[string]any
	required         []string
}

func (in *input) schema() map[string]any {
	out := map[string]any{"type": "object", "properties": in.properties, "additionalProperties": false}
	if len(in.required) > 0 {
		out["required"] = in.required
	}
	if len(in.defs) > 0 {
		out["$defs"] = in.defs
	}
	return out
}

// unused returns a name that no argument has: the wanted one, or with a suffix.
func (in *input) unused(name, suffix string) string {
	for in.properties[name] != nil {
		name += suffix
	}
	return name
}

// add converts a schema and adds it as an argument.
func (in *input) add(r *reader, name string, schema any, about string, required bool) error {
	out, defs, err := r.d.schema(schema, forInput, &r.work)
	if err != nil {
		return err
	}
	if s := object(out); s != nil && about != "" {
		s["description"] = clip(about, maxSchemaText)
	}
	if err := in.define(defs); err != nil {
		return err
	}
	in.properties[name] = out
	if required {
		in.required = append(in.required, name)
	}
	return nil
}

// define adds definitions. Those of one name are of one schema, unless the document has several
// places with schemas.
func (in *input) define(defs map[string]any) error {
	for name, s := range defs {
		if old, has := in.defs[name]; has && !sameJSON(old, s) {
			return errSchema
		}
		in.defs[name] = s
	}
	if size(in.defs)+size(in.properties) > maxSchemaCost {
		return errCost
	}
	return nil
}

func size(m map[string]any) int { return cost(m) }

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// params reads the parameters of an operation: those of its path, and its own, which take
// precedence (OAS "Operation Object", parameters).
func (r *reader) params(o *Operation, in *input, op, item map[string]any) (why i18n.Text, err error) {
	all := map[string]map[string]any{}
	var order []string
	for _, from := range []any{item["parameters"], op["parameters"]} {
		list, _ := from.([]any)
		for _, v := range list {
			p, err := r.d.resolve(v)
			if err != nil {
				return why, err
			}
			id := textOf(p["in"]) + " " + textOf(p["name"])
			if all[id] == nil {
				order = append(order, id)
			}
			all[id] = p
		}
	}
	if len(order) > maxParams {
		return why, errCost
	}
	for _, id := range order {
		if why, err = r.param(o, in, all[id]); err != nil || !why.IsZero() {
			return why, err
		}
	}
	return why, nil
}

// param reads one parameter.
func (r *reader) param(o *Operation, in *input, raw map[string]any) (why i18n.Text, err error) {
	p := param{name: textOf(raw["name"]), in: textOf(raw["in"]), required: isTrue(raw["required"]),
		reserved: isTrue(raw["allowReserved"])}
	switch {
	case p.name == "" || len(p.name) > 200:
		return why, errSchema
	case p.in == "header" && slices.Contains(r.known.Headers, strings.ToLower(p.name)),
		p.in == "query" && slices.Contains(r.known.Query, p.name),
		// OAS "Parameter Object", name: these headers are described elsewhere in a document.
		p.in == "header" && slices.Contains([]string{"accept", "content-type", "authorization"},
			strings.ToLower(p.name)):
		return why, nil
	case p.in == "cookie" && p.required:
		return msgLeftCookie.With(title(o.method, o.path)), nil
	case p.in == "cookie":
		return why, nil
	case p.in == "header" && isReserved(p.name):
		if p.required {
			return msgLeftHeader.With(title(o.method, o.path)), nil
		}
		return why, nil
	case p.in != "path" && p.in != "query" && p.in != "header":
		return why, errSchema
	}
	p.setStyle(raw)
	schema := raw["schema"]
	if content := object(raw["content"]); len(content) > 0 {
		schema, p.json = object(content["application/json"])["schema"], true
	}
	if schema == nil {
		schema = map[string]any{}
	}
	p.arg = in.unused(p.name, "_"+p.in)
	p.required = p.required || p.in == "path"
	o.params = append(o.params, p)
	return why, in.add(r, p.arg, schema, textOf(raw["description"]), p.required)
}

// isReserved reports whether a header belongs to the connection, or to whoever sends the request.
func isReserved(name string) bool {
	lower := strings.ToLower(name)
	return !httpguts.ValidHeaderFieldName(name) || strings.HasPrefix(lower, "proxy-") || slices.Contains([]string{
		"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive", "cookie",
		"accept-encoding", "expect", "user-agent", "origin", "referer"}, lower)
}

// output returns the schema of the results of an operation, or nil: that of the first successful
// response in JSON, if it is an object.
func (r *reader) output(op map[string]any) map[string]any {
	responses := object(op["responses"])
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		if len(status) != 3 || status[0] != '2' {
			continue
		}
		response, err := r.d.resolve(responses[status])
		if err != nil {
			return nil
		}
		kind, media := pickMedia(object(response["content"]))
		if !isJSON(kind) || media["schema"] == nil {
			continue
		}
		root, err := r.d.resolve(media["schema"])
		if err != nil || textOf(root["type"]) != "object" && root["properties"] == nil {
			return nil
		}
		out, defs, err := r.d.schema(media["schema"], forOutput, &r.work)
		schema := object(out)
		if err != nil || schema == nil {
			return nil // it can be called without
		}
		schema["type"] = "object"
		if len(defs) > 0 {
			schema["$defs"] = defs
		}
		return schema
	}
	return nil
}
