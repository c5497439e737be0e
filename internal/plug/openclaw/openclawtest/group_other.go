//go:build !unix

package openclawtest

import "os/exec"

// ownGroup does nothing, since there are no process groups here: only the command itself is ended.
func ownGroup(*exec.Cmd) {}

func stopGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
