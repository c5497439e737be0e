//go:build unix && !linux

package openclawtest

import (
	"os/exec"
	"syscall"
)

// ownGroup has the command lead a group of processes, so that those it starts
// can be ended with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
