//go:build unix

package command

import (
	"os/exec"
	"syscall"
)

// inGroup has a program run in a process group of its own, which is killed at the end of the
// context.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// killGroup kills what a program that has ended has started.
func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // mostly nobody is left
