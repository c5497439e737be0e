// Command release makes everything that a release of Patchbay consists of:
//
//	go run ./tools/release                                 all platforms, into dist/
//	go run ./tools/release -version 1.2.3 -url https://example.org/patchbay/1.2.3
//	go run ./tools/release -only linux/amd64,linux/arm64   only these
//	go run ./tools/release -json                           list what was made, as JSON
//
// These are a static binary for each platform, an archive of it with licences and documents, the
// packages of Linux distributions, a list of components (CycloneDX), container images as an OCI
// layout and for docker load, a Homebrew formula, winget manifests, and SHA256SUMS.
//
// It needs Go and git, and the network only for modules that are not on the machine yet. Two runs
// on one commit with one version of Go write the same bytes: times are those of the commit (or
// SOURCE_DATE_EPOCH), entries are sorted, and no path of the machine is compiled in.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// options are the command-line options.
type options struct {
	root       string // of the source tree
	out        string
	number     string            // version; empty: that of the source
	only       []string          // platforms, as GOOS/GOARCH; empty: all
	binaries   map[string]string // paths of binaries that exist already, by platform
	repository string            // name of the images, without a tag
	url        string            // where the files will be, without a slash at the end
	json       bool
	noPackages bool
	gzip       int // level, 0: best
}

// placeholder is the address in the formula and the winget manifests when none is given.
const placeholder = "https://example.org/patchbay"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2) // already printed
	}
	made, err := release(ctx, o, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	if o.json {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(made)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// parse reads the command line, and prints what is wrong with it.
func parse(args []string, stderr io.Writer) (options, error) {
	o := options{root: ".", binaries: map[string]string{}}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.out, "out", "dist", "write into this `folder`, which is emptied if it has an earlier release")
	flags.StringVar(&o.number, "version", "", "the `version`, such as 1.2.3; without, the tag of the commit, or its date and hash")
	flags.StringVar(&o.repository, "image", "patchbay", "`name` of the images, such as registry.example.org/patchbay")
	flags.StringVar(&o.url, "url", placeholder, "`address` from which the files will be downloaded")
	flags.BoolVar(&o.noPackages, "no-packages", false, "make no .deb, .rpm and .apk")
	flags.BoolVar(&o.json, "json", false, "print a list of what was made, as JSON")
	flags.Func("only", "only these `platforms`, such as linux/amd64,windows/amd64", func(s string) error {
		for _, name := range strings.Split(s, ",") {
			if !slices.ContainsFunc(targets, func(t target) bool { return t.platform() == name }) {
				return fmt.Errorf("%q is none of %s", name, platforms())
			}
			o.only = append(o.only, name)
		}
		return nil
	})
	flags.Func("binary", "use a binary that is there already, as `platform=path`", func(s string) error {
		platform, path, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want platform=path")
		}
		o.binaries[platform] = path
		return nil
	})
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
		fmt.Fprintln(stderr, err)
	}
	o.url = strings.TrimSuffix(o.url, "/")
	return o, err
}

// workers is how many platforms are made at the same time. Each needs about a gigabyte, and the go
// command keeps more than one core busy until it links.
func workers() int { return max(1, runtime.GOMAXPROCS(0)/2) }
