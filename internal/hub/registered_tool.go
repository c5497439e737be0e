package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// RegisteredTool is a tool as callers see it. There are many, so what only some callers need is
// computed on demand.
type RegisteredTool struct {
	// Name is unique for a caller: the name that the owner gave the tool, or else the provider's
	// slug, "_" and the tool's name; at most 64 characters of [A-Za-z0-9_-], which model APIs
	// accept.
	Name string
	*tool.Tool
	original string     // see OriginalName; empty: Name
	served   *tool.Tool // see Served; nil: Tool
	offer    *offer
	cache    atomic.Pointer[toolCache] // nil until it is needed
}

// toolCache has what was computed for a tool.
type toolCache struct {
	listOnce   sync.Once
	listed     []byte
	mirrorOnce sync.Once
	mirrored   []MirroredArgument
	schemaOnce sync.Once
	schema     *schema
	outputOnce sync.Once
	output     *schema
}

func (o *RegisteredTool) cached() *toolCache {
	if m := o.cache.Load(); m != nil {
		return m
	}
	o.cache.CompareAndSwap(nil, new(toolCache))
	return o.cache.Load()
}

// Provider returns the provider of the tool.
func (o *RegisteredTool) Provider() ProviderRef { return o.offer.ProviderRef }

// IsLocal reports whether the provider is registered on this instance.
func (o *RegisteredTool) IsLocal() bool {
	switch o.offer.backend.(type) {
	case *remoteBackend, *absentBackend, *remoteContent:
		return false
	}
	return true
}

// offer is a provider with its tools at one time. It is immutable.
type offer struct {
	ProviderRef
	catalog *catalog
	backend backend
	list    []tool.Tool      // as the provider has them
	tools   []RegisteredTool // with their full names, without duplicates
	// since and changes identify the state of its prompts and resources.
	since, changes int64
	// cachedFingerprint is the hash of the list, once it was needed. Requires catalog.mu.
	cachedFingerprint uint64
}

// offer returns a new offer. Tools that are left out duplicate others.
func (c *catalog) offer(o ProviderRef, at backend, list []tool.Tool) (_ *offer, twins []string) {
	of := &offer{ProviderRef: o, catalog: c, backend: at, list: list}
	of.tools, twins = of.nameTools()
	return of, twins
}

// withRef returns the same offer for a changed provider with the same id and slug.
func (o *offer) withRef(provider ProviderRef) *offer {
	next := *o
	next.ProviderRef, next.tools = provider, make([]RegisteredTool, len(o.tools))
	for i := range next.tools {
		t := &next.tools[i]
		t.Name, t.Tool, t.offer, t.original = o.tools[i].Name, o.tools[i].Tool, &next, o.tools[i].original
		t.served = o.tools[i].served
		t.cache.Store(o.tools[i].cache.Load())
	}
	return &next
}

// promptProvider and resourceProvider return what a provider has besides tools, or nil.
func (o *offer) promptProvider() tool.PromptProvider {
	b, _ := o.backend.(tool.PromptProvider)
	return b
}

func (o *offer) resourceProvider() tool.ResourceProvider {
	l, _ := o.backend.(tool.ResourceProvider)
	return l
}

// fingerprint returns [fingerprintOf] the list. Requires catalog.mu.
func (o *offer) fingerprint() uint64 {
	if o.cachedFingerprint == 0 {
		o.cachedFingerprint = fingerprintOf(o.list)
	}
	return o.cachedFingerprint
}

// maxNameLength is the limit of model APIs for names.
const maxNameLength = 64

// fullName returns the name of a tool for callers. It depends only on the provider's slug and the
// tool's own name, so it does not change with other providers. Names that are too long end in a
// hash.
func fullName(slug, name string) string {
	clean := []byte(name)
	for i, c := range clean {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			clean[i] = '_'
		}
	}
	full := string(clean)
	if slug != "" {
		full = slug + "_" + full
	}
	if len(full) > maxNameLength || full == "" {
		full = full[:min(len(full), maxNameLength-9)] + "_" + hash8(name)
	}
	return full
}

func hash8(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:4])
}

