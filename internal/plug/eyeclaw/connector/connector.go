// Package connector holds Patchbay's own plugin for OpenClaw, in plain JavaScript, and writes it as
// the archive that `openclaw plugins install` takes. The plugin runs inside somebody's OpenClaw,
// connects to package eyeclaw and answers for a bot.
//
// OpenClaw 2026.9.6 installs .tgz, .tar.gz, .tar and .zip archives and folders
// (src/infra/archive.ts). An archive has one folder with the plugin in it, as npm's have.
package connector

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed plugin
var files embed.FS

const (
	// FileName is the name of the archive.
	FileName = "patchbay-openclaw.tgz"
	// Path is where a server offers the archive to everybody: there is no key in it.
	Path = "/connector/openclaw.tgz"
)

// packageFile is the file that has the version.
const packageFile = "package.json"

// firstDay is the time of all files, so that the same plugin is always the same bytes.
var firstDay = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Archive returns the plugin as a gzipped tar archive. The version is that of the program; one that
// is not a semantic version is written as 0.0.0.
func Archive(version string) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	root, err := fs.Sub(files, "plugin")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		if err == nil && path == packageFile {
			data, err = withVersion(data, version)
		}
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: "package/" + path, Mode: 0o644, Size: int64(len(data)),
				ModTime: firstDay})
		}
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = zip.Close()
	}
	return out.Bytes(), err
}

var semantic = regexp.MustCompile(`^v?((?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z.-]+)?)$`)

// withVersion sets the version in package.json.
func withVersion(data []byte, version string) ([]byte, error) {
	m := semantic.FindStringSubmatch(version)
	if m == nil {
		return data, nil
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["version"] = m[1]
	return json.MarshalIndent(fields, "", "  ")
}

// Handler serves the archive.
func Handler(version string) (http.Handler, error) {
	archive, err := Archive(version)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/gzip")
		h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", FileName))
		h.Set("Content-Length", strconv.Itoa(len(archive)))
		w.Write(archive) //nolint:errcheck // the client has disconnected
	}), nil
}

// Connection returns the only setting that the plugin needs: the address of a server with a bot's
// token in it. An address that cannot be parsed is returned as it is.
func Connection(base, token string) string {
	u, err := url.Parse(strings.TrimSuffix(base, "/"))
	if err != nil || u.Host == "" {
		return base
	}
	u.User = url.User(token)
	return u.String()
}

// Commands returns what to run at the computer of an OpenClaw, with curl, so that its agent answers
// for the bot with a token.
func Commands(base, token string) []string {
	return []string{
		"curl -fLo " + FileName + " " + strings.TrimSuffix(base, "/") + Path,
		"openclaw plugins install ./" + FileName + " --force --accept-capabilities",
		"openclaw config set plugins.entries.patchbay.config.connection " + Connection(base, token),
	}
}
