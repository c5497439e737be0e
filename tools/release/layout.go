package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// layout returns the files of an OCI image layout (OCI image-layout.md) whose only image is d.
func layout(all blobs, d descriptor, tag string) ([]entry, error) {
	d.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag}
	index, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{d}})
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, digest := range slices.Sorted(maps.Keys(all)) {
		entries = append(entries, entry{name: blobPath(digest), data: all[digest]})
	}
	return append(entries,
		entry{name: "index.json", data: index},
		entry{name: "oci-layout", data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}), nil
}

func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

// dockerImage is an image in manifest.json of what docker save writes (moby/moby
// image/tarexport/tarexport.go, manifestItem).
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// dockerTarball writes an image as docker save does since version 25: an OCI layout with the
// manifest.json that older versions read.
func (r *build) dockerTarball(b binary, one blobs, d descriptor) error {
	entries, err := layout(one, d, r.version)
	if err != nil {
		return err
	}
	var m manifest
	if err := json.Unmarshal(one[d.Digest], &m); err != nil {
		return err
	}
	image := dockerImage{Config: blobPath(m.Config.Digest), RepoTags: []string{r.repository + ":" + r.version, r.repository + ":latest"}}
	for _, l := range m.Layers {
		image.Layers = append(image.Layers, blobPath(l.Digest))
	}
	list, err := json.Marshal([]dockerImage{image})
	if err != nil {
		return err
	}
	entries = append(entries, entry{name: "manifest.json", data: list},
		entry{name: "blobs/"}, entry{name: "blobs/sha256/"})
	slices.SortFunc(entries, byName)
	var out bytes.Buffer
	if err := writeTar(&out, entries, r.time); err != nil {
		return err
	}
	name := r.name(b.target) + "_docker.tar"
	r.progress("%s", name)
	return r.write(name, out.Bytes())
}
