package cli

import (
	"io"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"patchbay/internal/i18n"
)

// helpContext is the context of the texts of the help, which are in the structs of the commands,
// in the translations.
const helpContext = "help" + i18n.ContextEnd

// Patterns around the texts of settings, as settingHelp formats them in English.
const (
	msgSettingsOf = i18n.Message("Settings of %s:")
	msgValueFile  = i18n.Message("File that holds the value of %s.")
	msgRange      = i18n.Message(" Allowed: %s.")
	msgDefault    = i18n.Message(" Default: %s.")
	msgSwitched   = i18n.Message(" Default: %s; %s switches it off.")
	msgRangeTo    = i18n.Message("range\x04 to ")
	msgRangeOr    = i18n.Message("range\x04 or ")
	msgExamples   = i18n.Message("Examples:")
)

// rangeIn translates the words between the values that a setting can have.
func rangeIn(l i18n.Lang, values string) string {
	return strings.NewReplacer(" to ", msgRangeTo.In(l), " or ", msgRangeOr.In(l), ", ", msgComma.In(l)).
		Replace(values)
}

// helpText translates a text of the help.
func helpText(l i18n.Lang, text string) string {
	if translated, ok := i18n.Lookup(l, helpContext+i18n.Message(text)); ok {
		return translated
	}
	if name, ok := strings.CutPrefix(text, "Settings of "); ok {
		return msgSettingsOf.In(l, strings.TrimSuffix(name, ":"))
	}
	return settingHelpText(l, text)
}

// settingHelpText translates the help of a setting: its meaning, its values, and its default.
func settingHelpText(l i18n.Lang, text string) string {
	if flag, ok := strings.CutPrefix(text, "File that holds the value of "); ok {
		return msgValueFile.In(l, strings.TrimSuffix(flag, "."))
	}
	meaning, otherwise, hasDefault := strings.Cut(text, " Default: ")
	meaning, allowed, bounded := strings.Cut(meaning, " Allowed: ")
	translated, ok := i18n.Lookup(l, helpContext+i18n.Message(meaning))
	if !ok {
		return text
	}
	if bounded {
		translated += msgRange.In(l, rangeIn(l, strings.TrimSuffix(allowed, ".")))
	}
	if hasDefault {
		value, off, isSwitch := strings.Cut(strings.TrimSuffix(otherwise, "."), "; --")
		if isSwitch {
			return translated + msgSwitched.In(l, value, "--"+strings.TrimSuffix(off, " switches it off"))
		}
		translated += msgDefault.In(l, strings.TrimSuffix(otherwise, "."))
	}
	return translated
}

// helpProse translates the text above, between and below the examples of a command. The examples
// stay unchanged.
func helpProse(l i18n.Lang, detail string) string {
	parts := strings.Split(detail, "\n\n")
	for i, part := range parts {
		if exampleTitle.MatchString(part) {
			parts[i] = msgExamples.In(l)
			continue
		}
		parts[i] = helpText(l, part)
	}
	return strings.Join(parts, "\n\n")
}

// translateHelp translates the help into the language of the terminal.
func translateHelp(k *kong.Kong, l i18n.Lang) {
	if l == i18n.English {
		return
	}
	groups := map[*kong.Group]bool{}
	group := func(g *kong.Group) {
		if g != nil && !groups[g] {
			groups[g] = true
			g.Title = helpText(l, g.Title)
		}
	}
	var translate func(n *kong.Node)
	translate = func(n *kong.Node) {
		n.Help, n.Detail = helpText(l, n.Help), helpProse(l, n.Detail)
		group(n.Group)
		for _, f := range n.Flags {
			f.Help = helpText(l, f.Help)
			group(f.Group)
		}
		for _, p := range n.Positional {
			p.Help = helpText(l, p.Help)
		}
		for _, child := range n.Children {
			translate(child)
		}
	}
	translate(k.Model.Node)
	k.Stdout = &helpFrame{k.Stdout, l}
}

var exampleTitle = regexp.MustCompile(`^Examples?:$`)

// helpFrame translates the lines that the parser itself prints around the help. Each Write gets
// one line.
type helpFrame struct {
	to   io.Writer
	lang i18n.Lang
}

// The texts of the parser.
const (
	msgUsage       = i18n.Message("Usage: ")
	msgFlags       = i18n.Message("Flags:")
	msgArguments   = i18n.Message("Arguments:")
	msgCommands    = i18n.Message("Commands:")
	msgAnyCommand  = i18n.Message("<command>")
	msgAnyFlags    = i18n.Message("[flags]")
	msgCommandHelp = i18n.Message("Run \"%s <command> --help\" for more information on a command.")
)

var (
	frameLine = regexp.MustCompile(`^(Usage: .*|Flags:|Arguments:|Commands:)\n$`)
	frameEnd  = regexp.MustCompile(`^Run "(.*) <command> --help" for more information on a command\.\n$`)
)

func (f *helpFrame) Write(p []byte) (int, error) {
	line := string(p)
	if frameLine.MatchString(line) {
		for _, m := range []i18n.Message{msgUsage, msgFlags, msgArguments, msgCommands, msgAnyCommand, msgAnyFlags} {
			line = strings.Replace(line, string(m), m.In(f.lang), 1)
		}
	} else if m := frameEnd.FindStringSubmatch(line); m != nil {
		line = msgCommandHelp.In(f.lang, m[1]) + "\n"
	}
	if _, err := io.WriteString(f.to, line); err != nil {
		return 0, err
	}
	return len(p), nil
}
