package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// options say what to pack.
type options struct {
	Binary, Host, Arch, Version, Root, Out string
	Time                                   time.Time
	Formats                                []string // some of formats; empty: all
}

// formats are the kinds of packages.
var formats = []string{"deb", "rpm", "apk"}

// scripts has what runs when a package is installed and removed, and the service of OpenRC.
//
//go:embed scripts
var scripts embed.FS

// build makes the packages and returns their paths.
func build(ctx context.Context, o options) ([]string, error) {
	if o.Host == "" {
		o.Host = o.Binary
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil { //nolint:gosec // packages are to be published
		return nil, err
	}
	work, err := os.MkdirTemp("", "packages")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	a := assets{options: o, folder: work}
	if err := a.collect(ctx); err != nil {
		return nil, err
	}
	var made []string
	if len(o.Formats) == 0 {
		o.Formats = formats
	}
	for _, format := range o.Formats {
		path, err := a.pack(format)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", format, err)
		}
		made = append(made, path)
	}
	return made, nil
}

// assets is what packages contain, as files of a folder.
type assets struct {
	options
	folder string
	pages  []string // names of manual pages, such as patchbay-bot.1
}

// collect has the program print what is made from its own texts.
func (a *assets) collect(ctx context.Context) error {
	for name, words := range map[string][]string{
		"bash": {"completion", "bash"}, "zsh": {"completion", "zsh"}, "fish": {"completion", "fish"},
		"patchbay.yaml": {"config", "default"}, "patchbay.service": {"service", "unit"}, "NOTICES": {"version", "--licenses"},
	} {
		text, err := a.program(ctx, words...)
		if err != nil {
			return err
		}
		if err := a.write(name, text); err != nil {
			return err
		}
	}
	if _, err := a.program(ctx, "man", "--folder", filepath.Join(a.folder, "man")); err != nil {
		return err
	}
	if err := a.zipPages(); err != nil {
		return err
	}
	if err := a.copyDocuments(); err != nil {
		return err
	}
	list, err := fs.Glob(scripts, "scripts/*")
	for _, name := range list {
		text, err := scripts.ReadFile(name)
		if err == nil {
			err = a.write(filepath.Base(name), text)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// program runs the program of this machine, in English and without anybody's settings.
func (a *assets) program(ctx context.Context, words ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, a.Host, words...)
	cmd.Env = []string{"HOME=" + a.folder, "LC_ALL=C"}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", a.Host, strings.Join(words, " "), err)
	}
	return out, nil
}

// write writes a file, with the time of the package: .apk has the times of scripts.
func (a *assets) write(name string, text []byte) error {
	path := filepath.Join(a.folder, name)
	if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // for everybody
		return err
	}
	return os.Chtimes(path, a.Time, a.Time)
}

