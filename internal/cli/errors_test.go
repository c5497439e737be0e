package cli

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"patchbay/internal/bus"
	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/porttest"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

func TestUsageErrors(t *testing.T) {
	d := blankDesk(t)
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"bto"}, []string{"unexpected argument bto", "see: patchbay --help"}},
		{[]string{"bot"}, []string{"expected one of", "see: patchbay bot --help"}},
		{[]string{"bot", "show"}, []string{"<bot>", "see: patchbay bot show --help"}},
		{[]string{"bot", "list", "--nmae", "x"}, []string{"--nmae"}},
		{[]string{"user", "add", "bob", "--role", "king"}, []string{"--role", "admin"}},
		{[]string{"bot", "set", "1"}, []string{"no changes are given"}},
		{[]string{"bot", "set", "1", "pace"}, []string{`"pace"`, "name=value"}},
		{[]string{"bot", "set", "1", "pace=1s", "pace=2s"}, []string{"pace", "twice"}},
		{[]string{"key", "add", "--name", "k", "--scope", "mcp", "--expires", "soon"}, []string{"--expires", "90d"}},
		{[]string{"key", "add", "--name", "k", "--scope", "mcp", "--expires", "0s"}, []string{"--expires", "90d"}},
		{[]string{"serve", "--listen", "nowhere"}, []string{"listen in --listen", "127.0.0.1:3000"}},
		{[]string{"serve", "--turn-idle", "1y"}, []string{"turn.idle in --turn-idle"}},
		{[]string{"user", "passwd", "ada"}, []string{"--password-stdin"}},
		{[]string{"unbind", "1", "--all", "--user-id", "x"}, []string{"--all", "--user-id"}},
		{[]string{"ask", "1", "hi", "--key", "x"}, []string{"--key requires --server"}},
		{[]string{"ask", "1", "hi", "--server", "board.example.org"}, []string{"https://"}},
		{[]string{"ask", "1", "hi", "--server", "https://board.example.org"}, []string{"--key", "PATCHBAY_KEY"}},
		{[]string{"completion", "csh"}, []string{"bash"}},
		{[]string{"demo", "--lang", "de"}, []string{"--lang", "zh"}},
	} {
		d.failing(exitUsage, "", c.args, c.want...)
	}
}

// On a Chinese system, errors about the command line, the data, settings and files are in Chinese.
func TestErrorsInChinese(t *testing.T) {
	d := blankDesk(t)
	d.env = append(d.env, "LC_ALL=zh_CN.UTF-8")
	d.failing(exitFailed, "", []string{"bot", "list"}, "patchbay: "+d.data+" 里还没有数据；请先运行：patchbay serve",
		"patchbay user add 名称")
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	d.ok("bot", "add", "--name", "qwen", "--kind", "openai", "--set", "base_url=http://localhost:1/v1", "--set",
		"model=m")
	d.ok("bot", "add", "--name", "claw", "--kind", "openclaw", "--set", "url=ws://127.0.0.1:18789")
	for _, c := range []struct {
		code  int
		stdin string
		args  []string
		want  []string
	}{
		{exitUsage, "", []string{"bot", "set", "1", "pace"}, []string{`"pace" 不是设置；请写成 名称=值`}},
		{exitUsage, "", []string{"bot", "set", "1"}, []string{"没有说明要更改什么"}},
		{exitUsage, "", []string{"bot", "show"}, []string{"；请看：patchbay bot show --help"}},
		{exitFailed, "", []string{"bot", "show", "nobody"}, []string{`没有机器人 "nobody"`}},
		{exitFailed, "", []string{"bot", "set", "1", "speed=9"}, []string{`没有名为 "speed" 的设置`}},
		{exitFailed, "", []string{"bot", "set", "1", "concurrent=many"}, []string{`concurrent："many" 不合适（需要数字）`}},
		{exitFailed, "", []string{"bot", "set", "1", "agent_id=all"}, []string{"agent_id 只能是 owner、anyone 或 off"}},
		{exitFailed, "", []string{"bot", "set", "1", "max_chars=5"}, []string{"max_chars 是 0 表示不限"}},
		{exitFailed, "", []string{"bot", "set", "2", "temperature=3", "tools_most=999"},
			[]string{"temperature 是 3；请选择 0 到 2", "; tools_most 是 999"}},
		{exitFailed, "", []string{"bot", "set", "3", "url=ws://example.com"},
			[]string{"url 是 ws://，去往 example.com 的路上"}},
		{exitFailed, "", []string{"bot", "add", "--name", "parrot", "--kind", "echo"},
			[]string{`已经有一个叫 "parrot" 的机器人了`}},
		{exitFailed, "", []string{"user", "add", "ada"}, []string{`已经有人叫这个名字了`}},
		{exitFailed, "short\n", []string{"user", "add", "bob", "--password-stdin"}, []string{"密码至少要有 8 个字符"}},
		{exitFailed, "", []string{"key", "add", "--name", "k", "--scope", "fly"}, []string{`没有用途叫 "fly"`}},
		{exitFailed, "", []string{"upstream", "add", "home", "--url", "example.com"}, []string{"url 不是网址"}},
		{exitFailed, "", []string{"shim", "add", "home", "--url", "gateway"}, []string{"url 不是网关的地址"}},
		{exitFailed, "question,answer\n,a\n", []string{"learn", "import", "-"}, []string{"没有导入任何内容，因为有 1 处不对"}},
		{exitFailed, "a,b,c\n", []string{"learn", "import", "-", "--format", "csv"}, []string{"文件读不了：它有 3 列"}},
		{exitFailed, "", []string{"learn", "set", "--retention", "0.1"}, []string{"retention 是 0.1；要在 0.80 到 0.97 之间"}},
		{exitFailed, "", []string{"learn", "show", "zzzzzzzz"}, []string{"没有知识点"}},
		{exitFailed, "", []string{"learn", "import", "/nope.csv"}, []string{"patchbay: 没有 /nope.csv 这个文件或文件夹；请检查路径"}},
		{exitFailed, "", []string{"backup", "restore", "/nope.tar"}, []string{"没有 /nope.tar 这个文件或文件夹；请检查路径"}},
		{exitFailed, "", []string{"bot", "set", "2", "api_key=@/nope"},
			[]string{"patchbay: api_key: 没有 /nope 这个文件或文件夹"}},
	} {
		d.failing(c.code, c.stdin, c.args, c.want...)
	}
	bad := func(at string) {
		if o := d.do("question,answer\n,a\n", "learn", "import", "-"); o.code != exitFailed ||
			!strings.Contains(o.stdout, "第 2 条：问题是空的") {
			t.Errorf("%s it says %q and %q", at, o.stdout, o.stderr)
		}
		d.failing(exitFailed, "", []string{"learn", "set", "--retention", "0.1"}, "retention 是 0.1；要在 0.80 到 0.97 之间")
	}
	bad("in the folder")
	d.serve()
	bad("through a server")
	d.failing(exitFailed, "", []string{"learn", "import", "-", "--format", "apkg"}, "这个 Anki 包已损坏")
}

