//go:build !unix

package openclawtest

import "os/exec"

// There are no groups of processes here: the command alone is ended, and what it
// has started has to notice by itself.
func ownGroup(*exec.Cmd) {}

func stopGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
