package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// makePacker builds the program that makes packages of Linux distributions, which is a module of
// its own. The caller removes the folder of the returned path.
func (r *build) makePacker(ctx context.Context) (path string, err error) {
	folder, err := os.MkdirTemp("", "release")
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "packages")
	cmd := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(r.root, "tools", "packages"), "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=", "GOARCH=", "GOWORK=off")
	if _, err = output(cmd); err != nil {
		os.RemoveAll(folder)
		return "", err
	}
	return path, nil
}

// packages makes the packages of Linux distributions from the binaries for Linux. host is a program
// that runs on this machine.
func (r *build) packages(ctx context.Context, binaries []binary, host string) error {
	if r.noPackages {
		return nil
	}
	packer, err := r.makePacker(ctx)
	if err != nil {
		return fmt.Errorf("packages: %w", err)
	}
	defer os.RemoveAll(filepath.Dir(packer))
	for _, b := range binaries {
		if b.os != "linux" {
			continue
		}
		arguments := []string{"-version", r.version, "-arch", b.arch + b.arm,
			"-time", strconv.FormatInt(r.time.Unix(), 10)}
		for flag, path := range map[string]string{"-binary": b.path, "-host": host, "-root": r.root, "-out": r.out} {
			absolute, err := filepath.Abs(path)
			if err != nil {
				return err
			}
			arguments = append(arguments, flag, absolute)
		}
		made, err := output(exec.CommandContext(ctx, packer, arguments...))
		if err != nil {
			return fmt.Errorf("packages for %s: %w", b.platform(), err)
		}
		for path := range strings.FieldsSeq(made) {
			r.progress("%s", filepath.Base(path))
		}
	}
	return nil
}
