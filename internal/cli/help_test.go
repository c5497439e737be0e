package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/i18n/i18ntest"
)

// everyCommand returns all commands and groups of commands.
func everyCommand(t *testing.T) []string {
	t.Helper()
	var c cli
	k, err := newParser(&c, newShell(strings.NewReader(""), io.Discard, io.Discard, nil), true, func(int) {})
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
	d := blankDesk(t)
	for _, name := range everyCommand(t) {
		if strings.HasPrefix(name, "serve") || name == "config check" {
			continue // their flags are the settings, which the tests of package config cover
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
	d := blankDesk(t)
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

// Every text of the help has a translation into each language, and every translation is used.
func TestHelpTranslations(t *testing.T) {
	d := blankDesk(t)
	settings := map[string]bool{}
	for _, k := range config.Keys() {
		name := strings.TrimPrefix(k.Flag, "--")
		settings[name], settings[name+"-file"] = true, true
	}
	var c cli
	k, err := newParser(&c, newShell(strings.NewReader(""), io.Discard, io.Discard, nil), true, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	used := map[i18n.Message]string{}
	look := func(text string) {
		if text != "" {
			used[helpContext+i18n.Message(text)] = "internal/cli"
		}
	}
	kong.Visit(k.Model.Node, func(v kong.Visitable, next kong.Next) error { //nolint:errcheck // it cannot fail
		if n, ok := v.(*kong.Node); ok {
			look(n.Help)
			for part := range strings.SplitSeq(n.Detail, "\n\n") {
				if !strings.HasPrefix(part, "    ") && !exampleTitle.MatchString(part) {
					look(part)
				}
			}
			for _, p := range n.Positional {
				look(p.Help)
			}
			if n.Group != nil {
				look(n.Group.Title)
			}
			for _, f := range n.Flags {
				text := f.Help
				if settings[f.Name] && (n.Path() == "serve" || n.Path() == "config check") {
					if strings.HasPrefix(text, "File that holds the value of ") {
						continue
					}
					text, _, _ = strings.Cut(text, " Default: ")
					text, _, _ = strings.Cut(text, " Allowed: ")
				}
				look(text)
			}
		}
		return next(nil)
	})
	look(k.Model.Help)
	i18ntest.Check(t, "../..", i18ntest.Help, used)

	d.env = append(d.env, "LC_ALL=zh_CN.UTF-8")
	for args, want := range map[string][]string{
		"--help": {"用法：patchbay <命令> [选项]\n", "\n选项：\n", "\n开始：\n", "启动服务。",
			"运行“patchbay <命令> --help”查看某个命令的用法。\n"},
		"bot add --help": {"用法：patchbay bot add --kind=KIND [选项]\n", "接入机器人。",
			"\n例子：\n\n    patchbay bot add", "以 JSON 格式输出结果。"},
		"help bot show": {"用法：patchbay bot show <bot> [选项]\n", "\n参数：\n", "机器人的编号或名称。"},
		"serve --help": {"xiaozhi 的设置：", "选项优先于环境变量", "设备没有说明语言时使用的语言。允许：", "存放 --secret 的值的文件。",
			"=false 关闭。", "\n例子：\n"},
		"tool deny --help": {"所有者的任何程序和机器人都看不到这个工具"},
	} {
		got := d.ok(strings.Fields(args)...)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("patchbay %s does not say %q but\n%s", args, w, got)
			}
		}
		for _, w := range []string{"Default:", "Allowed:", "File that", "Usage:", "Flags:", "Commands:", "Arguments:",
			"Examples:", "Settings of"} {
			if strings.Contains(got, w) {
				t.Errorf("patchbay %s says %q", args, w)
			}
		}
	}
}

func TestServeHelpHasEverySetting(t *testing.T) {
	d := blankDesk(t)
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
	if code := Run(context.Background(), nil, strings.NewReader(""), &stdout, &stderr, nil); code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	if stdout.Len() > 0 || !strings.Contains(stderr.String(), "Usage: patchbay <command>") {
		t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
	}
}
