//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/licenses"
	"patchbay/test/built"
)

// made makes a release for tests in a new folder, and returns the folder and the list.
func made(t *testing.T, o options) (string, []artifact) {
	t.Helper()
	o.root, o.out, o.repository, o.gzip = "../..", filepath.Join(t.TempDir(), "dist"), "patchbay", gzip.BestSpeed
	var log strings.Builder
	list, err := release(t.Context(), o, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	return o.out, list
}

// builtHere returns options that make a release for Linux from a program with its symbols, which is
// in the go command's cache.
func builtHere(t *testing.T) options {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("images are made for Linux on amd64 and arm64")
	}
	program, err := built.Program(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	return options{number: "1.2.3-rc.1", only: []string{platform}, binaries: map[string]string{platform: program},
		url: "https://example.org/patchbay", noPackages: true} // tools/packages has tests of its own
}

func TestRelease(t *testing.T) {
	o := builtHere(t)
	t.Run("sizes and stamps", func(t *testing.T) { checkProgram(t, o.binaries[o.only[0]]) })
	folder, list := made(t, o)
	t.Run("same bytes again", func(t *testing.T) {
		if _, again := made(t, o); !slices.Equal(again, list) {
			t.Errorf("first %+v\nthen  %+v", list, again)
		}
	})
	t.Run("checksums", func(t *testing.T) { checkSums(t, folder, list) })
	name := "patchbay_1.2.3-rc.1_linux_" + runtime.GOARCH
	t.Run("archive", func(t *testing.T) { checkArchive(t, folder, name) })
	t.Run("layout", func(t *testing.T) {
		layout := filepath.Join(folder, "patchbay_1.2.3-rc.1_oci")
		checkLayout(t, func(name string) []byte { return readFile(t, layout, name) })
	})
	t.Run("docker", func(t *testing.T) { checkDocker(t, readTar(t, readFile(t, folder, name+"_docker.tar"))) })
	t.Run("container", func(t *testing.T) { checkContainer(t, readTar(t, readFile(t, folder, name+"_docker.tar"))) })
	t.Run("components", func(t *testing.T) { checkComponents(t, readFile(t, folder, name+".cdx.json")) })
	t.Run("formula", func(t *testing.T) {
		formula := string(readFile(t, folder, "homebrew/patchbay.rb"))
		i := slices.IndexFunc(list, func(a artifact) bool { return a.Name == name+".tar.gz" })
		for _, want := range []string{o.url + "/" + name + ".tar.gz", list[i].SHA256, `version "1.2.3-rc.1"`} {
			if !strings.Contains(formula, want) {
				t.Errorf("the formula has no %s:\n%s", want, formula)
			}
		}
	})
}

// sizeLimit is the sum of what is loaded of the program with inlined pages, which is 3 MB more than
// a released one has: 78 MB when the manual, both translations of everything and the notes of Learn
// were in it. A library that makes it larger has to be worth it.
const sizeLimit = 80_000_000

// checkProgram guards the size, and that the stamps are variables of the program: the linker says
// nothing about one that does not exist.
func checkProgram(t *testing.T, path string) {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := uint64(0)
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			size += s.Size
		}
	}
	t.Logf("%.1f MB are loaded", float64(size)/1e6)
	if size > sizeLimit {
		t.Errorf("the program loads %d bytes, over the limit of %d", size, sizeLimit)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for stamp := range strings.SplitSeq(source{}.stamps(), " -X ") {
		variable, _, _ := strings.Cut(stamp, "=")
		if variable != "-s -w" && !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == variable }) {
			t.Errorf("the program has no variable %s", variable)
		}
	}
}

func checkSums(t *testing.T, folder string, list []artifact) {
	lines := strings.Split(strings.TrimSpace(string(readFile(t, folder, checksums))), "\n")
	if len(lines) != len(list) {
		t.Fatalf("%d checksums of %d files", len(lines), len(list))
	}
	for i, a := range list {
		if lines[i] != a.SHA256+"  "+a.Name || "sha256:"+a.SHA256 != digest(readFile(t, folder, a.Name)) {
			t.Errorf("line %q is not of %+v", lines[i], a)
		}
	}
}

