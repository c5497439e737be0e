package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// checkFormat lists the files that gofmt would change.
func checkFormat(context.Context) result {
	var bad []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" ||
			strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if pretty, err := format.Source(source); err != nil || !bytes.Equal(source, pretty) {
			bad = append(bad, path)
		}
		return nil
	})
	switch {
	case err != nil:
		return result{state: failed, note: err.Error()}
	case len(bad) > 0:
		return result{state: failed, note: "run: gofmt -w .", more: strings.Join(bad, "\n")}
	}
	return result{state: passed}
}

// probeLimit is the timeout of the connection check to the vulnerability database, which normally
// responds in well under a second.
const probeLimit = 10 * time.Second

// checkVulnerabilities looks for known vulnerabilities in the functions that the program calls.
// Without access to their database it is skipped, even in continuous integration, because a network
// failure is no fault of the project.
func checkVulnerabilities(ctx context.Context) result {
	database := os.Getenv("GOVULNDB")
	if database == "" {
		database = "https://vuln.go.dev"
	}
	if !reachable(ctx, database+"/index/db.json") {
		return result{state: skipped, note: "its data cannot be reached (" + database + ")"}
	}
	return command(ctx, "", nil, "go", "tool", "-modfile=tools/tools.mod", "govulncheck", "./...")
}

func reachable(ctx context.Context, address string) bool {
	if strings.HasPrefix(address, "file:") {
		return true // the tool itself reports the error best
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// checkBinary builds the program as it is shipped and checks that it needs no shared library. It
// always builds for Linux, the only system with such programs.
func checkBinary(ctx context.Context) result {
	folder, err := os.MkdirTemp("", "patchbay-check-")
	if err != nil {
		return result{state: failed, note: err.Error()}
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "patchbay")
	res := command(ctx, "", []string{"CGO_ENABLED=0", "GOOS=linux"}, "go", "build", "-o", path, "./cmd/patchbay")
	if res.state != passed {
		return res
	}
	if err := static(path); err != nil {
		return result{state: failed, note: err.Error()}
	}
	info, err := os.Stat(path)
	if err != nil {
		return result{state: failed, note: err.Error()}
	}
	res.note = fmt.Sprintf("%.1f MiB, needs no library", float64(info.Size())/(1<<20))
	return res
}

// static returns an error if an executable needs a dynamic linker or a library.
func static(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return err
	}
	if len(libraries) > 0 {
		return fmt.Errorf("the binary needs %s", strings.Join(libraries, ", "))
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("the binary needs a dynamic linker")
		}
	}
	return nil
}

// need returns a step that checks whether a program is available. Tests that use the program skip
// themselves without it.
func (o options) need(find func(context.Context) (note, missing string)) func(context.Context) result {
	return func(ctx context.Context) result {
		note, missing := find(ctx)
		return o.found(note, missing)
	}
}

func (o options) found(note, missing string) result {
	switch {
	case missing == "":
		return result{state: passed, note: note}
	case o.ci:
		return result{state: failed, note: "missing: " + missing}
	}
	return result{state: skipped, note: "missing: " + missing}
}

// postgres finds PostgreSQL's programs as the tests do. No server has to run: one is started for
// all tests.
func postgres(context.Context) (note, missing string) {
	const advice = "PostgreSQL's server programs, so what is tested on SQLite is not tested on PostgreSQL; Debian: apt-get install postgresql, macOS: brew install postgresql"
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), ""
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), ""
	}
	return "", advice
}

// compiler checks that a C compiler works and has the headers that the race detector's runtime
// needs.
func compiler(ctx context.Context) (note, missing string) {
	const advice = "a C compiler, so tests run without the race detector; Debian: apt-get install gcc libc6-dev, macOS: xcode-select --install"
	out, err := exec.CommandContext(ctx, "go", "env", "CC").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) == 0 {
		return "", advice
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], "-x", "c", "-o", os.DevNull, "-")...)
	cmd.Stdin = strings.NewReader("#include <pthread.h>\n#include <stdlib.h>\nint main(void) { return 0; }\n")
	if cmd.Run() != nil {
		return "", advice
	}
	return words[0] + ", so tests run with the race detector", ""
}

// peers returns the folders of third-party programs that tests use.
func peers() []string {
	locks, _ := filepath.Glob("test/peers/*/package-lock.json")
	for i, lock := range locks {
		locks[i] = filepath.ToSlash(filepath.Dir(lock))
	}
	return locks
}

// installPeer installs a folder's packages, unless it did so since the list of packages last
// changed.
func (o options) installPeer(ctx context.Context, folder string) result {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return o.found("", program+", so the tests against real clients in "+folder+
				" are skipped; Debian: apt-get install nodejs npm, macOS: brew install node")
		}
	}
	if installed(folder) {
		return result{state: passed, note: "done before"}
	}
	return command(ctx, folder, nil, "npm", "ci", "--no-audit", "--no-fund")
}

// installed reports whether npm finished after the list last changed: it writes its hidden lock
// file last.
func installed(folder string) bool {
	lock, err := os.Stat(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return false
	}
	done, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json"))
	return err == nil && !done.ModTime().Before(lock.ModTime())
}
