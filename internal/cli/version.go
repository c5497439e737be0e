package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"patchbay/internal/licenses"
)

// release is the version of a released binary, set when it is linked
// (-ldflags "-X main.release=v1.2.3").
var release string

type versionCmd struct {
	Licenses bool `help:"Print the licences of all components of the program."`
}

// Help returns the command's detailed help with examples.
func (versionCmd) Help() string {
	return `Examples:

    patchbay version --json
    patchbay version --licenses`
}

// build describes this binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	SQLite   string `json:"sqlite_driver,omitempty"`
	Postgres string `json:"postgres_driver,omitempty"`
}

// Run prints the version.
func (c *versionCmd) Run(sh *shell) error {
	if c.Licenses {
		_, err := io.WriteString(sh.stdout, licenses.Notices)
		return err
	}
	b := thisBuild()
	return sh.result(b, func() { b.print(sh.stdout) })
}

func (b build) print(w io.Writer) {
	revision := ""
	if b.Revision != "" {
		revision = " (" + b.Revision + ")"
	}
	fmt.Fprintf(w, "patchbay %s%s\n%s %s\nsqlite %s, postgresql %s\n", b.Version, revision, b.Go, b.Platform, b.SQLite,
		b.Postgres)
}

func thisBuild() build {
	b := build{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = strings.Trim(info.Main.Version, "()")
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			b.Revision = s.Value[:12]
		}
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "modernc.org/sqlite":
			b.SQLite = "modernc " + m.Version
		case "github.com/jackc/pgx/v5":
			b.Postgres = "pgx " + m.Version
		}
	}
	return b
}
