// Package mcpb writes MCP bundles (.mcpb): archives that Claude Desktop installs with a double
// click, with a program that speaks MCP over standard input and output, and a form for its
// settings.
//
// Source: github.com/anthropics/mcpb, MANIFEST.md (manifest_version 0.3, 2025-12-02).
package mcpb

import (
	"archive/zip"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"time"
)

// The platforms of bundles, as Node.js calls them.
const (
	Mac     = "darwin"
	Windows = "win32"
	Linux   = "linux"
)

// Platforms are all platforms.
var Platforms = []string{Mac, Windows, Linux}

// Program is the program for one platform. It is run with the arguments "mcp relay".
type Program struct {
	Platform string
	Data     []byte
}

// Bundle describes a bundle. Equal bundles have equal bytes.
type Bundle struct {
	// Version is that of the program. One that is not a semantic version is written as 0.0.0.
	Version string
	// Server is the address that the form suggests.
	Server   string
	Programs []Program
}

// Errors of bundles.
var (
	errNoProgram = errors.New("a bundle needs a program")
	errPlatform  = errors.New("a program is not for the platform that it is given for")
)

type manifest struct {
	ManifestVersion string                `json:"manifest_version"`
	Name            string                `json:"name"`
	DisplayName     string                `json:"display_name"`
	Version         string                `json:"version"`
	Description     string                `json:"description"`
	LongDescription string                `json:"long_description"`
	Author          map[string]string     `json:"author"`
	Server          server                `json:"server"`
	ToolsGenerated  bool                  `json:"tools_generated"`
	Keywords        []string              `json:"keywords"`
	Compatibility   map[string][]string   `json:"compatibility"`
	UserConfig      map[string]userConfig `json:"user_config"`
}

type server struct {
	Type       string `json:"type"`
	EntryPoint string `json:"entry_point"`
	Config     config `json:"mcp_config"`
}

type config struct {
	Command   string              `json:"command"`
	Args      []string            `json:"args"`
	Env       map[string]string   `json:"env"`
	Overrides map[string]override `json:"platform_overrides,omitempty"`
}

type override struct {
	Command string `json:"command"`
}

type userConfig struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Sensitive   bool   `json:"sensitive,omitempty"`
	Default     string `json:"default,omitempty"`
}

var semantic = regexp.MustCompile(`^v?((?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z.-]+)?)$`)

// versionOf returns a semantic version.
func versionOf(text string) string {
	if m := semantic.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return "0.0.0"
}

// pathOf returns the path of the program for a platform.
func pathOf(platform string) string {
	if platform == Windows {
		return "server/win32/patchbay.exe"
	}
	return "server/" + platform + "/patchbay"
}

// manifest returns the manifest of a bundle with programs.
func (b *Bundle) manifest() manifest {
	m := manifest{
		ManifestVersion: "0.3", Name: "patchbay", DisplayName: "Patchbay", Version: versionOf(b.Version),
		Description: "Your tools, boards and bots on your own Patchbay",
		LongDescription: "Connects to the MCP endpoint of a Patchbay server and forwards its tools, resources and prompts. " +
			"Nothing is stored, and nothing is sent elsewhere.",
		Author: map[string]string{"name": "Patchbay"}, ToolsGenerated: true, Keywords: []string{"patchbay", "tools"},
		Compatibility: map[string][]string{"platforms": {}},
		Server: server{Type: "binary", EntryPoint: pathOf(b.Programs[0].Platform), Config: config{
			Command: "${__dirname}/" + pathOf(b.Programs[0].Platform), Args: []string{"mcp", "relay"},
			Env: map[string]string{"PATCHBAY_SERVER": "${user_config.server}",
				"PATCHBAY_KEY": "${user_config.key}"},
			Overrides: map[string]override{},
		}},
		UserConfig: map[string]userConfig{
			"server": {Type: "string", Title: "Address", Required: true, Default: b.Server,
				Description: "The address of your Patchbay, such as https://board.example.org"},
			"key": {Type: "string", Title: "Key", Required: true, Sensitive: true,
				Description: "A key with the scope mcp: patchbay key add --name desktop --scope mcp"},
		},
	}
	for _, p := range b.Programs {
		m.Compatibility["platforms"] = append(m.Compatibility["platforms"], p.Platform)
		m.Server.Config.Overrides[p.Platform] = override{"${__dirname}/" + pathOf(p.Platform)}
	}
	return m
}

// modified is the time of all files, so that equal bundles have equal bytes: the first that the
// format can write.
var modified = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Write writes a bundle.
func (b *Bundle) Write(w io.Writer) error {
	if len(b.Programs) == 0 {
		return errNoProgram
	}
	for i, p := range b.Programs {
		again := slices.ContainsFunc(b.Programs[:i], func(q Program) bool { return q.Platform == p.Platform })
		if again || PlatformOf(p.Data) != p.Platform {
			return fmt.Errorf("%w: %s", errPlatform, p.Platform)
		}
	}
	about, err := json.MarshalIndent(b.manifest(), "", "  ")
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.DefaultCompression)
	})
	if err := add(z, "manifest.json", append(about, '\n'), 0o644); err != nil {
		return err
	}
	for _, p := range b.Programs {
		if err := add(z, pathOf(p.Platform), p.Data, 0o755); err != nil {
			return err
		}
	}
	return z.Close()
}

func add(z *zip.Writer, name string, data []byte, mode fs.FileMode) error {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: modified}
	h.SetMode(mode)
	f, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return err
}

// magic are the first bytes of programs, by platform.
var magic = map[string][]string{
	Linux:   {"\x7fELF"},
	Windows: {"MZ"},
	// Mach-O for one processor, 64 bits, and for several.
	Mac: {"\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "\xca\xfe\xba\xbf"},
}

// PlatformOf returns the platform that a program is for; empty: it is none.
func PlatformOf(program []byte) string {
	for platform, list := range magic {
		for _, m := range list {
			if len(program) > len(m) && string(program[:len(m)]) == m {
				return platform
			}
		}
	}
	return ""
}
