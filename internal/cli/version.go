package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"patchbay/internal/licenses"
)

// What tools/release stamps into a binary when it links it (-ldflags "-X ..."). Without, the
// go command's own stamp is used.
var (
	release  string // version, such as 1.2.3
	revision string // commit, hexadecimal
	date     string // of that commit, RFC 3339
)

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
	Date     string `json:"date,omitempty"` // of the revision, RFC 3339
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
	source := ""
	if b.Revision != "" {
		source = " (" + b.Revision + strings.TrimSuffix(" "+b.Date, " ") + ")"
	}
	fmt.Fprintf(w, "patchbay %s%s\n%s %s\nsqlite %s, postgresql %s\n", b.Version, source, b.Go, b.Platform, b.SQLite,
		b.Postgres)
}

func thisBuild() build {
	b := build{Version: release, Revision: revision, Date: date, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	b.Version = cmp.Or(b.Version, strings.Trim(info.Main.Version, "()"), "devel")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = cmp.Or(b.Revision, s.Value)
		case "vcs.time":
			b.Date = cmp.Or(b.Date, s.Value)
		}
	}
	b.Revision = b.Revision[:min(len(b.Revision), 12)]
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
