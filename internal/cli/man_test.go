package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestManPages reads the pages as mandoc does, where it is installed, and checks that each command
// has one.
func TestManPages(t *testing.T) {
	d := blankDesk(t)
	folder := t.TempDir()
	d.ok("man", "--folder", folder)
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	for _, name := range everyCommand(t) {
		noun, _, _ := strings.Cut(name, " ")
		if _, err := os.Stat(filepath.Join(folder, strings.TrimSuffix("patchbay-"+noun, "-")+".1")); err != nil {
			t.Errorf("%q has no page: %v", name, err)
		}
	}
	page := d.ok("man", "bot")
	for _, want := range []string{".TH PATCHBAY\\-BOT 1", ".SH \"PATCHBAY BOT ADD\"", "\\-\\-kind"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of bot has no %s", want)
		}
	}
	if page = d.ok("man", "--json"); !strings.Contains(page, `"section": 1`) {
		t.Errorf("as JSON: %.200s", page)
	}
	if settings, err := os.ReadFile(filepath.Join(folder, "patchbay.yaml.5")); err != nil ||
		!strings.Contains(string(settings), "PATCHBAY_DATABASE_URL") {
		t.Errorf("the page of settings: %v", err)
	}
	lint(t, files)
}

// lint runs mandoc's checks. Pages have no date, so that they are the same whenever they are made.
func lint(t *testing.T, files []string) {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("mandoc is not installed")
		}
		t.Skip("mandoc is not installed, so that the pages are not checked")
	}
	out, _ := exec.CommandContext(t.Context(), mandoc, append([]string{"-T", "lint"}, files...)...).Output() //nolint:errcheck // it fails if there are findings
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "missing date") && !strings.Contains(line, "longer than 80 bytes") {
			t.Error(strings.TrimSpace(strings.TrimPrefix(line, "mandoc: ")))
		}
	}
}
