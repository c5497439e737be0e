package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// What the files in deploy/ have in place of what only a release knows.
const (
	deployImage   = "patchbay:latest"
	deployVersion = `version: "0.0.0"`
)

// deployment writes an archive of deploy/: recipes, Compose files, Kubernetes manifests and the
// add-on of Home Assistant, with the image, the version and the address of this release.
func (r *build) deployment() error {
	folder := "patchbay_" + r.version + "_deploy"
	entries, err := r.deployEntries(folder + "/")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	err = compressed(&out, r.gzip, func(w io.Writer) error { return writeTar(w, entries, r.time) })
	if err != nil {
		return err
	}
	r.progress("%s.tar.gz", folder)
	return r.write(folder+".tar.gz", out.Bytes())
}

func (r *build) deployEntries(folder string) ([]entry, error) {
	fill := strings.NewReplacer(deployImage, r.repository+":"+r.version, deployVersion, `version: "`+r.version+`"`,
		placeholder, r.url)
	entries := []entry{{name: folder}}
	root := filepath.Join(r.root, "deploy")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil || path == root {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		e := entry{name: folder + filepath.ToSlash(rel)}
		if d.IsDir() {
			e.name += "/"
		} else {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			e.data = []byte(fill.Replace(string(text)))
		}
		if strings.HasSuffix(e.name, ".sh") {
			e.mode = 0o755
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}
