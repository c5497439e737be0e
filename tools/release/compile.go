package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// target is a platform that releases are made for.
type target struct {
	os, arch string // GOOS and GOARCH
	arm      string // GOARM; the variant of OCI images is v and this
}

// targets are all platforms. 32-bit ARM is version 7, as the distributions' armhf.
var targets = []target{
	{"linux", "amd64", ""},
	{"linux", "arm64", ""},
	{"linux", "arm", "7"},
	{"linux", "riscv64", ""},
	{"darwin", "amd64", ""},
	{"darwin", "arm64", ""},
	{"windows", "amd64", ""},
}

// platform is the name on the command line.
func (t target) platform() string { return t.os + "/" + t.archName() }

func (t target) archName() string {
	if t.arm != "" {
		return t.arch + "v" + t.arm
	}
	return t.arch
}

// image reports whether there is a container image for the platform.
func (t target) image() bool { return t.os == "linux" && (t.arch == "amd64" || t.arch == "arm64") }

// program is the name of the executable.
func (t target) program() string {
	if t.os == "windows" {
		return "patchbay.exe"
	}
	return "patchbay"
}

func platforms() string {
	var list []string
	for _, t := range targets {
		list = append(list, t.platform())
	}
	return strings.Join(list, ", ")
}

// binary is a program that has been built.
type binary struct {
	target
	path string
}

// compileFlags are the flags of go build beside the stamps.
//
// Functions of the console's pages are not inlined: the go command would copy whole pages to each
// place that shows them, which is 2.6 MB, and is faster by nothing that can be measured beside the
// network.
var compileFlags = []string{"-trimpath", "-buildvcs=false", "-gcflags=patchbay/internal/console/...=-l"}

// stamps are the linker's flags. The names are variables of internal/cli; the linker ignores those
// that do not exist, so a test looks for them.
func (s source) stamps() string {
	return fmt.Sprintf("-s -w -X %[1]s.release=%[2]s -X %[1]s.revision=%[3]s -X %[1]s.date=%[4]s",
		stamped, s.version, s.commit, s.time.Format(time.RFC3339))
}

const stamped = "patchbay/internal/cli"

// compile builds the program for a platform, or copies the one that was given.
func (r *build) compile(ctx context.Context, t target, path string) (binary, error) {
	b := binary{t, path}
	if given := r.binaries[t.platform()]; given != "" {
		program, err := os.ReadFile(given)
		if err == nil {
			err = os.WriteFile(path, program, 0o755) //nolint:gosec // a program
		}
		return b, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return b, err
	}
	args := append([]string{"build", "-ldflags=" + r.stamps(), "-o", absolute}, compileFlags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/patchbay")...)
	cmd.Dir = r.root
	// What would change the bytes is the same whatever the environment says.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOARM="+t.arm, "GOAMD64=v1",
		"GOARM64=v8.0", "GORISCV64=rva20u64", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off")
	_, err = output(cmd)
	return b, err
}
