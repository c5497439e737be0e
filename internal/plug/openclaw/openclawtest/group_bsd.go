//go:build unix && !linux

package openclawtest

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command lead a process group, so that its child processes can be ended with
// it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
