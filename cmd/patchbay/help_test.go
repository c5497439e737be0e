package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// everyCommand lists all commands, with the groups of commands.
func everyCommand(t *testing.T) []string {
	t.Helper()
	var c cli
	k, err := newParser(&c, newShell(strings.NewReader(""), io.Discard, io.Discard, nil), func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{""}
	kong.Visit(k.Model.Node, func(v kong.Visitable, next kong.Next) error { //nolint:errcheck // it cannot fail
		if n, ok := v.(*kong.Node); ok && n.Type == kong.CommandNode {
			names = append(names, n.Path())
		}
		return next(nil)
	})
	return names
}

func TestHelp(t *testing.T) {
	d := newDesk(t)
	for _, name := range everyCommand(t) {
		if strings.HasPrefix(name, "serve") || name == "config check" {
			continue // their flags are the settings, which package config's tests pin down
		}
		t.Run(name, func(t *testing.T) {
			file := "help/patchbay"
			if name != "" {
				file += "-" + strings.ReplaceAll(name, " ", "-")
			}
			golden(t, file+".txt", d.ok(append(strings.Fields(name), "--help")...))
		})
	}
}

func TestEveryCommandHasExamples(t *testing.T) {
	d := newDesk(t)
	for _, name := range everyCommand(t) {
		help := d.ok(append(strings.Fields(name), "--help")...)
		if strings.Contains(help, "Usage: patchbay "+name+" <command>") || name == "" {
			continue
		}
		if !strings.Contains(help, "\n    patchbay "+name) && !strings.Contains(help, "| patchbay "+name) {
			t.Errorf("the help of %s has no example", name)
		}
		if !strings.Contains(help, "--json") {
			t.Errorf("%s has no --json", name)
		}
	}
}

func TestServeHelpHasEverySetting(t *testing.T) {
	d := newDesk(t)
	for _, command := range []string{"serve", "config check"} {
		help := d.ok(append(strings.Fields(command), "--help")...)
		for _, want := range []string{
			"--listen=TEXT", "--database-url=URL", "--database-url-file=FILE", "--turn-late=TIME", "--limits-body=SIZE",
			"--proxies=LIST", "--metrics-open ", "--metrics-listen=TEXT", "--config=FILE", "Settings of lingzhu:",
		} {
			if !strings.Contains(help, want) {
				t.Errorf("%s --help does not mention %s", command, want)
			}
		}
	}
}

func TestNoCommandShowsHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), nil, strings.NewReader(""), &stdout, &stderr, nil); code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	if stdout.Len() > 0 || !strings.Contains(stderr.String(), "Usage: patchbay <command>") {
		t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
	}
}
