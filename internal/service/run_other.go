//go:build !windows

package service

import (
	"context"
	"os"
)

// Run runs the program of a service: until ctx ends, and on Windows until the service control
// manager stops it. It returns the program's exit code.
func Run(ctx context.Context, program func(context.Context) int) (int, error) {
	return program(ctx), nil
}

func isPrivileged() bool { return os.Geteuid() == 0 }
