package board

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

	"patchbay/internal/tool"
)

// Offered is a tool as callers see it. There are many: what only some callers ask
// for is made when they do.
type Offered struct {
	// Name is unique among what a caller sees: the outlet's slug, "_" and the
	// tool's name, as [A-Za-z0-9_-] of 64 at most, which is what models take.
	Name string
	*tool.Tool
	of   *offer
	made atomic.Pointer[made] // nil until somebody asks
}

// made is what was made of a tool for those who asked.
type made struct {
	list     sync.Once
	listed   []byte
	mirror   sync.Once
	mirrored []Mirrored
	check    sync.Once
	schema   *schema
}

func (o *Offered) kept() *made {
	if m := o.made.Load(); m != nil {
		return m
	}
	o.made.CompareAndSwap(nil, new(made))
	return o.made.Load()
}

// Outlet is where the tool's provider is plugged in.
func (o *Offered) Outlet() Outlet { return o.of.Outlet }

// Here reports whether the tool is offered on this instance, and not by another.
func (o *Offered) Here() bool {
	switch o.of.at.(type) {
	case *farPlace, *absentPlace:
		return false
	}
	return true
}

// offer is an outlet with what it offers at one time; immutable.
type offer struct {
	Outlet
	catalog *catalog
	at      place
	list    []tool.Tool // as the provider offers them
	tools   []Offered   // with their full names, without twins
	// since and changes tell the state of its prompts and resources from others.
	since, changes int64
	// sum is the print of the list once it was needed; with catalog.mu held.
	sum uint64
}

// offer makes an offer. Tools that are left out are twins of others.
func (c *catalog) offer(o Outlet, at place, list []tool.Tool) (_ *offer, twins []string) {
	of := &offer{Outlet: o, catalog: c, at: at, list: list}
	of.tools, twins = of.named()
	return of, twins
}

// as is the same offer in an outlet that differs, but not in its id and slug.
func (o *offer) as(outlet Outlet) *offer {
	next := *o
	next.Outlet, next.tools = outlet, make([]Offered, len(o.tools))
	for i := range next.tools {
		t := &next.tools[i]
		t.Name, t.Tool, t.of = o.tools[i].Name, o.tools[i].Tool, &next
		t.made.Store(o.tools[i].made.Load())
	}
	return &next
}

// book and shelf are what a provider on this instance has besides tools; nil
// otherwise.
func (o *offer) book() tool.Promptbook {
	b, _ := o.at.(tool.Promptbook)
	return b
}

func (o *offer) shelf() tool.Library {
	l, _ := o.at.(tool.Library)
	return l
}

// print is [printOf] the list. With catalog.mu held.
func (o *offer) print() uint64 {
	if o.sum == 0 {
		o.sum = printOf(o.list)
	}
	return o.sum
}

// nameLength is the longest name that models' APIs take.
const nameLength = 64

// fullName is how a tool is called by everybody but its provider. It depends on
// nothing but the outlet's slug and the tool's own name, so that it stays the
// same whatever else is plugged in. Names that are too long end in a hash.
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
	if len(full) > nameLength || full == "" {
		full = full[:min(len(full), nameLength-9)] + "_" + hash8(name)
	}
	return full
}

func hash8(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:4])
}

// named gives the tools of an outlet their full names. When two have the same,
// those that are not spelt exactly so get a hash; twins that still are the same
// are left out.
func (o *offer) named() (named []Offered, twins []string) {
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
	named = make([]Offered, 0, len(o.list))
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
		named = append(named, Offered{Name: name, Tool: t, of: o})
	}
	translateMentions(named)
	return named, twins
}

// same says whether two lists of tools are the same.
func same(a, b []tool.Tool) bool {
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
	return a.Name == b.Name && a.Title == b.Title && a.Description == b.Description && a.Dangerous == b.Dangerous && a.For == b.For &&
		bytes.Equal(a.Input, b.Input) && bytes.Equal(a.Output, b.Output) && bytes.Equal(a.Icons, b.Icons) && bytes.Equal(a.Meta, b.Meta) &&
		hintBits(a.Hints) == hintBits(b.Hints)
}