func TestErrors(t *testing.T) {
	d := blankDesk(t)
	for _, args := range [][]string{
		{"user", "list"}, {"key", "list"}, {"bot", "list"}, {"bot", "show", "1"}, {"bind", "1"}, {"ask", "1", "hi"},
		{"user", "passwd", "ada", "--password-stdin"},
	} {
		d.failing(exitFailed, "", args, d.data+" contains no data yet", "start with: patchbay serve",
			"patchbay user add NAME")
	}
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	d.ok("bot", "add", "--name", "lobster", "--kind", "eyeclaw")
	for _, c := range []struct {
		stdin string
		args  []string
		want  []string
	}{
		{"", []string{"user", "add", "ada"}, []string{"Somebody else has this name"}},
		{"", []string{"user", "add", " "}, []string{"cannot be empty"}},
		{"", []string{"user", "add", "bob", "--password-stdin"}, []string{"no password"}},
		{"short\n", []string{"user", "add", "bob", "--password-stdin"}, []string{"at least 8"}},
		{"", []string{"user", "passwd", "bob", "--password-stdin"}, []string{`there is no user "bob"`}},
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
		{"", []string{"unbind", "1"}, []string{"no wearer is bound"}},
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
	d := blankDesk(t)
	d.ok("user", "add", "ada")
	d.ok("user", "add", "bob", "--role", "member")
	d.failing(exitFailed, "", []string{"bot", "add", "--name", "x", "--kind", "echo"}, "--user NAME")
	d.ok("bot", "add", "--name", "x", "--kind", "echo", "--user", "bob")
}

// Errors of the disk, the database or the network end with advice, both here and in doctor, in the
// reader's language.
func TestErrorsEndInAdvice(t *testing.T) {
	d := blankDesk(t)
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t))
	if err := os.MkdirAll(d.data, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d.data, store.FileName)
	if err := os.WriteFile(file, []byte(strings.Repeat("this is no database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"user", "list"}, {"user", "add", "ada"}} {
		d.failing(exitFailed, "", args, "is damaged", "patchbay backup restore FILE")
	}
	want(t, d.examine(exitFailed), "database", check.Fail, "is damaged")
	nowhere := porttest.Refused(t)
	d.failing(exitFailed, "", []string{"ask", "1", "hi", "--server", "http://" + nowhere, "--key", "k"},
		nowhere+" cannot be reached: nothing listens there")
	d.failing(exitFailed, "", []string{"user", "list", "--database-url", "postgres://ada@" + nowhere + "/x"},
		"database server cannot be reached: nothing listens there", "database.url")

	for _, c := range []struct {
		err    error
		en, zh string
	}{
		{fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}),
			"the disk is full. Make room", "磁盘已满。请腾出空间"},
		{fmt.Errorf("bot 2: api_key: %w", seal.ErrKey), "bot 2: api_key: sealed with another key: is secret",
			"bot 2: api_key: 是用另一个密钥密封的：secret"},
		{fmt.Errorf("make the data folder: %w", &fs.PathError{Op: "mkdir", Path: "a/b", Err: syscall.ENOTDIR}),
			"make the data folder: a part of the path a/b is no folder", "a/b 的路径里有一处不是文件夹"},
		{fmt.Errorf("connect to the bus: %w", bus.ErrUnreachable),
			"the bus (NATS) cannot be reached; see whether it runs", "无法连接总线（NATS）；请检查它是否在运行"},
		{fmt.Errorf("connect to the bus: %w", bus.ErrRefused), "the bus (NATS) refuses; see whether user",
			"总线（NATS）拒绝连接；请检查 bus.url"},
		{store.ErrNewer, "the data is of a newer version", "数据来自更新版本的 Patchbay"},
	} {
		for lang, want := range map[i18n.Lang]string{i18n.English: c.en, i18n.Chinese: c.zh} {
			var stderr bytes.Buffer
			sh := newShell(nil, io.Discard, &stderr, nil)
			sh.lang = lang
			if code := sh.fail(c.err); code != exitFailed || !strings.HasPrefix(stderr.String(), "patchbay: ") ||
				!strings.Contains(stderr.String(), want) {
				t.Errorf("%v ends with %d and %q", c.err, code, &stderr)
			}
		}
	}
	d.env = append(d.env, "LC_ALL=zh_CN.UTF-8")
	d.failing(exitFailed, "", []string{"user", "list"}, "数据库已损坏", "patchbay backup restore 文件")
	if o := d.do("", "doctor"); strings.Contains(o.stdout, "dial tcp") || !strings.Contains(o.stdout, "数据库已损坏") {
		t.Errorf("doctor says\n%s", o.stdout)
	}
}

