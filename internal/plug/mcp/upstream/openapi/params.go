package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// param is a parameter of an operation.
type param struct {
	arg      string // the argument of the tool
	name, in string
	style    string
	explode  bool
	reserved bool // reserved characters stay as they are
	required bool
	json     bool // the value is written as JSON
}

// setStyle reads style and explode, with their defaults (OAS "Parameter Object", style).
func (p *param) setStyle(raw map[string]any) {
	p.style = textOf(raw["style"])
	if !slices.Contains(styles[p.in], p.style) {
		p.style = styles[p.in][0]
	}
	p.explode = p.style == "form"
	if given, ok := raw["explode"].(bool); ok {
		p.explode = given
	}
}

// styles are those of each place; the first is the default.
var styles = map[string][]string{
	"path":   {"simple", "label", "matrix"},
	"query":  {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
	"header": {"simple"},
}

// scalar returns a value that is neither object nor array as a text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	case nil:
		return "null", true
	}
	return "", false
}

// flat returns a value as a text; what is nested is JSON.
func flat(v any) string {
	if text, ok := scalar(v); ok {
		return text
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// escape percent-encodes everything but unreserved characters (RFC 3986 §2.3). If reserved is set,
// reserved ones stay, except those that would begin another parameter.
func (p *param) escape(text string) string {
	if p.in == "header" {
		return text
	}
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0,
			p.reserved && p.in == "query" && strings.IndexByte(":/?@!$'()*,;", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// pieces returns an array or an object as escaped texts: with explode, members of an object are
// name=value, otherwise name and value follow each other.
func (p *param) pieces(v any) (list []string, compound bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			list = append(list, p.escape(flat(one)))
		}
		return list, true
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			key, value := p.escape(name), p.escape(flat(v[name]))
			if p.explode {
				list = append(list, key+"="+value)
			} else {
				list = append(list, key, value)
			}
		}
		return list, true
	}
	return []string{p.escape(flat(v))}, false
}

// asPath returns a parameter of a path, or the value of a header (OAS "Style Examples").
func (p *param) asPath(v any) string {
	if p.json {
		return p.escape(jsonText(v))
	}
	list, compound := p.pieces(v)
	_, isList := v.([]any)
	name := p.escape(p.name)
	switch p.style {
	case "label":
		if p.explode {
			return "." + strings.Join(list, ".")
		}
		return "." + strings.Join(list, ",")
	case "matrix":
		switch {
		case !compound || !p.explode:
			return ";" + name + "=" + strings.Join(list, ",")
		case isList:
			return ";" + name + "=" + strings.Join(list, ";"+name+"=")
		}
		return ";" + strings.Join(list, ";")
	}
	return strings.Join(list, ",")
}

// asQuery returns the pairs of a parameter of a query.
func (p *param) asQuery(v any) []string {
	name := p.escape(p.name)
	if p.json {
		return []string{name + "=" + p.escape(jsonText(v))}
	}
	if m := object(v); m != nil && p.style == "deepObject" {
		return p.deep(name, m, 0)
	}
	list, compound := p.pieces(v)
	_, isList := v.([]any)
	if compound && len(list) == 0 {
		return nil
	}
	switch {
	case !compound:
		return []string{name + "=" + list[0]}
	case p.explode && isList:
		for i := range list {
			list[i] = name + "=" + list[i]
		}
		return list
	case p.explode:
		return list
	}
	between := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[p.style]
	if between == "" {
		between = ","
	}
	return []string{name + "=" + strings.Join(list, between)}
}

// deep returns the members of an object as name[member]=value.
func (p *param) deep(name string, m map[string]any, depth int) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := name + "%5B" + p.escape(key) + "%5D"
		switch v := m[key].(type) {
		case map[string]any:
			if depth < 8 {
				list = append(list, p.deep(at, v, depth+1)...)
			}
		case []any:
			for _, one := range v {
				list = append(list, at+"="+p.escape(flat(one)))
			}
		default:
			list = append(list, at+"="+p.escape(flat(v)))
		}
	}
	return list
}

func jsonText(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}