// The archive unpacks into one folder, and its program runs.
func checkArchive(t *testing.T, folder, name string) {
	files := readTar(t, unzipped(t, readFile(t, folder, name+".tar.gz")))
	for _, want := range []string{"README.md", "LICENSE", "NOTICES.txt", "completion/patchbay.bash", "completion/patchbay.zsh",
		"completion/patchbay.fish", "man/patchbay.1"} {
		if len(files[name+"/"+want].data) == 0 {
			t.Errorf("%s is missing, or empty", want)
		}
	}
	program := files[name+"/patchbay"]
	path := filepath.Join(t.TempDir(), "patchbay")
	if err := os.WriteFile(path, program.data, program.mode); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "patchbay ") {
		t.Errorf("version printed %q, %v", out, err)
	}
}

// checkLayout follows all digests of an OCI layout, and looks into the image.
func checkLayout(t *testing.T, read func(name string) []byte) {
	if got := string(read("oci-layout")); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %s", got)
	}
	var index manifest
	decode(t, read("index.json"), &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3-rc.1" {
		t.Fatalf("the index is %+v", index)
	}
	d := index.Manifests[0]
	for d.MediaType == typeIndex {
		var images manifest
		decode(t, blob(t, read, d), &images)
		d = images.Manifests[0]
	}
	if d.Platform == nil || d.Platform.Architecture != runtime.GOARCH {
		t.Errorf("the platform is %+v", d.Platform)
	}
	var m manifest
	decode(t, blob(t, read, d), &m)
	var config imageConfig
	decode(t, blob(t, read, *m.Config), &config)
	files := map[string]entry{}
	for i, l := range m.Layers {
		plain := unzipped(t, blob(t, read, l))
		if config.RootFS.DiffIDs[i] != digest(plain) {
			t.Errorf("layer %d has another digest in the configuration", i)
		}
		for name, e := range readTar(t, plain) {
			files[name] = e
		}
	}
	checkRoot(t, config, files)
}

// checkRoot checks the file system of an image.
func checkRoot(t *testing.T, config imageConfig, files map[string]entry) {
	program := strings.TrimPrefix(config.Config.Entrypoint[0], "/")
	if e := files[program]; e.mode != 0o755 || len(e.data) < 1<<20 {
		t.Errorf("%s has mode %v and %d bytes", program, e.mode, len(e.data))
	}
	if e := files["data/"]; e.mode != 0o700 || e.uid != imageUser {
		t.Errorf("the data folder is %+v", e)
	}
	if e := files["tmp/"]; e.mode != 0o777 || !e.sticky {
		t.Errorf("/tmp is %+v", e)
	}
	if config.Config.User != "65532:65532" || !strings.Contains(string(files["etc/passwd"].data), ":65532:65532:") {
		t.Errorf("the user is %s, of %s", config.Config.User, files["etc/passwd"].data)
	}
	roots := x509.NewCertPool()
	first, _ := pem.Decode(files["etc/ssl/certs/ca-certificates.crt"].data)
	if first == nil || !roots.AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"].data) {
		t.Error("there are no root certificates")
	}
	if len(files["usr/share/doc/patchbay/NOTICES.txt"].data) != len(licenses.Notices) {
		t.Error("the notices are missing")
	}
}

// checkDocker checks the tarball as an OCI layout, and as versions of Docker before 25 read it.
func checkDocker(t *testing.T, files map[string]entry) {
	checkLayout(t, func(name string) []byte { return files[name].data })
	var images []dockerImage
	decode(t, files["manifest.json"].data, &images)
	if len(images) != 1 || !slices.Equal(images[0].RepoTags, []string{"patchbay:1.2.3-rc.1", "patchbay:latest"}) {
		t.Fatalf("the images are %+v", images)
	}
	for _, path := range append(images[0].Layers, images[0].Config) {
		if "blobs/"+strings.Replace(digest(files[path].data), ":", "/", 1) != path {
			t.Errorf("%s has another digest", path)
		}
	}
}