// nameTools gives the tools of a provider their full names. If two are equal, those that are
// spelled differently at the provider get a hash; further duplicates are left out.
func (o *offer) nameTools() (named []RegisteredTool, twins []string) {
	if len(o.list) == 0 {
		return nil, nil
	}
	full := make([]string, len(o.list))
	count := make(map[string]int, len(o.list))
	for i := range o.list {
		full[i] = fullName(o.Slug, o.list[i].Name)
		count[full[i]]++
	}
	taken := make(map[string]bool, len(o.list))
	named = make([]RegisteredTool, 0, len(o.list))
	for i := range o.list {
		t, name := &o.list[i], full[i]
		if count[name] > 1 && !strings.HasSuffix(name, t.Name) {
			name = fullName(o.Slug, name[min(len(o.Slug)+1, len(name)):]+"_"+hash8(t.Name))
		}
		if taken[name] {
			twins = append(twins, t.Name)
			continue
		}
		taken[name] = true
		named = append(named, RegisteredTool{Name: name, Tool: t, offer: o})
	}
	translateMentions(named)
	return named, twins
}

// sameTools reports whether two lists of tools are equal.
func sameTools(a, b []tool.Tool) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if !sameTool(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func sameTool(a, b *tool.Tool) bool {
	return a.Name == b.Name && a.Title == b.Title && a.Description == b.Description && a.Dangerous == b.Dangerous &&
		a.Held == b.Held &&
		a.Audience == b.Audience &&
		bytes.Equal(a.Input, b.Input) && bytes.Equal(a.Output, b.Output) && bytes.Equal(a.Icons, b.Icons) &&
		bytes.Equal(a.Meta, b.Meta) && bytes.Equal(a.Extra, b.Extra) &&
		hintBits(a.Hints) == hintBits(b.Hints)
}

// hintBits returns two bits for each hint: whether it is set, and its value.
func hintBits(h tool.Hints) (bits byte) {
	for _, b := range []*bool{h.ReadOnly, h.Destructive, h.Idempotent, h.OpenWorld} {
		bits <<= 2
		if b != nil {
			bits |= 2
			if *b {
				bits |= 1
			}
		}
	}
	return bits
}

// appendTool appends an unambiguous encoding of a tool.
func appendTool(buf []byte, t *tool.Tool) []byte {
	buf = appendParts(buf, t.Name, t.Title, t.Description, t.Audience)
	for _, raw := range []json.RawMessage{t.Input, t.Output, t.Icons, t.Meta, t.Extra} {
		buf = append(binary.AppendUvarint(buf, uint64(len(raw))), raw...)
	}
	flags := byte(0)
	if t.Dangerous {
		flags |= 1
	}
	if t.Held {
		flags |= 2
	}
	return append(buf, hintBits(t.Hints), flags)
}

func appendParts(buf []byte, parts ...string) []byte {
	for _, p := range parts {
		buf = append(binary.AppendUvarint(buf, uint64(len(p))), p...)
	}
	return buf
}

// fingerprintOf returns a hash of a list that is the same on every instance. Lists with the same
// hash are shared between providers that do not trust each other, so it must not be possible to
// construct a list for a given hash.
func fingerprintOf(list []tool.Tool) uint64 {
	h := sha256.New()
	var buf []byte
	for i := range list {
		buf = appendTool(buf[:0], &list[i])
		h.Write(buf)
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// emptySchema is the schema of a tool without one.
var emptySchema = json.RawMessage(`{"type":"object"}`)

// ListEntry returns the tool as in the result of MCP's tools/list, in JSON.
func (o *RegisteredTool) ListEntry() []byte {
	m := o.cached()
	m.listOnce.Do(func() {
		input := o.Input
		if len(input) == 0 {
			input = emptySchema
		}
		hints := o.Hints
		if o.Dangerous && hints.Destructive == nil {
			yes := true
			hints.Destructive = &yes
		}
		var w bytes.Buffer
		enc := json.NewEncoder(&w)
		enc.SetEscapeHTML(false)
		err := enc.Encode(struct {
			Name        string          `json:"name"`
			Title       string          `json:"title,omitempty"`
			Description string          `json:"description"`
			Input       json.RawMessage `json:"inputSchema"`
			Output      json.RawMessage `json:"outputSchema,omitempty"`
			Hints       tool.Hints      `json:"annotations,omitzero"`
			Icons       json.RawMessage `json:"icons,omitempty"`
			Meta        json.RawMessage `json:"_meta,omitempty"`
		}{o.Name, o.Title, o.Description, input, o.Output, hints, o.Icons, o.meta()})
		if err != nil {
			return // not JSON; providers do not offer such a schema
		}
		m.listed = withExtra(bytes.TrimSuffix(w.Bytes(), []byte("\n")), o.Extra)
	})
	return m.listed
}

// withExtra returns a list entry with the further members of its tool (see [tool.Tool]).
func withExtra(entry []byte, extra json.RawMessage) []byte {
	for in := jsonrpc.Scan(extra); in.Next(); {
		if string(in.Key) != "annotations" {
			entry = jsonrpc.With(entry, string(in.Key), in.Value)
			continue
		}
		hints := jsonrpc.Member(entry, "annotations")
		if hints == nil {
			hints = json.RawMessage("{}")
		}
		for further := jsonrpc.Scan(in.Value); further.Next(); {
			hints = jsonrpc.With(hints, string(further.Key), further.Value)
		}
		entry = jsonrpc.With(entry, "annotations", hints)
	}
	return entry
}

// MetaVia is the member of a tool's _meta with the installations of Patchbay that it came through,
// so that none of them offers its own tools again.
const MetaVia = "patchbay/via"

// WithVia returns an entry of a list, such as a prompt, with this installation in its _meta; see
// [MetaVia].
func (h *Hub) WithVia(entry json.RawMessage) json.RawMessage {
	var in struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(entry, &in) // missing, or not an object
	if in.Meta == nil {
		in.Meta = map[string]json.RawMessage{}
	}
	in.Meta[MetaVia] = appendVia(in.Meta[MetaVia], h.Installation)
	return jsonrpc.With(entry, "_meta", toJSON(in.Meta))
}

func appendVia(list json.RawMessage, installation string) json.RawMessage {
	var via []string
	_ = json.Unmarshal(list, &via) // not a list: empty
	return toJSON(append(via, installation))
}

// meta returns the tool's own _meta with the installations it came through, and its provider if its
// name does not have it.
func (o *RegisteredTool) meta() json.RawMessage {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(o.Meta, &all) != nil || all == nil {
		all = map[string]json.RawMessage{} // missing, or not an object
	}
	all[MetaVia] = appendVia(all[MetaVia], o.offer.catalog.installation)
	if o.offer.Slug != "" {
		all["patchbay/provider"], all["patchbay/tool"] = toJSON(o.offer.ID), toJSON(o.Tool.Name)
	}
	return toJSON(all)
}

func toJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return nil // invalid JSON of a provider
	}
	return text
}

// MirroredArgument is an argument that a schema wants repeated in a header of the request
// (x-mcp-header), for routing.
type MirroredArgument struct {
	Header string
	Path   []string // names of properties, outermost first
}

// MirroredArguments returns the arguments that callers repeat in headers.
func (o *RegisteredTool) MirroredArguments() []MirroredArgument {
	m := o.cached()
	m.mirrorOnce.Do(func() {
		if bytes.Contains(o.Input, []byte(`"x-mcp-header"`)) {
			m.mirrored = findMirrored(o.Input, nil)
		}
	})
	return m.mirrored
}

// maxNesting limits the depth of mirrored arguments.
const maxNesting = 8

func findMirrored(text json.RawMessage, path []string) (out []MirroredArgument) {
	var s struct {
		Header     string                     `json:"x-mcp-header"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(text, &s) != nil || len(path) > maxNesting {
		return nil
	}
	if s.Header != "" && len(path) > 0 {
		out = append(out, MirroredArgument{s.Header, path})
	}
	for name, inner := range s.Properties {
		out = append(out, findMirrored(inner, append(slices.Clip(path), name))...)
	}
	return out
}
