package main

import (
	_ "embed"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/alecthomas/kong"

	"patchbay/internal/talk"
)

// helpInChinese has each text of the help as in the structs of the commands and, on the next line
// after a tab, in Chinese. TestHelpInChinese finds missing ones.
//
//go:embed help_zh.txt
var helpInChinese string

var chineseHelp = sync.OnceValue(func() map[string]string {
	texts := map[string]string{}
	english := ""
	for line := range strings.Lines(helpInChinese) {
		line = strings.TrimSuffix(line, "\n")
		if chinese, ok := strings.CutPrefix(line, "\t"); ok {
			texts[english] = chinese
		} else {
			english = line
		}
	}
	return texts
})

// inChinese returns a help text in Chinese.
func inChinese(text string) string {
	if chinese, ok := chineseHelp()[text]; ok {
		return chinese
	}
	if name, ok := strings.CutPrefix(text, "Settings of "); ok {
		return strings.TrimSuffix(name, ":") + " 的设置："
	}
	return settingInChinese(text)
}

// Patterns around the texts of settings, as settingHelp formats them in English.
var (
	sayValueFile = talk.Say{Zh: "存放 %s 的值的文件。", En: "File that holds the value of %s."}
	sayRange     = talk.Say{Zh: "允许：%s。", En: " Allowed: %s."}
	sayDefault   = talk.Say{Zh: "默认：%s。", En: " Default: %s."}
	saySwitched  = talk.Say{Zh: "默认：%s；用 %s 关闭。", En: " Default: %s; %s switches it off."}
	rangeWords   = strings.NewReplacer(" to ", " 到 ", " or ", " 或 ")
)

// settingInChinese translates the help of a setting: its meaning, its values, and its default.
func settingInChinese(text string) string {
	if flag, ok := strings.CutPrefix(text, "File that holds the value of "); ok {
		return sayValueFile.In(talk.Chinese, strings.TrimSuffix(flag, "."))
	}
	meaning, otherwise, hasDefault := strings.Cut(text, " Default: ")
	meaning, allowed, bounded := strings.Cut(meaning, " Allowed: ")
	chinese, ok := chineseHelp()[meaning]
	if !ok {
		return text
	}
	if bounded {
		chinese += sayRange.In(talk.Chinese, rangeWords.Replace(strings.TrimSuffix(allowed, ".")))
	}
	if hasDefault {
		value, off, isSwitch := strings.Cut(strings.TrimSuffix(otherwise, "."), "; --")
		if isSwitch {
			return chinese + saySwitched.In(talk.Chinese, value, "--"+strings.TrimSuffix(off, " switches it off"))
		}
		chinese += sayDefault.In(talk.Chinese, strings.TrimSuffix(otherwise, "."))
	}
	return chinese
}

// proseInChinese translates the text above, between and below the examples of a command. The
// examples stay unchanged.
func proseInChinese(detail string) string {
	parts := strings.Split(detail, "\n\n")
	for i, part := range parts {
		if exampleTitle.MatchString(part) {
			part = "例子："
		}
		parts[i] = inChinese(part)
	}
	return strings.Join(parts, "\n\n")
}

// translateHelp translates the help into the language of the terminal.
func translateHelp(k *kong.Kong, lang talk.Lang) {
	if lang != talk.Chinese {
		return
	}
	groups := map[*kong.Group]bool{}
	group := func(g *kong.Group) {
		if g != nil && !groups[g] {
			groups[g] = true
			g.Title = inChinese(g.Title)
		}
	}
	var translate func(n *kong.Node)
	translate = func(n *kong.Node) {
		n.Help, n.Detail = inChinese(n.Help), proseInChinese(n.Detail)
		group(n.Group)
		for _, f := range n.Flags {
			f.Help = inChinese(f.Help)
			group(f.Group)
		}
		for _, p := range n.Positional {
			p.Help = inChinese(p.Help)
		}
		for _, child := range n.Children {
			translate(child)
		}
	}
	translate(k.Model.Node)
	k.Stdout = &chineseFrame{to: k.Stdout}
}

var exampleTitle = regexp.MustCompile(`^Examples?:$`)

// chineseFrame translates the lines that the parser itself prints around the help. Each Write gets
// one line.
type chineseFrame struct{ to io.Writer }

var (
	frameWords = strings.NewReplacer("Usage: ", "用法：", "Flags:\n", "选项：\n", "Arguments:\n", "参数：\n", "Commands:\n",
		"命令：\n",
		"<command>", "<命令>", "[flags]", "[选项]")
	frameLine = regexp.MustCompile(`^(Usage: .*|Flags:|Arguments:|Commands:)\n$`)
	frameEnd  = regexp.MustCompile(`^Run "(.*) <command> --help" for more information on a command\.\n$`)
	// The English text is the parser's; $1 is the command.
	sayFrameEnd = talk.Say{Zh: "运行“$1 <命令> --help”查看某个命令的用法。\n",
		En: "Run \"$1 <command> --help\" for more information on a command.\n"}
)

func (f *chineseFrame) Write(p []byte) (int, error) {
	line := string(p)
	switch {
	case frameLine.MatchString(line):
		line = frameWords.Replace(line)
	case frameEnd.MatchString(line):
		line = frameEnd.ReplaceAllString(line, sayFrameEnd.Zh)
	}
	if _, err := io.WriteString(f.to, line); err != nil {
		return 0, err
	}
	return len(p), nil
}