// hintBits has two bits for each hint: whether it is known, and what it is.
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

// appendTool appends all that a tool is, so that different tools never are the
// same bytes.
func appendTool(buf []byte, t *tool.Tool) []byte {
	buf = appendParts(buf, t.Name, t.Title, t.Description, t.For)
	for _, raw := range []json.RawMessage{t.Input, t.Output, t.Icons, t.Meta} {
		buf = append(binary.AppendUvarint(buf, uint64(len(raw))), raw...)
	}
	bits := hintBits(t.Hints)
	if t.Dangerous {
		return append(buf, bits, 1)
	}
	return append(buf, bits, 0)
}

func appendParts(buf []byte, parts ...string) []byte {
	for _, p := range parts {
		buf = append(binary.AppendUvarint(buf, uint64(len(p))), p...)
	}
	return buf
}

// printOf tells lists apart, on every instance in the same way. Lists with the
// same print are shared between providers that do not trust each other, so nobody
// must be able to make one for another's print.
func printOf(list []tool.Tool) uint64 {
	h := sha256.New()
	var buf []byte
	for i := range list {
		buf = appendTool(buf[:0], &list[i])
		h.Write(buf)
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// emptySchema is what a tool that says nothing takes.
var emptySchema = json.RawMessage(`{"type":"object"}`)

// Listed is the tool as MCP's tools/list shows it, in JSON.
func (o *Offered) Listed() []byte {
	m := o.kept()
	m.list.Do(func() {
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
			return // a schema that is no JSON; providers see to it that none comes
		}
		m.listed = bytes.TrimSuffix(w.Bytes(), []byte("\n"))
	})
	return m.listed
}

// MetaVia is where a tool's _meta lists the installations of Patchbay that it came
// through, so that none takes over its own tools again.
const MetaVia = "patchbay/via"

// meta is the tool's own, the way it came, and where it is from if its name does
// not say it.
func (o *Offered) meta() json.RawMessage {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(o.Meta, &all) != nil || all == nil {
		all = map[string]json.RawMessage{} // there is none, or it is no object
	}
	var via []string
	json.Unmarshal(all[MetaVia], &via) //nolint:errcheck // what is no list is none
	all[MetaVia] = encoded(append(via, o.of.catalog.installation))
	if o.of.Slug != "" {
		all["patchbay/provider"], all["patchbay/tool"] = encoded(o.of.ID), encoded(o.Tool.Name)
	}
	return encoded(all)
}

func encoded(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return nil // raw JSON of a provider that is none
	}
	return text
}

// Mirrored is an argument that a schema wants repeated in a header of the request
// (x-mcp-header), for those on the way who route by it.
type Mirrored struct {
	Header string
	Path   []string // names of properties, outermost first
}

// Mirrored are the arguments that callers repeat in headers.
func (o *Offered) Mirrored() []Mirrored {
	m := o.kept()
	m.mirror.Do(func() {
		if bytes.Contains(o.Input, []byte(`"x-mcp-header"`)) {
			m.mirrored = findMirrored(o.Input, nil)
		}
	})
	return m.mirrored
}

// maxNesting is how deep mirrored arguments are looked for.
const maxNesting = 8

func findMirrored(text json.RawMessage, path []string) (out []Mirrored) {
	var s struct {
		Header     string                     `json:"x-mcp-header"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(text, &s) != nil || len(path) > maxNesting {
		return nil
	}
	if s.Header != "" && len(path) > 0 {
		out = append(out, Mirrored{s.Header, path})
	}
	for name, inner := range s.Properties {
		out = append(out, findMirrored(inner, append(slices.Clip(path), name))...)
	}
	return out
}
