package openapi

import (
	"maps"
	"mime"
	"slices"
	"strings"

	"patchbay/internal/i18n"
)

// body is how the body of an operation is made of arguments.
type body struct {
	kind  string // media type
	form  formKind
	arg   string            // the argument with the whole body; empty: it is made of members
	names map[string]string // properties by argument, if it is made of members
	// styles are those of members of a form, by property.
	styles map[string]param
}

// formKind is how a body is written.
type formKind int

const (
	asJSON formKind = iota
	asForm
	asMultipart
	asText
)

func isJSON(kind string) bool { return kind == "application/json" || strings.HasSuffix(kind, "+json") }

// formOf returns how bodies of a media type are written.
func formOf(kind string) (formKind, bool) {
	switch {
	case isJSON(kind):
		return asJSON, true
	case kind == "application/x-www-form-urlencoded":
		return asForm, true
	case kind == "multipart/form-data":
		return asMultipart, true
	case kind == "text/plain":
		return asText, true
	}
	return 0, false
}

// pickMedia returns the media type of a content that is used: JSON, if there is any.
func pickMedia(content map[string]any) (kind string, media map[string]any) {
	best := 100
	for _, name := range slices.Sorted(maps.Keys(content)) {
		plain, _, err := mime.ParseMediaType(name)
		if plain == "*/*" || plain == "application/*" {
			plain = "application/json"
		}
		rank := 50
		if form, ok := formOf(plain); ok {
			rank = 2*int(form) + 1
		}
		if plain == "application/json" {
			rank = 0
		}
		if err == nil && rank < best {
			best, kind, media = rank, plain, object(content[name])
		}
	}
	if media == nil {
		media = map[string]any{}
	}
	return kind, media
}

// readBody reads the body of an operation. The members of an object are arguments beside the
// parameters if it has nothing but named members, and none has the name of a parameter; anything
// else is the argument "body".
func (r *reader) readBody(o *Operation, in *input, raw any) (why i18n.Text, err error) {
	name := title(o.method, o.path)
	about, err := r.d.resolve(raw)
	if err != nil {
		return why, err
	}
	required := isTrue(about["required"])
	kind, media := pickMedia(object(about["content"]))
	form, ok := formOf(kind)
	if !ok {
		if !required && len(object(about["content"])) == 0 {
			return why, nil
		}
		return msgLeftBody.With(name, clip(kind, 100)), nil
	}
	schema := media["schema"]
	if schema == nil {
		schema = map[string]any{}
	}
	b := &body{kind: kind, form: form}
	o.body = b
	root, err := r.d.resolve(schema)
	if err != nil && schema != true {
		return why, err
	}
	if form == asMultipart && r.hasFiles(root) {
		return msgLeftFiles.With(name), nil
	}
	if form == asForm || form == asMultipart {
		b.readStyles(object(media["encoding"]))
	}
	if form == asText || !r.isFlat(root, in, required) {
		b.arg = in.unused("body", "_request")
		return why, in.add(r, b.arg, schema, textOf(about["description"]), required)
	}
	return why, r.flatten(b, in, root)
}

// isFlat reports whether the members of a body can be arguments beside the parameters.
func (r *reader) isFlat(root map[string]any, in *input, required bool) bool {
	properties := object(root["properties"])
	if len(properties) == 0 || textOf(root["type"]) != "object" && root["type"] != nil {
		return false
	}
	for name := range root {
		switch name {
		case "type", "properties", "required", "title", "description", "example", "examples", "xml", "externalDocs",
			"deprecated", "$schema", "$comment":
		case "additionalProperties":
			if root[name] != false {
				return false
			}
		default:
			if !strings.HasPrefix(name, "x-") {
				return false
			}
		}
	}
	if members, _ := root["required"].([]any); len(members) > 0 && !required {
		return false // leaving all out is possible, and leaving some out is not
	}
	for name := range properties {
		if in.properties[name] != nil {
			return false
		}
	}
	return true
}

// flatten adds the members of a body as arguments.
func (r *reader) flatten(b *body, in *input, root map[string]any) error {
	b.names = map[string]string{}
	demanded, _ := root["required"].([]any)
	properties := object(root["properties"])
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		c := converter{d: r.d, use: forInput}
		if c.omits(properties[name]) {
			continue
		}
		if err := in.add(r, name, properties[name], "", slices.Contains(demanded, any(name))); err != nil {
			return err
		}
		b.names[name] = name
	}
	return nil
}

// hasFiles reports whether a form has members that are files.
func (r *reader) hasFiles(root map[string]any) bool {
	for _, v := range object(root["properties"]) {
		p, err := r.d.resolve(v)
		if err != nil {
			continue
		}
		if items, err := r.d.resolve(p["items"]); err == nil {
			p = items
		}
		if p["format"] == "binary" || p["format"] == "base64" || p["contentMediaType"] != nil {
			return true
		}
	}
	return false
}

// readStyles reads how members of a form are written (OAS "Encoding Object").
func (b *body) readStyles(encoding map[string]any) {
	b.styles = map[string]param{}
	for name, v := range encoding {
		e := object(v)
		if e["style"] == nil && e["explode"] == nil {
			continue
		}
		p := param{name: name, in: "query"}
		p.setStyle(e)
		b.styles[name] = p
	}
}
