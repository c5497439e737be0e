package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
)

type manCmd struct {
	Command string `arg:"" optional:"" help:"A command, such as bot, whose page is printed; default: the page of all commands."`
	Folder  string `help:"Write all pages to this folder instead." placeholder:"DIR"`
}

// Help returns the command's detailed help with examples.
func (manCmd) Help() string {
	return `The pages are made from the same texts as --help, in the language of the terminal.

Examples:

    patchbay man | man -l -
    patchbay man bot | man -l -
    patchbay man --folder ~/.local/share/man/man1`
}

// manPage is a manual page.
type manPage struct {
	Name    string `json:"name"` // such as patchbay-bot
	Section int    `json:"section"`
	Text    string `json:"text"`
}

func (p manPage) file() string { return fmt.Sprintf("%s.%d", p.Name, p.Section) }

const (
	msgNoManPage = i18n.Message("there is no command %s")
	msgManPages  = i18n.Message("%d manual pages are in %s.")
)

// Run prints or writes pages.
func (c *manCmd) Run(sh *shell, k *kong.Kong) error {
	pages := manPages(k.Model.Node)
	if c.Folder != "" {
		return c.write(sh, pages)
	}
	name := "patchbay"
	if c.Command != "" {
		name += "-" + c.Command
	}
	for _, p := range pages {
		if p.Name == name {
			return sh.result(p, func() { sh.printf("%s", p.Text) })
		}
	}
	return usage(msgNoManPage, c.Command)
}

func (c *manCmd) write(sh *shell, pages []manPage) error {
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return err
	}
	var names []string
	for _, p := range pages {
		names = append(names, p.file())
		if err := os.WriteFile(filepath.Join(c.Folder, p.file()), []byte(p.Text), 0o644); err != nil { //nolint:gosec // manuals are for everybody
			return err
		}
	}
	return sh.result(map[string]any{"folder": c.Folder, "pages": names}, func() { sh.say(msgManPages, len(pages), c.Folder) })
}

// manPages returns the page of all commands, one for each command with its subcommands, and one of
// the configuration file.
func manPages(root *kong.Node) []manPage {
	pages := []manPage{mainPage(root)}
	for _, n := range root.Children {
		if n.Hidden {
			continue
		}
		var m manWriter
		m.head("patchbay-"+n.Name, 1, n.Help)
		m.command(n)
		m.seeAlso("patchbay(1)", "patchbay.yaml(5)")
		pages = append(pages, manPage{"patchbay-" + n.Name, 1, m.String()})
	}
	return append(pages, settingsPage(root))
}

// mainPage returns the page patchbay(1).
func mainPage(root *kong.Node) manPage {
	var m manWriter
	m.head("patchbay", 1, root.Help)
	m.section("SYNOPSIS")
	m.line(".B patchbay")
	m.line(".I command")
	m.line("[flags]")
	m.section("DESCRIPTION")
	group := ""
	for _, n := range root.Children {
		if n.Hidden {
			continue
		}
		if n.Group != nil && n.Group.Title != group {
			group = n.Group.Title
			m.line(".SS " + roffQuoted(strings.TrimSuffix(strings.TrimSuffix(group, ":"), "：")))
		}
		m.line(".TP")
		m.line(".BR patchbay\\-" + roffText(n.Name) + " (1)")
		m.text(n.Help)
	}
	m.section("EXIT STATUS")
	m.line(".TP\n0\nThe command did what it was asked.")
	m.line(".TP\n1\nIt failed.")
	m.line(".TP\n2\nThe command line or a setting in it is wrong.")
	m.line(".TP\n130\nIt was interrupted.")
	m.seeAlso("patchbay.yaml(5)", "patchbay-serve(1)", "patchbay-demo(1)", "patchbay-doctor(1)")
	return manPage{"patchbay", 1, m.String()}
}

// settingsPage returns the page patchbay.yaml(5).
func settingsPage(root *kong.Node) manPage {
	var m manWriter
	m.head("patchbay.yaml", 5, "settings of the server")
	m.section("DESCRIPTION")
	m.text(`The file is YAML: "patchbay config default" prints it with all settings, and "patchbay config check" tells what is wrong with one. Each setting is also an environment variable and a flag of patchbay serve; flags win over the environment, which wins over the file.`)
	m.section("SETTINGS")
	help := map[string]string{}
	for _, child := range root.Children {
		if child.Name == "serve" {
			for _, f := range child.Flags {
				help["--"+f.Name] = f.Help
			}
		}
	}
	for _, k := range config.Keys() {
		m.line(".TP")
		m.line(".BR " + roffText(k.Path) + " \" (" + roffText(k.Env) + ")\"")
		text := help[k.Flag]
		if text == "" {
			text = settingHelp(k)
		}
		m.text(text)
	}
	m.seeAlso("patchbay(1)", "patchbay-serve(1)", "patchbay-config(1)")
	return manPage{"patchbay.yaml", 5, m.String()}
}

