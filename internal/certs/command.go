package certs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// commandTime is how long the DNS command may take.
	commandTime = 2 * time.Minute
	// commandOutput is how much of what it prints is kept, in bytes.
	commandOutput = 4 << 10
)

// dnsName returns the name of the TXT record of a DNS-01 challenge (RFC 8555 §8.4).
func dnsName(name string) string { return "_acme-challenge." + name }

// commandError is a failure of the DNS command.
type commandError struct {
	err    error
	output string // the last line that it printed
}

func (e *commandError) Error() string {
	if e.output == "" {
		return e.err.Error()
	}
	return e.err.Error() + ": " + e.output
}

func (e *commandError) Unwrap() error { return e.err }

// runDNS runs the DNS command with an action (add or remove), the name of the record and its value
// as its last arguments, without a shell and without the settings of this server.
func (m *Manager) runDNS(ctx context.Context, action, name, value string) error {
	if len(m.DNSCommand) == 0 {
		return &commandError{err: errors.New("https.dns_command is not set")}
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	args := append(slices.Clone(m.DNSCommand[1:]), action, dnsName(name), value)
	cmd := exec.CommandContext(ctx, m.DNSCommand[0], args...) //nolint:gosec // chosen by who runs the server
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "PATCHBAY_") })
	cmd.WaitDelay = 5 * time.Second
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return &commandError{err, lastLine(out.String())}
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	t.Buffer.Write(p) //nolint:errcheck // it is in memory
	t.Next(max(0, t.Len()-commandOutput))
	return len(p), nil
}

// lastLine returns the last line that is not empty.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
