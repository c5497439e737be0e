package board

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"patchbay/internal/tool"
)

// Offered is a tool as callers see it.
type Offered struct {
	// Name is unique among what a caller sees: the outlet's slug, "_" and the
	// tool's name, as [A-Za-z0-9_-] of 64 at most, which is what models take.
	Name string
	tool.Tool
	outlet       Outlet
	at           place
	installation string

	list     sync.Once
	listed   []byte
	mirror   sync.Once
	mirrored []Mirrored
	schema   schema
}

// Outlet is where the tool's provider is plugged in.
func (o *Offered) Outlet() Outlet { return o.outlet }

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

// name gives the tools of an outlet their full names. When two have the same,
// those that are not spelt exactly so get a hash; twins that still are the same
// are left out.
func (c *catalog) name(o Outlet, at place, tools []tool.Tool) (named []*Offered, twins []string) {
	count := map[string]int{}
	for _, t := range tools {
		count[fullName(o.Slug, t.Name)]++
	}
	taken := map[string]bool{}
	for _, t := range tools {
		full := fullName(o.Slug, t.Name)
		if count[full] > 1 && !strings.HasSuffix(full, t.Name) {
			full = fullName(o.Slug, full[min(len(o.Slug)+1, len(full)):]+"_"+hash8(t.Name))
		}
		if taken[full] {
			twins = append(twins, t.Name)
			continue
		}
		taken[full] = true
		named = append(named, &Offered{Name: full, Tool: t, outlet: o, at: at, installation: c.installation})
	}
	return named, twins
}

// same says whether two offers look the same to callers.
func same(a, b []*Offered) bool {
	return slices.EqualFunc(a, b, func(x, y *Offered) bool {
		return x.Dangerous == y.Dangerous && x.Tool.Name == y.Tool.Name && bytes.Equal(x.Listed(), y.Listed())
	})
}

// emptySchema is what a tool that says nothing takes.
var emptySchema = json.RawMessage(`{"type":"object"}`)

// Listed is the tool as MCP's tools/list shows it, in JSON.
func (o *Offered) Listed() []byte {
	o.list.Do(func() {
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
		o.listed = bytes.TrimSuffix(w.Bytes(), []byte("\n"))
	})
	return o.listed
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
	all[MetaVia] = encoded(append(via, o.installation))
	if o.outlet.Slug != "" {
		all["patchbay/provider"], all["patchbay/tool"] = encoded(o.outlet.ID), encoded(o.Tool.Name)
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
	o.mirror.Do(func() {
		if bytes.Contains(o.Input, []byte(`"x-mcp-header"`)) {
			o.mirrored = findMirrored(o.Input, nil)
		}
	})
	return o.mirrored
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
