package upstream

import (
	"encoding/json"
	"slices"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// The official SDKs refuse a whole list if one member of one entry has the wrong type, so entries
// are checked before they are passed on. Members that MCP does not define are passed on unchecked.

// memberType reports whether a value has the type of a member.
type memberType func(value json.RawMessage) bool

func isText(v json.RawMessage) bool { return v[0] == '"' }

func isNumber(v json.RawMessage) bool { return v[0] == '-' || '0' <= v[0] && v[0] <= '9' }

func isBool(v json.RawMessage) bool { return v[0] == 't' || v[0] == 'f' }

// isURI reports whether a text is a URI with a scheme, as the Python SDK requires (RFC 3986 §3.1).
func isURI(v json.RawMessage) bool {
	head, rest := tool.CutScheme(jsonrpc.Text(v))
	return isText(v) && head != "" && rest != "" && len(v) <= maxURI
}

// listOf returns the type of arrays whose elements all have a type.
func listOf(element memberType) memberType {
	return func(v json.RawMessage) bool {
		return v[0] == '[' && !slices.ContainsFunc(jsonrpc.Elements(v),
			func(e json.RawMessage) bool { return !element(e) })
	}
}

// objectOf returns the type of objects with members of some types, of which some are required.
func objectOf(members map[string]memberType, required ...string) memberType {
	return func(v json.RawMessage) bool {
		found := map[string]bool{}
		in := jsonrpc.Scan(v)
		for in.Next() {
			name := string(in.Key)
			if check := members[name]; found[name] || check != nil && !check(in.Value) {
				return false
			}
			found[name] = true
		}
		return in.IsObject() && !slices.ContainsFunc(required, func(name string) bool { return !found[name] })
	}
}

// The entries of lists (2025-11-25 schema: Resource, ResourceTemplate, Prompt, Icon, Annotations).
var (
	icons = listOf(objectOf(map[string]memberType{"src": isText, "mimeType": isText, "sizes": listOf(isText),
		"theme": isTheme}, "src"))
	annotations = objectOf(map[string]memberType{"audience": listOf(isRole), "priority": isNumber, "lastModified": isText})
	arguments   = listOf(objectOf(map[string]memberType{"name": isText, "title": isText, "description": isText,
		"required": isBool}, "name"))
	resourceEntry = objectOf(map[string]memberType{"uri": isURI, "name": isText, "title": isText, "description": isText,
		"mimeType": isText, "size": isNumber, "annotations": annotations, "icons": icons, "_meta": isObject}, "uri", "name")
	templateEntry = objectOf(map[string]memberType{"uriTemplate": isText, "name": isText, "title": isText,
		"description": isText, "mimeType": isText, "annotations": annotations, "icons": icons, "_meta": isObject},
		"uriTemplate", "name")
	promptEntry = objectOf(map[string]memberType{"name": isText, "title": isText, "description": isText,
		"arguments": arguments, "icons": icons, "_meta": isObject}, "name")
	contentsEntry = objectOf(map[string]memberType{"uri": isURI, "mimeType": isText, "text": isText, "blob": isText,
		"_meta": isObject}, "uri")
)

func isRole(v json.RawMessage) bool { return string(v) == `"user"` || string(v) == `"assistant"` }

func isTheme(v json.RawMessage) bool { return string(v) == `"light"` || string(v) == `"dark"` }

// cleanEntry returns an entry of a list without members that are null, which some SDKs refuse and
// others write for what is missing. It returns false if not all clients can read the entry.
func cleanEntry(raw json.RawMessage, entry memberType) (json.RawMessage, bool) {
	if !isUsable(raw) {
		return nil, false
	}
	var null []string
	for in := jsonrpc.Scan(raw); in.Next(); {
		if string(in.Value) == "null" {
			null = append(null, string(in.Key))
		}
	}
	if null != nil {
		raw = jsonrpc.Without(raw, null...)
	}
	return raw, raw != nil && entry(raw)
}
