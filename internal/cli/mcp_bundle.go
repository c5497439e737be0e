package cli

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/mcpb"
)

type mcpBundleCmd struct {
	File      string   `arg:"" optional:"" help:"File to write." default:"patchbay.mcpb"`
	Server    string   `help:"URL of the server that the form of Claude Desktop suggests. Default: public_url." placeholder:"URL"`
	Program   []string `help:"Program for another platform as darwin=FILE, win32=FILE or linux=FILE: patchbay of that platform. Repeatable." sep:"none" placeholder:"PLATFORM=FILE"`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (mcpBundleCmd) Help() string {
	return `Open the file with Claude Desktop, or drop it on Settings, Extensions. Claude Desktop asks for the address of your Patchbay and for a key, which it keeps in the key ring of its machine: patchbay key add --name desktop --scope mcp. The bundle has no key in it.

The bundle contains this program, as the relay from Claude Desktop to /mcp, for the platform on which it is written; --program adds others. The same programs make the same bytes.

Examples:

    patchbay mcp bundle
    patchbay mcp bundle desk.mcpb --server https://board.example.org
    patchbay mcp bundle --program win32=patchbay.exe --program darwin=patchbay-darwin`
}

const (
	msgBundleWritten = i18n.Message("%s is written, for %s. Open it with Claude Desktop, which asks for a key: patchbay key add --name desktop --scope mcp%s")
	msgBundleProgram = i18n.Message("--program must have the form win32=FILE; the platforms are %s")
	msgBundleOther   = i18n.Message("%s is no program for %s")
	msgBundleHere    = i18n.Message("bundles are for %s; give a program with --program")
)

// platformOf are the platforms of bundles, by those of Go.
var platformOf = map[string]string{"darwin": mcpb.Mac, "windows": mcpb.Windows, "linux": mcpb.Linux}

// bundleWritten is the result of writing a bundle.
type bundleWritten struct {
	File      string   `json:"file"`
	Bytes     int64    `json:"bytes"`
	Platforms []string `json:"platforms"`
}

// Run writes the bundle.
func (c *mcpBundleCmd) Run(_ context.Context, sh *shell) error {
	programs, err := c.programs()
	if err != nil {
		return err
	}
	address := c.Server
	if address == "" {
		settings, err := c.load(sh)
		if err != nil {
			return err
		}
		address = settings.PublicURL
	}
	bundle := mcpb.Bundle{Version: thisBuild().Version, Server: address, Programs: programs}
	out := bundleWritten{File: c.File}
	for _, p := range programs {
		out.Platforms = append(out.Platforms, p.Platform)
	}
	if out.Bytes, err = writeBundle(c.File, &bundle); err != nil {
		return err
	}
	return sh.result(out, func() { sh.say(msgBundleWritten, out.File, join(out.Platforms), c.retryFlags()) })
}

// programs returns the programs of the bundle: those that are given, and this one.
func (c *mcpBundleCmd) programs() ([]mcpb.Program, error) {
	files := map[string]string{}
	for _, text := range c.Program {
		platform, file, ok := strings.Cut(text, "=")
		if !ok || platformOf[strings.Replace(platform, "win32", "windows", 1)] == "" {
			return nil, usage(msgBundleProgram, join(mcpb.Platforms))
		}
		files[platform] = file
	}
	if own := platformOf[runtime.GOOS]; own != "" && files[own] == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		files[own] = self
	}
	var list []mcpb.Program
	for _, platform := range mcpb.Platforms {
		if files[platform] == "" {
			continue
		}
		data, err := os.ReadFile(files[platform])
		if err != nil {
			return nil, err
		}
		if mcpb.PlatformOf(data) != platform {
			return nil, msgBundleOther.Errorf(files[platform], platform)
		}
		list = append(list, mcpb.Program{Platform: platform, Data: data})
	}
	if len(list) == 0 {
		return nil, msgBundleHere.Errorf(join(mcpb.Platforms))
	}
	return list, nil
}

// writeBundle writes a file as a whole or not at all.
func writeBundle(path string, b *mcpb.Bundle) (size int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".patchbay-*.mcpb")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := b.Write(f); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(f.Name(), path)
}
