package main

import (
	"bytes"
	"fmt"
	"strings"
	"text/template"
	"time"
)

// download is an archive in the formula or in a winget manifest.
type download struct {
	URL, SHA256 string
	Folder      string // in the archive
}

// manifests writes the Homebrew formula and the winget manifests. What the release has no archive
// for is left out.
func (r *build) manifests(made []artifact) error {
	archives := map[string]*download{}
	for _, a := range made {
		name, ok := strings.CutSuffix(a.Name, ".tar.gz")
		if !ok {
			name, ok = strings.CutSuffix(a.Name, ".zip")
		}
		if ok && a.Platform != "" {
			archives[strings.ReplaceAll(a.Platform, "/", "_")] = &download{r.url + "/" + a.Name, a.SHA256, name}
		}
	}
	data := map[string]any{"Version": r.version, "Summary": summary, "URL": r.url, "Archives": archives,
		"Date": r.time.Format(time.DateOnly)}
	list := map[string]string{"homebrew/patchbay.rb": formula, "latest.json": latest}
	if _, ok := archives["windows_amd64"]; ok {
		list["winget/"+wingetID+".yaml"] = wingetVersion
		list["winget/"+wingetID+".installer.yaml"] = wingetInstaller
		list["winget/"+wingetID+".locale.en-US.yaml"] = wingetLocale
	}
	for name, text := range list {
		t, err := template.New(name).Option("missingkey=zero").Parse(text)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := t.Execute(&out, data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := r.write(name, out.Bytes()); err != nil {
			return err
		}
		r.progress("%s", name)
	}
	return nil
}

// latest is what patchbay upgrade check reads, see internal/upgrade.Release.
const latest = `{"version": "{{.Version}}", "released": "{{.Date}}", "url": "{{.URL}}"}
`

// formula is a formula of Homebrew (https://docs.brew.sh/Formula-Cookbook).
const formula = `class Patchbay < Formula
  desc "{{.Summary}}"
  homepage "{{.URL}}"
  version "{{.Version}}"
  license "Apache-2.0"
{{define "download"}}      url "{{.URL}}"
      sha256 "{{.SHA256}}"
{{end}}
  on_macos do
{{- with .Archives.darwin_arm64}}
    on_arm do
{{template "download" .}}    end
{{- end}}{{with .Archives.darwin_amd64}}
    on_intel do
{{template "download" .}}    end
{{- end}}
  end

  on_linux do
{{- with .Archives.linux_arm64}}
    on_arm do
{{template "download" .}}    end
{{- end}}{{with .Archives.linux_amd64}}
    on_intel do
{{template "download" .}}    end
{{- end}}
  end

  def install
    bin.install "patchbay"
    bash_completion.install "completion/patchbay.bash" => "patchbay"
    zsh_completion.install "completion/patchbay.zsh" => "_patchbay"
    fish_completion.install "completion/patchbay.fish"
    doc.install "README.md", "CHANGELOG.md", "NOTICES.txt"
  end

  service do
    run [opt_bin/"patchbay", "serve", "--data", var/"patchbay"]
    keep_alive true
    log_path var/"log/patchbay.log"
    error_log_path var/"log/patchbay.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/patchbay version")
  end
end
`

// wingetID is the identifier of the package in winget's repository.
const wingetID = "Patchbay.Patchbay"

// The three files of a winget package
// (https://github.com/microsoft/winget-pkgs/tree/master/doc/manifest/schema/1.9.0).
const (
	wingetVersion = `# yaml-language-server: $schema=https://aka.ms/winget-manifest.version.1.9.0.schema.json
PackageIdentifier: ` + wingetID + `
PackageVersion: "{{.Version}}"
DefaultLocale: en-US
ManifestType: version
ManifestVersion: 1.9.0
`
	wingetInstaller = `# yaml-language-server: $schema=https://aka.ms/winget-manifest.installer.1.9.0.schema.json
PackageIdentifier: ` + wingetID + `
PackageVersion: "{{.Version}}"
InstallerType: zip
NestedInstallerType: portable
NestedInstallerFiles:
{{- with .Archives.windows_amd64}}
  - RelativeFilePath: {{.Folder}}\patchbay.exe
    PortableCommandAlias: patchbay
ReleaseDate: "{{$.Date}}"
Installers:
  - Architecture: x64
    InstallerUrl: {{.URL}}
    InstallerSha256: {{.SHA256}}
{{- end}}
ManifestType: installer
ManifestVersion: 1.9.0
`
	wingetLocale = `# yaml-language-server: $schema=https://aka.ms/winget-manifest.defaultLocale.1.9.0.schema.json
PackageIdentifier: ` + wingetID + `
PackageVersion: "{{.Version}}"
PackageLocale: en-US
Publisher: Patchbay
PackageName: Patchbay
PackageUrl: {{.URL}}
License: Apache-2.0
ShortDescription: {{.Summary}}
ManifestType: defaultLocale
ManifestVersion: 1.9.0
`
)