// A key other than the one that encrypted the secrets, or an invalid one, is reported in the
// reader's language, with advice.
func TestWrongSecretInChinese(t *testing.T) {
	d := blankDesk(t)
	d.env = append(d.env, "LC_ALL=zh_CN.UTF-8", "PATCHBAY_LISTEN="+free(t))
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "m", "--kind", "openai", "--set", "base_url=http://127.0.0.1:1/v1", "--set", "model=m",
		"--set", "api_key=sk-x")
	other := *d
	other.env = append(slices.Clone(d.env), "PATCHBAY_SECRET="+strings.Repeat("ab", 32))
	if o := other.do("", "doctor"); !strings.Contains(o.stdout, "不是这个服务的：数据是用另一个密钥密封的") ||
		strings.Contains(o.stdout, "sealed with") {
		t.Errorf("doctor says\n%s", o.stdout)
	}
	if err := os.WriteFile(filepath.Join(d.data, "secret.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.failing(exitFailed, "", []string{"user", "list"}, "至少要有 32 字节", "openssl rand -hex 32")
}

// The usual flags of every program exist, and an incomplete command lists its subcommands.
func TestHelpAndVersion(t *testing.T) {
	d := blankDesk(t)
	if got, want := d.ok("--version"), d.ok("version"); got != want {
		t.Errorf("--version prints %q, version %q", got, want)
	}
	if got, want := d.ok("help"), d.ok("--help"); got != want {
		t.Errorf("help prints %q", got)
	}
	if got, want := d.ok("help", "bot", "add"), d.ok("bot", "add", "--help"); got != want {
		t.Errorf("help bot add prints %q", got)
	}
	d.failing(exitUsage, "", []string{"help", "bto"}, "bto", "see: patchbay --help")
	d.failing(exitUsage, "", []string{"completion"}, "bash, zsh or fish", "see: patchbay completion --help")
	d.failing(exitUsage, "", []string{"completion", "tcsh"}, `"tcsh"`, "bash, zsh or fish")
}

// Errors of the command line are in a single language.
func TestUsageErrorsInChinese(t *testing.T) {
	d := blankDesk(t)
	d.env = append(d.env, "LC_ALL=zh_CN.UTF-8")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"bto"}, "patchbay: 没有 bto 这个命令或参数"},
		{[]string{"user", "lisst"}, `patchbay: 没有 lisst 这个命令或参数；你是想用 "list" 吗？`},
		{[]string{"bot"}, "patchbay: 后面要写以下之一："},
		{[]string{"bot", "show"}, "patchbay: 缺少参数：<bot>"},
		{[]string{"bot", "add", "--name", "x"}, "patchbay: 缺少选项：--kind="},
		{[]string{"bot", "list", "--nmae", "x"}, "patchbay: 没有 --nmae 这个选项"},
		{[]string{"user", "add", "bob", "--role", "king"}, `patchbay: --role 不能是 "king"，可以是 admin 或 member`},
		{[]string{"completion"}, "patchbay: 缺少参数：<shell>（bash、zsh 或 fish）"},
		{[]string{"completion", "csh"}, `<shell> 不能是 "csh"，可以是 bash、zsh 或 fish`},
	} {
		d.failing(exitUsage, "", c.args, c.want, "；请看：patchbay")
	}
}
