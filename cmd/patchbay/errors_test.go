package main

import "testing"

func TestUsageErrors(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"bto"}, []string{"unexpected argument bto", "see: patchbay --help"}},
		{[]string{"bot"}, []string{"expected one of", "see: patchbay bot --help"}},
		{[]string{"bot", "show"}, []string{"<bot>", "see: patchbay bot show --help"}},
		{[]string{"bot", "add", "--kind", "echo"}, []string{"--name"}},
		{[]string{"bot", "list", "--nmae", "x"}, []string{"--nmae"}},
		{[]string{"user", "add", "bob", "--role", "king"}, []string{"--role", "admin"}},
		{[]string{"bot", "set", "1"}, []string{"nothing to change"}},
		{[]string{"bot", "set", "1", "pace"}, []string{`"pace"`, "name=value"}},
		{[]string{"bot", "set", "1", "pace=1s", "pace=2s"}, []string{"pace", "twice"}},
		{[]string{"key", "add", "--name", "k", "--scope", "mcp", "--expires", "soon"}, []string{"--expires", "90d"}},
		{[]string{"key", "add", "--name", "k", "--scope", "mcp", "--expires", "0s"}, []string{"--expires", "90d"}},
		{[]string{"serve", "--listen", "nowhere"}, []string{"listen in --listen", "127.0.0.1:3000"}},
		{[]string{"serve", "--turn-idle", "1y"}, []string{"turn.idle in --turn-idle"}},
		{[]string{"user", "passwd", "ada"}, []string{"--password-stdin"}},
		{[]string{"unbind", "1", "--all", "--user-id", "x"}, []string{"--all", "--user-id"}},
		{[]string{"ask", "1", "hi", "--key", "x"}, []string{"--key is given without --server"}},
		{[]string{"ask", "1", "hi", "--server", "board.example.org"}, []string{"https://"}},
		{[]string{"ask", "1", "hi", "--server", "https://board.example.org"}, []string{"--key", "PATCHBAY_KEY"}},
		{[]string{"completion", "csh"}, []string{"bash"}},
		{[]string{"demo", "--lang", "de"}, []string{"--lang", "zh"}},
	} {
		d.failing(exitUsage, "", c.args, c.want...)
	}
}

func TestErrors(t *testing.T) {
	d := newDesk(t)
	for _, args := range [][]string{
		{"user", "list"}, {"key", "list"}, {"bot", "list"}, {"bot", "show", "1"}, {"bind", "1"}, {"ask", "1", "hi"},
		{"user", "passwd", "ada", "--password-stdin"},
	} {
		d.failing(exitFailed, "", args, "there is nothing in "+d.data, "patchbay user add NAME")
	}
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	d.ok("bot", "add", "--name", "lobster", "--kind", "eyeclaw")
	for _, c := range []struct {
		stdin string
		args  []string
		want  []string
	}{
		{"", []string{"user", "add", "ada"}, []string{`"ada" already`}},
		{"", []string{"user", "add", " "}, []string{"cannot be empty"}},
		{"", []string{"user", "add", "bob", "--password-stdin"}, []string{"no password"}},
		{"short\n", []string{"user", "add", "bob", "--password-stdin"}, []string{"at least 8"}},
		{"", []string{"user", "passwd", "bob", "--password-stdin"}, []string{`nobody named "bob"`}},
		{"", []string{"key", "add", "--name", "k", "--scope", "fly"}, []string{`"fly"`, "lingzhu"}},
		{"", []string{"key", "add", "--name", "k", "--scope", "mcp", "--bot", "nobody"}, []string{`no bot "nobody"`}},
		{"", []string{"key", "revoke", "k"}, []string{`"k"`, "key list"}},
		{"", []string{"bot", "add", "--name", "parrot", "--kind", "echo"}, []string{`"parrot" already`}},
		{"", []string{"bot", "add", "--name", "x", "--kind", "bird"}, []string{`"bird"`, "openai"}},
		{"", []string{"bot", "add", "--name", "x", "--kind", "echo", "--set", "speed=1"}, []string{`"speed"`, "pace"}},
		{"", []string{"bot", "add", "--name", "x", "--kind", "openai"}, []string{"base_url"}},
		{"", []string{"bot", "set", "1", "pace=@/does/not/exist"}, []string{"pace", "/does/not/exist"}},
		{"", []string{"bot", "set", "9", "pace=1s"}, []string{`no bot "9"`, "bot list"}},
		{"", []string{"bot", "rm", "1"}, []string{"nothing was removed", "--yes"}},
		{"", []string{"bot", "rotate", "parrot"}, []string{"no token"}},
		{"", []string{"unbind", "1"}, []string{"nobody is bound"}},
		{"", []string{"unbind", "1", "--user-id", "x"}, []string{`"x"`, "bind 1 --list"}},
		{"", []string{"ask", "lobster", "hi"}, []string{"running server", "patchbay serve"}},
		{"", []string{"ask", "parrot"}, []string{"say something"}},
		{"", []string{"ask", "parrot", "--image", "errors_test.go"}, []string{"picture cannot be read"}},
		{"", []string{"ask", "1", "hi", "--server", "http://127.0.0.1:1", "--key", "k"}, []string{"cannot be reached"}},
		{"", []string{"serve", "--config", "/does/not/exist"}, []string{"/does/not/exist", "does not exist"}},
		{"", []string{"serve", "--listen", "192.0.2.1:1"}, []string{"listen on 192.0.2.1:1"}},
	} {
		d.failing(exitFailed, c.stdin, c.args, c.want...)
	}
}

func TestPersonIsNamedWhenThereAreSeveral(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("user", "add", "bob", "--role", "member")
	d.failing(exitUsage, "", []string{"bot", "add", "--name", "x", "--kind", "echo"}, "--user NAME")
	d.ok("bot", "add", "--name", "x", "--kind", "echo", "--user", "bob")
}