// manWriter writes a page with the macros of man(7), which mandoc and groff know.
type manWriter struct{ strings.Builder }

func (m *manWriter) line(text string) { m.WriteString(text + "\n") }

func (m *manWriter) head(name string, section int, about string) {
	m.line(fmt.Sprintf(".TH %s %d \"\" \"Patchbay %s\"", roffText(strings.ToUpper(name)), section,
		roffText(thisBuild().Version)))
	m.section("NAME")
	about = strings.TrimSuffix(about, ".")
	m.line(roffText(name) + " \\- " + roffText(about))
}

func (m *manWriter) section(name string) { m.line(".SH " + roffQuoted(name)) }

// text writes paragraphs; indented ones stay as they are.
func (m *manWriter) text(text string) {
	for i, part := range strings.Split(text, "\n\n") {
		if i > 0 {
			m.line(".PP")
		}
		if strings.HasPrefix(part, "    ") {
			m.line(".EX")
			for line := range strings.Lines(part) {
				m.line(roffLine(strings.TrimSuffix(line, "\n")))
			}
			m.line(".EE")
			continue
		}
		m.prose(part)
	}
}

// proseWidth is the width of lines in the source of a page, in characters.
const proseWidth = 78

// prose writes a paragraph in lines of its own, as mandoc(1) wants them.
func (m *manWriter) prose(text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		word = roffText(word)
		if line != "" && len(line)+1+len(word) > proseWidth {
			m.line(dotSafe(line))
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	m.line(dotSafe(line))
}

// command writes a command, and its subcommands after it.
func (m *manWriter) command(n *kong.Node) {
	if len(n.Children) == 0 {
		m.section(strings.ToUpper(n.FullPath()))
		m.line(".B " + roffText(n.FullPath()))
		for _, p := range n.Positional {
			m.line(roffLine(p.Summary()))
		}
		m.line("[flags]")
		m.line(".PP")
		m.text(n.Help)
		if n.Detail != "" {
			m.line(".PP")
			m.text(n.Detail)
		}
		m.options(n)
	}
	for _, child := range n.Children {
		if !child.Hidden {
			m.command(child)
		}
	}
}

// options writes arguments and flags of a command.
func (m *manWriter) options(n *kong.Node) {
	for _, p := range n.Positional {
		m.option(p.Summary(), p.Help)
	}
	settings, isSetting := false, map[string]bool{}
	for _, k := range config.Keys() {
		name := strings.TrimPrefix(k.Flag, "--")
		isSetting[name], isSetting[name+"-file"] = true, k.Secret
	}
	for _, f := range n.Flags {
		if f.Hidden {
			continue
		}
		if isSetting[f.Name] && (n.Name == "serve" || n.FullPath() == "patchbay config check") {
			settings = true // they are in the page of the settings
			continue
		}
		name := "--" + f.Name
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		if !f.IsBool() {
			name += "=" + f.FormatPlaceHolder()
		}
		m.option(name, f.Help)
	}
	if settings {
		m.line(".PP")
		m.line("Each setting of")
		m.line(".BR patchbay.yaml (5)")
		m.line("is a flag too.")
	}
}

func (m *manWriter) option(name, help string) {
	m.line(".TP")
	m.line(".B " + roffQuoted(name))
	m.text(help)
}

func (m *manWriter) seeAlso(pages ...string) {
	m.section("SEE ALSO")
	for i, p := range pages {
		name, section, _ := strings.Cut(p, "(")
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		m.line(".BR " + roffText(name) + " (" + section + end)
	}
}

// roffText escapes a text: a hyphen that is typed is not a hyphen that is printed.
func roffText(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "~", `\(ti`, "^", `\(ha`, "'", `\(aq`, "`", `\(ga`).Replace(text)
}

// roffLine escapes a line, which must not begin like a macro.
func roffLine(text string) string { return dotSafe(roffText(text)) }

func dotSafe(text string) string {
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// roffQuoted is an argument of a macro.
func roffQuoted(text string) string {
	return `"` + strings.ReplaceAll(roffText(text), `"`, `\(dq`) + `"`
}
