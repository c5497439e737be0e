package upstream

import (
	"bytes"
	"encoding/json"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// mapMember returns a JSON object in which the member with a URI is mapped, if there is one.
func mapMember(slug string, obj json.RawMessage, name string) json.RawMessage {
	uri := jsonrpc.Member(obj, name)
	if uri == nil || !isText(uri) {
		return obj
	}
	return jsonrpc.With(obj, name, jsonrpc.AppendText(nil, tool.MapURI(slug, jsonrpc.Text(uri))))
}

// mapContent returns content blocks whose links are mapped: those of type resource_link, and
// embedded resources.
func mapContent(slug string, blocks json.RawMessage) json.RawMessage {
	if slug == "" || !bytes.Contains(blocks, []byte(`"uri"`)) {
		return blocks
	}
	out := []byte{'['}
	for i, block := range jsonrpc.Elements(blocks) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, mapBlock(slug, block)...)
	}
	return append(out, ']')
}

func mapBlock(slug string, block json.RawMessage) json.RawMessage {
	switch jsonrpc.Text(jsonrpc.Member(block, "type")) {
	case "resource_link":
		return mapMember(slug, block, "uri")
	case "resource":
		if resource := jsonrpc.Member(block, "resource"); resource != nil {
			return jsonrpc.With(block, "resource", mapMember(slug, resource, "uri"))
		}
	}
	return block
}

// mapMeta returns a _meta whose interface is mapped: MCP Apps name it in ui.resourceUri (MCP Apps
// 2026-01-26), and before that in "ui/resourceUri".
func mapMeta(slug string, meta json.RawMessage) json.RawMessage {
	if slug == "" || !bytes.Contains(meta, []byte(`esourceUri"`)) {
		return meta
	}
	meta = mapMember(slug, meta, "ui/resourceUri")
	if ui := jsonrpc.Member(meta, "ui"); ui != nil {
		meta = jsonrpc.With(meta, "ui", mapMember(slug, ui, "resourceUri"))
	}
	return meta
}
