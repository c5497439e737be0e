package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/licenses"
)

// bom is a list of components in the format CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/).
type bom struct {
	Schema       string      `json:"$schema"`
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	SerialNumber string      `json:"serialNumber"`
	Version      int         `json:"version"`
	Metadata     bomMetadata `json:"metadata"`
	Components   []component `json:"components"`
}

type bomMetadata struct {
	Timestamp time.Time `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string       `json:"type"`
	Ref        string       `json:"bom-ref"`
	Name       string       `json:"name"`
	Version    string       `json:"version,omitempty"`
	PURL       string       `json:"purl,omitempty"`
	Hashes     []bomHash    `json:"hashes,omitempty"`
	Licenses   []bomLicence `json:"licenses,omitempty"`
	Properties []property   `json:"properties,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type bomLicence struct {
	Expression string `json:"expression"` // of SPDX
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// components writes the list of components of a binary: the modules that the go command has
// recorded in it, and what is embedded.
func (r *build) components(b binary) error {
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return err
	}
	_, sum, err := hashFile(b.path)
	if err != nil {
		return err
	}
	list := bom{Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6",
		SerialNumber: "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(sum)).String(), Version: 1}
	list.Metadata = bomMetadata{r.time, component{Type: "application", Ref: "patchbay", Name: "patchbay", Version: r.version,
		Hashes: []bomHash{{"SHA-256", sum}}, Licenses: []bomLicence{{"Apache-2.0"}},
		Properties: []property{{"vcs:revision", r.commit}, {"go:platform", b.platform()}}}}
	known := spdxByName()
	list.Components = append(list.Components, component{Type: "library", Ref: "std", Name: "std",
		Version: strings.TrimPrefix(info.GoVersion, "go"), Licenses: known["Go's standard library"],
		PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		licence := known[m.Path+" "+m.Version]
		if licence == nil {
			return fmt.Errorf("%s %s has no licence in internal/licenses: go test ./internal/licenses -update", m.Path, m.Version)
		}
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		list.Components = append(list.Components, component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version,
			PURL: purl, Licenses: licence, Properties: []property{{"go:sum", m.Sum}}})
	}
	list.Components = append(list.Components, embedded(known)...)
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	name := r.name(b.target) + ".cdx.json"
	r.progress("%s", name)
	return r.write(name, append(text, '\n'))
}

// embedded are the components that are no Go modules, such as "libopus 1.5.2 (in encoder.wasm)".
func embedded(known map[string][]bomLicence) (list []component) {
	for name, licence := range known {
		label, _, ok := strings.Cut(name, " (")
		if !ok {
			continue
		}
		c := component{Type: "library", Ref: name, Name: label, Licenses: licence}
		if i := strings.LastIndex(label, " "); i > 0 {
			c.Name, c.Version = label[:i], label[i+1:]
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	return list
}

// spdxByName returns the licences of everything that internal/licenses has notices of.
func spdxByName() map[string][]bomLicence {
	ids := map[string][]string{}
	for _, n := range licenses.List() {
		found := spdx(n.Text)
		for _, name := range n.Names {
			ids[name] = append(ids[name], found...)
		}
	}
	known := map[string][]bomLicence{}
	for name, list := range ids {
		slices.Sort(list)
		list = slices.Compact(list)
		if len(list) > 0 {
			known[name] = []bomLicence{{strings.Join(list, " AND ")}}
		}
	}
	return known
}

// phrases are found in the text of a licence, and not in others. The two kinds of BSD licence
// differ in the last clause.
var phrases = []struct{ id, phrase string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"BSD-3-Clause", "neither the name"},
	{"BSD-3-Clause", "names of its contributors may not be used"},
	{"BSD-3-Clause", "the name of the author may not be used"},
	{"EPL-2.0", "eclipse public license - v 2.0"},
	{"ISC", "for any purpose with or without fee is hereby granted, provided that"},
	{"MIT", "permission is hereby granted, free of charge"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"0BSD", "zero-clause bsd"},
	{"Unlicense", "this is free and unencumbered software"},
}

// spdx returns the identifiers of the licences in a text (https://spdx.org/licenses/).
func spdx(text string) (ids []string) {
	words := strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(text, ",", ", ")), " "))
	flat := strings.ReplaceAll(words, "license, version", "license version")
	for _, p := range phrases {
		if strings.Contains(flat, p.phrase) && !slices.Contains(ids, p.id) {
			ids = append(ids, p.id)
		}
	}
	if strings.Contains(flat, "redistributions of source code must retain") && !slices.Contains(ids, "BSD-3-Clause") {
		ids = append(ids, "BSD-2-Clause")
	}
	return ids
}
