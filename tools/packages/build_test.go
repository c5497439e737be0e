package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// program builds the program once; PACKAGES_BINARY names one that was built already.
var program = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("PACKAGES_BINARY"); given != "" {
		return given, nil
	}
	path := filepath.Join(temp, "patchbay")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/patchbay")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// beforePackages is the last commit that made no packages.
const beforePackages = "4db4b6d4"

// earlier returns a program of an earlier version: that of beforePackages with CHECK_ALL, which
// takes minutes to build, otherwise the same as now.
func earlier(t *testing.T) string {
	t.Helper()
	now, err := program()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("CHECK_ALL") == "" {
		return now
	}
	if exec.CommandContext(t.Context(), "git", "cat-file", "-e", beforePackages+"^{commit}").Run() != nil {
		t.Logf("commit %s is not in this clone, so that the upgrade is from this version", beforePackages)
		return now
	}
	folder, path := t.TempDir(), filepath.Join(t.TempDir(), "patchbay")
	run(t, "sh", "-c", "cd ../.. && git archive "+beforePackages+" | tar -x -C '"+folder+"'")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -X patchbay/internal/cli.release=v1.1.0", "-o", path, "./cmd/patchbay")
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", beforePackages, err, out)
	}
	return path
}

// temp is a folder that all tests share.
var temp string

func TestMain(m *testing.M) {
	var err error
	if temp, err = os.MkdirTemp("", "patchbay-packages"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(temp)
	os.Exit(code)
}

// whole makes a package of the program, and returns its path.
func whole(t *testing.T, version, format string) string {
	t.Helper()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return pack(t, binary, version, format)
}

// light makes a package that has a script in the place of the program, which saves the time to
// compress it.
func light(t *testing.T, version, format string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "patchbay")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho patchbay "+version+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return pack(t, script, version, format)
}

func pack(t *testing.T, binary, version, format string) string {
	t.Helper()
	host, err := program()
	if err != nil {
		t.Fatal(err)
	}
	list, err := build(t.Context(), options{Binary: binary, Host: host, Arch: "amd64", Version: version,
		Root: filepath.Join("..", ".."), Out: t.TempDir(), Time: time.Unix(1764000000, 0).UTC(), Formats: []string{format}})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// needs skips a test without programs, and fails it in continuous integration.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is not installed", name)
			}
			t.Skipf("%s is not installed", name)
		}
	}
}