func checkComponents(t *testing.T, text []byte) {
	var list bom
	decode(t, text, &list)
	found := map[string]string{}
	for _, c := range list.Components {
		if len(c.Licenses) == 0 {
			t.Errorf("%s has no licence", c.Ref)
			continue
		}
		found[c.Name] = c.Licenses[0].Expression
	}
	for name, licence := range map[string]string{"std": "BSD-3-Clause", "github.com/jackc/pgx/v5": "MIT", "libopus": "BSD-3-Clause",
		"github.com/coder/websocket": "ISC", "github.com/nats-io/nats-server/v2": "Apache-2.0", "htmx": "0BSD"} {
		if found[name] != licence {
			t.Errorf("the licence of %s is %q, not %s", name, found[name], licence)
		}
	}
}

// All platforms compile, twice with the same bytes.
func TestAllPlatforms(t *testing.T) {
	if os.Getenv("CHECK_ALL") == "" {
		t.Skip("compiling for all platforms takes minutes: set CHECK_ALL")
	}
	o := options{number: "1.2.3", url: "https://example.org/patchbay"}
	folder, list := made(t, o)
	for _, target := range targets {
		if !slices.ContainsFunc(list, func(a artifact) bool { return a.Platform == target.platform() }) {
			t.Errorf("nothing is made for %s", target.platform())
		}
	}
	if len(readFile(t, folder, "winget/"+wingetID+".installer.yaml")) == 0 {
		t.Error("the winget manifest is empty")
	}
	if _, again := made(t, o); !slices.Equal(again, list) {
		t.Errorf("first %+v\nthen  %+v", list, again)
	}
}

func TestVersions(t *testing.T) {
	s := source{commit: "0123456789abcdef"}
	for _, c := range []struct {
		tags  []string
		dirty bool
		want  string
	}{
		{[]string{"stable", "v1.2.3"}, false, "1.2.3"},
		{[]string{"v1.2.3"}, true, "0.0.0-dev.00010101000000.g0123456789ab.dirty"},
		{nil, false, "0.0.0-dev.00010101000000.g0123456789ab"},
	} {
		s.dirty = c.dirty
		if got := s.defaultVersion(c.tags); got != c.want || !versionForm.MatchString(got) {
			t.Errorf("%v: %s, not %s", c.tags, got, c.want)
		}
	}
	for _, bad := range []string{"1.2", "1.2.3+build", "1.2.3-", "1.2.3 ", "x", "1.2.3/../.."} {
		if _, err := readSource(t.Context(), ".", bad); err == nil {
			t.Errorf("%q is taken for a version", bad)
		}
	}
}

// A folder with other files is left alone.
func TestOtherFolders(t *testing.T) {
	folder := t.TempDir()
	kept := filepath.Join(folder, "thesis.txt")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := emptied(folder); err == nil {
		t.Error("a folder with other files is emptied")
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	for _, bad := range [][]string{{"-only", "plan9/amd64"}, {"-binary", "linux/amd64"}, {"now"}} {
		if _, err := parse(bad, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	o, err := parse([]string{"-only", "linux/armv7,windows/amd64", "-url", "https://example.org/1/"}, io.Discard)
	if err != nil || len(o.only) != 2 || o.url != "https://example.org/1" {
		t.Errorf("%+v, %v", o, err)
	}
}

func blob(t *testing.T, read func(string) []byte, d descriptor) []byte {
	t.Helper()
	data := read(blobPath(d.Digest))
	if digest(data) != d.Digest || len(data) != d.Size {
		t.Fatalf("%s has %d bytes and the digest %s", d.Digest, len(data), digest(data))
	}
	return data
}

func decode(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
}

func readFile(t *testing.T, folder, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		data, err = io.ReadAll(z)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readTar(t *testing.T, data []byte) map[string]entry {
	t.Helper()
	files := map[string]entry{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = entry{name: h.Name, data: content, mode: h.FileInfo().Mode().Perm(), uid: h.Uid,
			sticky: h.Mode&0o1000 != 0}
	}
}
