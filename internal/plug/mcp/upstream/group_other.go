//go:build !unix

package upstream

import "os/exec"

// ownGroup does nothing: without process groups only the command itself is killed; its children
// must notice the end themselves.
func ownGroup(*exec.Cmd) {}

func stopGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
