//go:build !unix

package command

import "os/exec"

// inGroup does nothing: this system has no process groups.
func inGroup(*exec.Cmd) {}

// killGroup does nothing.
func killGroup(*exec.Cmd) {}