func (a *assets) zipPages() error {
	list, err := os.ReadDir(filepath.Join(a.folder, "man"))
	if err != nil {
		return err
	}
	for _, e := range list {
		text, err := os.ReadFile(filepath.Join(a.folder, "man", e.Name()))
		if err == nil {
			a.pages = append(a.pages, e.Name())
			err = a.write(e.Name()+".gz", zipped(text))
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(a.pages)
	return nil
}

// zipped compresses a text; the header has neither name nor time.
func zipped(text []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) //nolint:errcheck // the level is valid
	z.Write(text)                                         //nolint:errcheck // a Buffer does not fail
	z.Close()                                             //nolint:errcheck // likewise
	return b.Bytes()
}

// copyDocuments adds licence and changes from the sources.
func (a *assets) copyDocuments() error {
	license, err := os.ReadFile(filepath.Join(a.Root, "LICENSE"))
	if err != nil {
		return err
	}
	changes, err := os.ReadFile(filepath.Join(a.Root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	notices, err := os.ReadFile(filepath.Join(a.folder, "NOTICES"))
	if err != nil {
		return err
	}
	// One file has everything that Debian Policy 12.5 asks for.
	copyright := fmt.Appendf(nil, "Patchbay\n\n%s\n\nIt contains the following.\n\n%s", license, notices)
	for name, text := range map[string][]byte{"LICENSE": license, "copyright": copyright, "changelog.gz": zipped(changes)} {
		if err := a.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// pack writes one package and returns its path.
func (a *assets) pack(format string) (path string, err error) {
	info := nfpm.WithDefaults(a.info(format))
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return "", err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	path = filepath.Join(a.Out, packager.ConventionalFileName(info))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	err = packager.Package(info, f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return path, err
}

const about = `hub for glasses, voice boards, agents and tools
 Devices that people wear and keep at home, the agents that answer them, and
 the programs that act through them plug into one another. One static binary.`

// info describes a package.
func (a *assets) info(format string) *nfpm.Info {
	script := func(name string) string { return filepath.Join(a.folder, format+"-"+name+".sh") }
	info := &nfpm.Info{
		Name: "patchbay", Arch: a.Arch, Platform: "linux", Version: a.Version, MTime: a.Time, Section: "net",
		Priority: "optional", Maintainer: "The Patchbay authors <patchbay@example.org>", Description: about,
		License: "Apache-2.0", Release: "1", DisableGlobbing: true,
	}
	info.Umask = 0o022
	info.Contents = a.contents(format)
	info.Scripts = nfpm.Scripts{PostInstall: script("postinstall"), PreRemove: script("preremove")}
	switch format {
	case "deb":
		info.Depends = []string{"passwd"} // useradd
		info.Recommends = []string{"ca-certificates"}
		info.Scripts.PostRemove = script("postremove")
	case "rpm":
		info.Depends = []string{"shadow-utils"} // useradd
		info.RPM.BuildHost = "localhost"
		info.RPM.Summary = "Hub for glasses, voice boards, agents and tools"
		info.Scripts.PostRemove = script("postremove")
	case "apk":
		info.APK.Scripts.PostUpgrade = script("postupgrade")
	}
	return info
}

// contents returns the files of a package.
func (a *assets) contents(format string) files.Contents {
	c := contents{assets: a}
	c.add("/usr/bin/patchbay", a.Binary, 0o755)
	c.settings("/etc/patchbay/patchbay.yaml", "patchbay.yaml", 0o640)
	c.settings("/etc/patchbay/patchbay.env", "patchbay.env", 0o600)
	zsh := "/usr/share/zsh/site-functions/_patchbay"
	switch format {
	case "apk":
		c.add("/etc/init.d/patchbay", c.asset("openrc.sh"), 0o755)
	case "deb":
		zsh = "/usr/share/zsh/vendor-completions/_patchbay"
		fallthrough
	default:
		c.add("/usr/lib/systemd/system/patchbay.service", c.asset("patchbay.service"), 0o644)
	}
	c.add(zsh, c.asset("zsh"), 0o644)
	c.add("/usr/share/bash-completion/completions/patchbay", c.asset("bash"), 0o644)
	c.add("/usr/share/fish/vendor_completions.d/patchbay.fish", c.asset("fish"), 0o644)
	for _, page := range a.pages {
		c.add("/usr/share/man/man"+page[len(page)-1:]+"/"+page+".gz", c.asset(page+".gz"), 0o644)
	}
	if format == "deb" {
		c.add("/usr/share/doc/patchbay/copyright", c.asset("copyright"), 0o644)
		c.add("/usr/share/doc/patchbay/changelog.gz", c.asset("changelog.gz"), 0o644)
	} else {
		c.add("/usr/share/licenses/patchbay/LICENSE", c.asset("LICENSE"), 0o644)
		c.add("/usr/share/licenses/patchbay/NOTICES", c.asset("NOTICES"), 0o644)
	}
	return c.list
}

// contents collects the files of one package.
type contents struct {
	*assets
	list files.Contents
}

func (c *contents) asset(name string) string { return filepath.Join(c.folder, name) }

func (c *contents) add(to, from string, mode fs.FileMode) {
	c.list = append(c.list, &files.Content{Source: from, Destination: to,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: c.Time}})
}

// settings adds a file that people change, and that upgrades leave as it is.
func (c *contents) settings(to, name string, mode fs.FileMode) {
	c.add(to, c.asset(name), mode)
	c.list[len(c.list)-1].Type = files.TypeConfigNoReplace
}