// run runs a program and returns its output.
func run(t *testing.T, words ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// wanted are files that each package has.
var wanted = []string{"/usr/bin/patchbay", "/etc/patchbay/patchbay.yaml", "/etc/patchbay/patchbay.env",
	"/usr/share/bash-completion/completions/patchbay", "/usr/share/fish/vendor_completions.d/patchbay.fish",
	"/usr/share/man/man1/patchbay.1.gz", "/usr/share/man/man1/patchbay-service.1.gz", "/usr/share/man/man5/patchbay.yaml.5.gz"}

func wantFiles(t *testing.T, got []string, more ...string) {
	t.Helper()
	for _, file := range append(slices.Clone(wanted), more...) {
		if !slices.Contains(got, file) {
			t.Errorf("%s is missing", file)
		}
	}
}

// TestReproducible makes everything twice and compares the bytes.
func TestReproducible(t *testing.T) {
	for _, format := range formats {
		var sums [2][sha256.Size]byte
		for i := range sums {
			data, err := os.ReadFile(light(t, "1.2.0-rc.1", format))
			if err != nil {
				t.Fatal(err)
			}
			sums[i] = sha256.Sum256(data)
		}
		if sums[0] != sums[1] {
			t.Errorf("%s differs", format)
		}
	}
}

// TestScripts has a shell read all scripts.
func TestScripts(t *testing.T) {
	list, err := filepath.Glob("scripts/*.sh")
	if err != nil || len(list) < 9 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, script := range list {
		run(t, "sh", "-n", script)
	}
}

// TestAPK reads the package as apk does: a signature is missing, then come the control data and the
// files, each a compressed tar archive (https://wiki.alpinelinux.org/wiki/Apk_spec).
func TestAPK(t *testing.T) {
	data, err := os.ReadFile(light(t, "1.2.0", "apk"))
	if err != nil {
		t.Fatal(err)
	}
	control, rest := member(t, data)
	info := string(control[".PKGINFO"])
	sum := sha256.Sum256(rest)
	for _, want := range []string{"pkgname = patchbay\n", "pkgver = 1.2.0-r1\n", "arch = x86_64\n", "license = Apache-2.0\n",
		"datahash = " + hex.EncodeToString(sum[:]) + "\n"} {
		if !strings.Contains(info, want) {
			t.Errorf("no %q in %s", want, info)
		}
	}
	for _, script := range []string{".post-install", ".post-upgrade", ".pre-deinstall"} {
		if !bytes.HasPrefix(control[script], []byte("#!/bin/sh\n")) {
			t.Errorf("%s: %.40q", script, control[script])
		}
	}
	content, rest := member(t, rest)
	if len(rest) > 0 {
		t.Errorf("%d bytes follow", len(rest))
	}
	var names []string
	for name := range content {
		names = append(names, "/"+name)
	}
	wantFiles(t, names, "/etc/init.d/patchbay", "/usr/share/licenses/patchbay/NOTICES")
	if !bytes.HasPrefix(content["etc/init.d/patchbay"], []byte("#!/sbin/openrc-run\n")) {
		t.Error("the service is no script of OpenRC")
	}
}

// member reads a compressed tar archive, and returns what follows it.
func member(t *testing.T, data []byte) (content map[string][]byte, rest []byte) {
	t.Helper()
	r := bytes.NewReader(data)
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	content = map[string][]byte{}
	archive := tar.NewReader(bytes.NewReader(all))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return content, data[len(data)-r.Len():]
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if content[h.Name], err = io.ReadAll(archive); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRPM installs the package into an empty folder, without its scripts, which need a system, and
// removes it again.
func TestRPM(t *testing.T) {
	needs(t, "rpm")
	if os.Getuid() != 0 {
		t.Skip("rpm --root needs the rights of root")
	}
	old, current := light(t, "1.2.0-rc.1", "rpm"), light(t, "1.2.0", "rpm")
	root := t.TempDir()
	rpm := func(words ...string) string { return run(t, append([]string{"rpm", "--root", root}, words...)...) }
	rpm("--initdb")
	rpm("-K", "--nosignature", current)
	rpm("-i", "--nodeps", "--noscripts", old)
	settings := filepath.Join(root, "etc/patchbay/patchbay.yaml")
	if err := os.WriteFile(settings, []byte("lang: en\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	rpm("-U", "--nodeps", "--noscripts", current)
	if text, err := os.ReadFile(settings); err != nil || string(text) != "lang: en\n" {
		t.Errorf("the upgrade changed the settings: %q, %v", text, err)
	}
	wantFiles(t, strings.Fields(rpm("-ql", "patchbay")), "/usr/lib/systemd/system/patchbay.service",
		"/usr/share/licenses/patchbay/LICENSE", "/usr/share/zsh/site-functions/_patchbay")
	if out := run(t, filepath.Join(root, "usr/bin/patchbay"), "version"); out != "patchbay 1.2.0\n" {
		t.Errorf("the program says %q", out)
	}
	for flag, script := range map[string]string{"postinstall scriptlet": "useradd", "preuninstall scriptlet": "disable --now",
		"postuninstall scriptlet": "try-restart"} {
		if out := rpm("-q", "--scripts", "patchbay"); !strings.Contains(out, flag) || !strings.Contains(out, script) {
			t.Errorf("no %s with %s", flag, script)
		}
	}
	rpm("-e", "--nodeps", "--noscripts", "patchbay")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/patchbay")); err == nil {
		t.Error("the program is still there")
	}
}
