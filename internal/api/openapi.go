package api

import (
	"encoding"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// object is a JSON object. It is encoded with sorted names, so that equal descriptions are equal
// bytes.
type object = map[string]any

// openAPIPath is the path of the OpenAPI description.
const openAPIPath = "/api/v1/openapi.json"

// describe serves the description of all operations. It needs no key, because it describes the
// program and not the installation.
func (s *Server) describe() {
	s.operations = append(s.operations, Operation{
		Method: http.MethodGet, Path: openAPIPath, Summary: "Describe this API as OpenAPI",
		Out: reflect.TypeFor[json.RawMessage](), Open: true,
	})
	// Made when somebody asks: a command that uses the API in its own process never does.
	text := sync.OnceValue(func() []byte { return openAPI(s.Version, s.PublicURL, s.operations) })
	s.mux.HandleFunc(http.MethodGet+" "+openAPIPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Write(text()) //nolint:errcheck // the caller has disconnected
	})
}

// openAPI describes operations as an OpenAPI 3.1 document.
func openAPI(version, url string, operations []Operation) []byte {
	d := description{schemas: object{}, names: map[reflect.Type]string{}}
	paths := object{}
	for _, o := range operations {
		path, wildcards := plainPath(o.Path)
		item, ok := paths[path].(object)
		if !ok {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(o.Method)] = d.operation(o, path, wildcards)
	}
	if url == "" {
		url = "/"
	}
	problem := object{
		"description": "The request failed; error is a message for people.",
		"content":     jsonOf(object{"$ref": "#/components/schemas/Error"}),
	}
	d.schemas["Error"] = object{"type": "object", "required": []string{"error"},
		"properties": object{"error": object{"type": "string"}}}
	text, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Patchbay", "version": version,
			"description": "API for managing a Patchbay installation. Create keys at /keys or with patchbay key add. A key with scope operator has access to the data of its account; a key with scope admin of an administrator has access to all accounts.",
		},
		"servers":  []object{{"url": url}},
		"security": []object{{"key": []string{}}},
		"paths":    paths,
		"components": object{
			"schemas":         d.schemas,
			"responses":       object{"Problem": problem},
			"securitySchemes": object{"key": object{"type": "http", "scheme": "bearer"}},
		},
	}, "", " ")
	if err != nil {
		panic(err) // it consists of encodable values
	}
	return append(text, '\n')
}

// plainPath converts a path of [http.ServeMux] with wildcards for OpenAPI.
func plainPath(path string) (plain string, wildcards []string) {
	path = strings.ReplaceAll(strings.ReplaceAll(path, "{$}", ""), "...}", "}")
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "{") {
			wildcards = append(wildcards, strings.Trim(part, "{}"))
		}
	}
	return path, wildcards
}

// description collects the schemas of types.
type description struct {
	schemas object
	names   map[reflect.Type]string
}

func jsonOf(schema object) object { return object{"application/json": object{"schema": schema}} }

// operation describes one operation.
func (d *description) operation(o Operation, path string, wildcards []string) object {
	parameters := []object{}
	declared := map[string]bool{}
	var body []field
	if o.In != nil && o.In.Kind() == reflect.Struct {
		for _, f := range fields(o.In) {
			if f.in == "" {
				body = append(body, f)
				continue
			}
			if f.in == "path" && !slices.Contains(wildcards, f.name) {
				continue // it is in a shared type
			}
			declared[f.name] = true
			parameters = append(parameters, object{"name": f.name, "in": f.in, "required": f.in == "path",
				"schema": d.schema(f.typ)})
		}
	}
	for _, name := range wildcards {
		if !declared[name] {
			parameters = append(parameters, object{"name": name, "in": "path", "required": true,
				"schema": object{"type": "string"}})
		}
	}
	for _, name := range o.Headers {
		parameters = append(parameters, object{"name": name, "in": "header", "required": false,
			"schema": object{"type": "string"}})
	}
	ok := object{"description": "Success."}
	switch {
	case o.Kind == "":
		ok["content"] = jsonOf(d.maybe(o.Out))
	case o.Out != nil:
		ok["description"] = "Objects of this schema, one per line."
		ok["content"] = object{o.Kind: object{"schema": d.maybe(o.Out)}}
	default:
		ok["content"] = object{o.Kind: object{}}
	}
	out := object{
		"operationId": operationID(o.Method, path), "summary": o.Summary, "tags": []string{tag(path)},
		"responses": object{"200": ok, "4XX": object{"$ref": "#/components/responses/Problem"},
			"5XX": object{"$ref": "#/components/responses/Problem"}},
	}
	if o.Scope != "" {
		out["description"] = "Keys with scope " + o.Scope + " are also accepted."
	}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	switch {
	case o.Takes != "":
		out["requestBody"] = object{"required": true, "content": object{o.Takes: object{}}}
	case len(body) > 0 && o.Method != http.MethodGet && o.Method != http.MethodDelete:
		out["requestBody"] = object{"required": true, "content": jsonOf(d.schema(o.In))}
	}
	if o.Open {
		out["security"] = []object{}
	}
	return out
}

