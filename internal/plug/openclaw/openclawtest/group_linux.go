package openclawtest

import (
	"os/exec"
	"syscall"
)

// ownGroup has the command lead a group of processes, so that those it starts
// can be ended with it. It ends by itself if the test is killed, which would
// otherwise leave 800 MB behind.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
