package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// build is one run. Its fields do not change while platforms are made at the same time, except
// through progress.
type build struct {
	options
	source
	documents []entry // of all archives: README, licences, completion

	mu  sync.Mutex
	log io.Writer
}

// artifact is a file of the release, as -json lists it.
type artifact struct {
	Name     string `json:"name"` // below the folder of the release
	Platform string `json:"platform,omitempty"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
}

// checksums is the name of the file with the checksums of all others. A folder that has one is a
// release, and may be emptied.
const checksums = "SHA256SUMS"

// release makes everything and returns the list of it, sorted by name.
func release(ctx context.Context, o options, log io.Writer) ([]artifact, error) {
	s, err := readSource(ctx, o.root, o.number)
	if err != nil {
		return nil, err
	}
	r := &build{options: o, source: s, log: log}
	r.progress("patchbay %s from commit %.12s of %s", s.version, s.commit, s.time.Format("2006-01-02 15:04:05"))
	if s.dirty {
		r.progress("warning: files differ from the commit")
	}
	if o.url == placeholder {
		r.progress("note: the formula and the winget manifests need the real address: -url")
	}
	if err := emptied(o.out); err != nil {
		return nil, err
	}
	binaries, err := r.compileAll(ctx)
	if err != nil {
		return nil, err
	}
	host, remove, err := r.hostProgram(ctx, binaries)
	if err != nil {
		return nil, err
	}
	defer remove()
	if r.documents, err = r.readDocuments(ctx, host); err != nil {
		return nil, err
	}
	if err := r.bundle(ctx, binaries, host); err != nil {
		return nil, err
	}
	made, err := r.list(binaries)
	if err != nil {
		return nil, err
	}
	if err := r.manifests(made); err != nil {
		return nil, err
	}
	return r.sum(binaries)
}

// bundle makes what is made of the binaries.
func (r *build) bundle(ctx context.Context, binaries []binary, host string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, b := range binaries {
		group.Go(func() error { return r.archive(b) })
		group.Go(func() error { return r.components(b) })
	}
	group.Go(func() error { return r.packages(ctx, binaries, host) })
	group.Go(func() error { return r.images(ctx, binaries) })
	group.Go(r.deployment)
	return group.Wait()
}

// compileAll builds the programs of all platforms that are wanted.
func (r *build) compileAll(ctx context.Context) ([]binary, error) {
	var wanted []target
	for _, t := range targets {
		if len(r.only) == 0 || slices.Contains(r.only, t.platform()) {
			wanted = append(wanted, t)
		}
	}
	binaries := make([]binary, len(wanted))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers())
	for i, t := range wanted {
		group.Go(func() (err error) {
			path := filepath.Join(r.out, r.name(t)+filepath.Ext(t.program()))
			if binaries[i], err = r.compile(ctx, t, path); err != nil {
				return err
			}
			info, err := os.Stat(path)
			if err == nil {
				r.progress("%s: %.1f MB", filepath.Base(path), float64(info.Size())/1e6)
			}
			return err
		})
	}
	return binaries, group.Wait()
}

// name begins the names of the files of a platform.
func (r *build) name(t target) string {
	return "patchbay_" + r.version + "_" + t.os + "_" + t.archName()
}

// progress prints a line.
func (r *build) progress(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.log, format+"\n", args...)
}

// emptied makes a folder, or empties it if it has an earlier release.
func emptied(folder string) error {
	files, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(files) == 0:
		return os.MkdirAll(folder, 0o755) //nolint:gosec // to be published
	case err != nil:
		return err
	}
	if _, err := os.Stat(filepath.Join(folder, checksums)); err != nil {
		return fmt.Errorf("%s has files, but no %s of a release: remove it first", folder, checksums)
	}
	for _, f := range files {
		if err := os.RemoveAll(filepath.Join(folder, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// readDocuments reads what all archives have beside the program. Completion and manual pages come
// from the program itself, so from host, which runs on this machine.
func (r *build) readDocuments(ctx context.Context, host string) ([]entry, error) {
	var list []entry
	for name, source := range map[string]string{"README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md",
		"LICENSE": "LICENSE", "NOTICES.txt": "internal/licenses/notices.txt"} {
		text, err := os.ReadFile(filepath.Join(r.root, source))
		if err != nil {
			return nil, err
		}
		list = append(list, entry{name: name, data: text})
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		cmd := exec.CommandContext(ctx, host, "completion", shell)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		script, err := output(cmd)
		if err != nil {
			return nil, err
		}
		list = append(list, entry{name: "completion/patchbay." + shell, data: []byte(script + "\n")})
	}
	pages, err := manualPages(ctx, host)
	if err != nil {
		return nil, err
	}
	list = append(list, pages...)
	slices.SortFunc(list, byName)
	return list, nil
}

// manualPages returns the manual pages of a program.
func manualPages(ctx context.Context, program string) (list []entry, err error) {
	folder, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	cmd := exec.CommandContext(ctx, program, "man", "--folder", folder)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if _, err := output(cmd); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, entry{name: "man/" + f.Name(), data: text})
	}
	return list, nil
}

// hostProgram returns the path of a program that runs on this machine. The caller must call remove.
func (r *build) hostProgram(ctx context.Context, binaries []binary) (path string, remove func(), err error) {
	for _, b := range binaries {
		if b.os == runtime.GOOS && b.arch == runtime.GOARCH {
			path, err := filepath.Abs(b.path)
			return path, func() {}, err
		}
	}
	folder, err := os.MkdirTemp("", "release")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(folder) }
	host := target{os: runtime.GOOS, arch: runtime.GOARCH}
	b, err := r.compile(ctx, host, filepath.Join(folder, host.program()))
	if err != nil {
		remove()
	}
	return b.path, remove, err
}

// list returns the files that there are now.
func (r *build) list(binaries []binary) ([]artifact, error) {
	var list []artifact
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == checksums {
			return err
		}
		rel, err := filepath.Rel(r.out, path)
		if err != nil {
			return err
		}
		a := artifact{Name: filepath.ToSlash(rel)}
		for _, b := range binaries {
			if name := r.name(b.target); strings.HasPrefix(a.Name, name+".") || strings.HasPrefix(a.Name, name+"_") ||
				a.Name == name {
				a.Platform = b.platform()
			}
		}
		if a.Size, a.SHA256, err = hashFile(path); err != nil {
			return err
		}
		list = append(list, a)
		return nil
	})
	return list, err
}

func hashFile(path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return size, hex.EncodeToString(h.Sum(nil)), err
}

// sum writes the checksums, in the form that sha256sum -c reads, and returns the list of all files.
func (r *build) sum(binaries []binary) ([]artifact, error) {
	list, err := r.list(binaries)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, a := range list {
		fmt.Fprintf(&b, "%s  %s\n", a.SHA256, a.Name)
	}
	if err := r.write(checksums, []byte(b.String())); err != nil {
		return nil, err
	}
	r.progress("%d files in %s", len(list)+1, r.out)
	return list, nil
}

// write writes a file of the release. Its folder is made.
func (r *build) write(name string, data []byte) error {
	path := filepath.Join(r.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // to be published
		return err
	}
	return os.WriteFile(path, data, 0o644) //nolint:gosec // to be published
}
