//go:build unix

package main

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/test/built"
)

// probes are the paths that the deployment files watch.
var probes = []string{"/healthz", "/readyz"}

// TestProbes reports other paths in the deployment files.
func TestProbes(t *testing.T) {
	for path, text := range deployFiles(t) {
		for line := range strings.SplitSeq(text, "\n") {
			word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch word {
			case "path:", "health_uri", "watchdog:":
				value = value[strings.LastIndex(value, "/"):]
				if value = strings.Trim(value, `"`); value != probes[0] && value != probes[1] {
					t.Errorf("%s watches %s", path, value)
				}
			}
		}
	}
}

// checkContainer runs an image as a container does: with its files only, as its user, with its
// environment and its command.
func checkContainer(t *testing.T, files map[string]entry) {
	if os.Getuid() != 0 {
		t.Skip("only root can change the root folder")
	}
	root := t.TempDir()
	openPath(t, root)
	var images []dockerImage
	decode(t, files["manifest.json"].data, &images)
	for _, l := range images[0].Layers {
		unpack(t, root, unzipped(t, files[l].data))
	}
	var config imageConfig
	decode(t, files[images[0].Config].data, &config)
	address, err := built.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd, log := contained(ctx, t, root, config.Config, address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, path := range probes {
		until(ctx, t, path, func() bool { return answers(ctx, "http://"+address+path) })
	}
	until(ctx, t, "the setup code", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), "setup code")
	})
	check := exec.CommandContext(ctx, config.Config.Healthcheck.Test[1], config.Config.Healthcheck.Test[2:]...)
	check.Dir, check.Env, check.SysProcAttr = cmd.Dir, cmd.Env, cmd.SysProcAttr
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("the health check: %v\n%s", err, out)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, readFile(t, filepath.Dir(log), filepath.Base(log)))
	}
	if _, err := os.Stat(filepath.Join(root, imageData, "patchbay.db")); err != nil {
		t.Error(err)
	}
}

// contained returns the command of an image, which listens on another address than a container
// would, and the file with what it prints.
func contained(ctx context.Context, t *testing.T, root string, config runConfig, address string) (*exec.Cmd, string) {
	t.Helper()
	user, _, _ := strings.Cut(config.User, ":")
	id, err := strconv.ParseUint(user, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	cmd := exec.CommandContext(ctx, config.Entrypoint[0], config.Cmd...)
	cmd.Dir = config.WorkingDir
	cmd.Env = append(config.Env, "PATCHBAY_LISTEN="+address)
	cmd.Stdout, cmd.Stderr = log, log
	who := &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: who}
	return cmd, log.Name()
}

// openPath lets other users pass through the folders of this test to a folder in them.
func openPath(t *testing.T, folder string) {
	t.Helper()
	for ; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o755); err != nil { //nolint:gosec // of this test
			t.Fatal(err)
		}
	}
}

// until waits for a condition.
func until(ctx context.Context, t *testing.T, what string, met func() bool) {
	t.Helper()
	for !met() {
		if err := netx.Wait(ctx, 20*time.Millisecond); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// answers reports whether an address answers 200 to Kubernetes, which asks by the address of the
// pod.
func answers(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	req.Host = "10.1.2.3:" + imagePort
	client := &http.Client{Timeout: 5 * time.Second}
	answer, err := client.Do(req)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// unpack unpacks a layer.
func unpack(t *testing.T, root string, data []byte) {
	t.Helper()
	for name, e := range readTar(t, data) {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as in the image
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, e.mode)
		} else {
			err = os.WriteFile(path, e.data, e.mode)
		}
		mode := e.mode
		if e.sticky {
			mode |= fs.ModeSticky
		}
		for _, err := range []error{err, os.Chmod(path, mode), os.Chown(path, e.uid, e.uid)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