// operationID returns the name of an operation for generated clients.
func operationID(method, path string) string {
	id := strings.ToLower(method)
	for word := range strings.FieldsFuncSeq(strings.TrimPrefix(path, "/api/v1"),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

// tag returns the group of an operation.
func tag(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/v1/"), "/")
	first, _, _ = strings.Cut(first, ".")
	return first
}

// maybe returns the schema of a type that may be nil.
func (d *description) maybe(t reflect.Type) object {
	if t == nil {
		return object{}
	}
	return d.schema(t)
}

// field is a field of a struct in JSON.
type field struct {
	name     string
	in       string // path or query; empty: the body
	typ      reflect.Type
	optional bool
	text     bool // a number that is encoded as a string
}

// fields lists the fields of a struct and of its embedded structs. Of two with the same name the
// outer one counts.
func fields(t reflect.Type) (list []field) {
	at := map[string]int{}
	var inner []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		x := field{name: name, typ: f.Type, optional: strings.Contains(options, "omit"),
			text: strings.Contains(options, "string")}
		switch {
		case f.Tag.Get("path") != "":
			x.name, x.in = f.Tag.Get("path"), "path"
		case f.Tag.Get("query") != "":
			x.name, x.in = f.Tag.Get("query"), "query"
		case name == "-":
			continue
		case f.Anonymous && name == "":
			e := f.Type
			if e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			if e.Kind() == reflect.Struct {
				inner = append(inner, fields(e)...)
				continue
			}
			x.name = f.Name
		case !f.IsExported():
			continue
		case name == "":
			x.name = f.Name
		}
		at[x.name] = len(list)
		list = append(list, x)
	}
	for _, x := range inner {
		if _, ok := at[x.name]; !ok {
			at[x.name] = len(list)
			list = append(list, x)
		}
	}
	return list
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	rawType    = reflect.TypeFor[json.RawMessage]()
	numberType = reflect.TypeFor[json.Number]()
	textType   = reflect.TypeFor[encoding.TextMarshaler]()
	ownType    = reflect.TypeFor[json.Marshaler]()
)

// schema describes a type. A named struct is described once and referred to.
func (d *description) schema(t reflect.Type) object {
	switch {
	case t == timeType:
		return object{"type": "string", "format": "date-time"}
	case t == rawType:
		return object{} // any type
	case t == numberType:
		return object{"type": "number"}
	case t.Kind() == reflect.Pointer:
		return d.schema(t.Elem())
	case t.Implements(ownType) || reflect.PointerTo(t).Implements(ownType):
		return object{}
	case t.Implements(textType) || reflect.PointerTo(t).Implements(textType):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case reflect.Struct:
		return d.named(t)
	}
	return object{}
}

// named returns a reference to the schema of a struct.
func (d *description) named(t reflect.Type) object {
	if t.Name() == "" {
		return d.properties(t)
	}
	name, ok := d.names[t]
	if !ok {
		name = d.free(t)
		d.names[t] = name
		d.schemas[name] = object{} // it may contain itself
		d.schemas[name] = d.properties(t)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// free returns an unused name for a type: two packages may have types of the same name.
func (d *description) free(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	name = strings.ToUpper(name[:1]) + name[1:]
	if _, taken := d.schemas[name]; !taken && name != "Error" {
		return name
	}
	of := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
	name = strings.ToUpper(of[:1]) + of[1:] + name
	for _, taken := d.schemas[name]; taken; _, taken = d.schemas[name] {
		name += "X"
	}
	return name
}

// properties describes the fields of a struct that are in the body.
func (d *description) properties(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range fields(t) {
		if f.in != "" {
			continue
		}
		s := d.schema(f.typ)
		if f.text {
			s = object{"type": "string"}
		}
		if !f.optional {
			required = append(required, f.name)
			switch f.typ.Kind() {
			case reflect.Pointer, reflect.Slice, reflect.Map: // nil is left out
				if len(s) > 0 {
					s = object{"anyOf": []object{s, {"type": "null"}}}
				}
			}
		}
		properties[f.name] = s
	}
	out := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}
