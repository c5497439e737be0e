package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" help:"Shell: bash, zsh or fish." enum:"bash,zsh,fish"`
}

// Help returns the command's detailed help with examples.
func (completionCmd) Help() string {
	return `Examples:

    patchbay completion bash > ~/.local/share/bash-completion/completions/patchbay
    patchbay completion zsh > "${fpath[1]}/_patchbay"
    patchbay completion fish > ~/.config/fish/completions/patchbay.fish`
}

// Run prints the script.
func (c *completionCmd) Run(sh *shell, k *kong.Kong) error {
	places := completions(k.Model.Node, "")
	var script string
	switch c.Shell {
	case "bash":
		script = bashCompletion(places)
	case "zsh":
		script = zshCompletion(places)
	default:
		script = fishCompletion(places)
	}
	return sh.result(map[string]string{"shell": c.Shell, "script": script}, func() { sh.printf("%s", script) })
}

// completionPoint is a position on the command line, named by the commands before it, such as
// "/bot/add", with the words that can follow.
type completionPoint struct {
	at    string
	words []choice
}

// choice is a command or a flag that can follow.
type choice struct {
	word, help string
	values     []string // values of a flag, if known
	takes      bool     // a flag that takes a value
}

// completions returns the completion points of a command and its subcommands. The first is the
// command itself.
func completions(n *kong.Node, at string) []completionPoint {
	here := completionPoint{at: at}
	var below []completionPoint
	for _, child := range n.Children {
		here.words = append(here.words, choice{word: child.Name, help: child.Help})
		below = append(below, completions(child, at+"/"+child.Name)...)
	}
	for _, p := range n.Positional {
		for _, value := range enum(p) {
			here.words = append(here.words, choice{word: value, help: p.Help})
		}
	}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			here.words = append(here.words, choice{word: "--" + f.Name, help: f.Help, values: enum(f.Value),
				takes: !f.IsBool()})
		}
	}
	return append([]completionPoint{here}, below...)
}

// enum returns the allowed values of a flag, if known.
func enum(v *kong.Value) []string {
	return slices.DeleteFunc(strings.Split(v.Enum, ","), func(s string) bool { return s == "" })
}

// commands returns the positions after the first: the commands to recognise.
func commands(places []completionPoint) []string {
	var list []string
	for _, p := range places[1:] {
		list = append(list, p.at)
	}
	return list
}

func bashCompletion(places []completionPoint) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# bash completion for patchbay
_patchbay() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at="" words="" i
    if [[ $cur == "=" ]]; then
        cur=""
    elif [[ $prev == "=" ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$at/${COMP_WORDS[i]}" in
        %s) at="$at/${COMP_WORDS[i]}" ;;
        esac
    done
    case "$at $prev" in
`, strings.Join(commands(places), "|"))
	for _, p := range places {
		for _, c := range p.words {
			if len(c.values) > 0 {
				fmt.Fprintf(&b, "    %q)\n        COMPREPLY=($(compgen -W %q -- \"$cur\"))\n        return ;;\n", p.at+
					" "+c.word, strings.Join(c.values, " "))
			}
		}
	}
	b.WriteString("    esac\n    case \"$at\" in\n")
	for _, p := range places {
		var words []string
		for _, c := range p.words {
			words = append(words, c.word)
		}
		fmt.Fprintf(&b, "    %q) words=%q ;;\n", p.at, strings.Join(words, " "))
	}
	b.WriteString(`    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _patchbay patchbay
`)
	return b.String()
}

// zshQuote quotes for zsh, where a quoted string cannot contain quotes.
func zshQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// fishQuote quotes for fish.
func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

func zshCompletion(places []completionPoint) string {
	var b strings.Builder
	fmt.Fprintf(&b, `#compdef patchbay
# zsh completion for patchbay
_patchbay() {
    local at="" i
    local -a choices
    for ((i = 2; i < CURRENT; i++)); do
        case "$at/${words[i]}" in
        %s) at="$at/${words[i]}" ;;
        esac
    done
    case "$at" in
`, strings.Join(commands(places), "|"))
	colon := strings.NewReplacer(":", `\:`)
	for _, p := range places {
		fmt.Fprintf(&b, "    %q) choices=(\n", p.at)
		for _, c := range p.words {
			fmt.Fprintf(&b, "        %s\n", zshQuote(colon.Replace(c.word)+":"+c.help))
			for _, value := range c.values {
				fmt.Fprintf(&b, "        %s\n", zshQuote(c.word+"="+value))
			}
		}
		b.WriteString("    ) ;;\n")
	}
	b.WriteString(`    esac
    _describe -V patchbay choices || _files
}
if [ "$funcstack[1]" = "_patchbay" ]; then
    _patchbay "$@"
else
    compdef _patchbay patchbay
fi
`)
	return b.String()
}

func fishCompletion(places []completionPoint) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# fish completion for patchbay
function __patchbay_at
    set -l at ''
    for word in (commandline -opc)[2..-1]
        switch "$at/$word"
            case %s
                set at "$at/$word"
        end
    end
    test "$at" = "$argv[1]"
end
`, strings.Join(commands(places), " "))
	for _, p := range places {
		for _, c := range p.words {
			fmt.Fprintf(&b, "complete -c patchbay -n '__patchbay_at \"%s\"'", p.at)
			name, isFlag := strings.CutPrefix(c.word, "--")
			switch {
			case !isFlag:
				fmt.Fprintf(&b, " -f -a %s", c.word)
			case len(c.values) > 0:
				fmt.Fprintf(&b, " -l %s -x -a %s", name, fishQuote(strings.Join(c.values, " ")))
			case c.takes:
				fmt.Fprintf(&b, " -l %s -r", name)
			default:
				fmt.Fprintf(&b, " -l %s", name)
			}
			fmt.Fprintf(&b, " -d %s\n", fishQuote(c.help))
		}
	}
	return b.String()
}
