// Package built builds the patchbay program and runs instances of it for tests.
package built

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program builds patchbay into a folder and returns the path of the executable.
//
// The go command caches a passing result until a file changes that the test was compiled from or
// has opened. Files compiled by another process do not count, so Program opens the folders of the
// sources itself.
func Program(folder string) (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	for _, sources := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, sources), func(string, fs.DirEntry, error) error { return nil })
		if err != nil {
			return "", err
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			return "", err
		}
	}
	binary := filepath.Join(folder, "patchbay")
	build := exec.Command("go", "build", "-o", binary, "patchbay/cmd/patchbay")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
}
