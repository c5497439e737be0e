package cli

import (
	"errors"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"patchbay/internal/i18n"
)

// usageError is an error of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage returns a usageError.
func usage(s i18n.Message, args ...any) error { return usageError{s.Errorf(args...)} }

// parserMessage is an error message of the parser, which is only in English, in both languages. The
// groups of the pattern are the arguments of the message.
type parserMessage struct {
	parser *regexp.Regexp
	say    i18n.Message
}

var parserMessages = []parserMessage{
	{regexp.MustCompile(`^unexpected argument (.+), did you mean one of (.+)\?$`),
		i18n.Message("unexpected argument %s, did you mean one of %s?")},
	{regexp.MustCompile(`^unexpected argument (.+), did you mean (.+)\?$`),
		i18n.Message("unexpected argument %s, did you mean %s?")},
	{regexp.MustCompile(`^unexpected argument (.+)$`), i18n.Message("unexpected argument %s")},
	{regexp.MustCompile(`^unknown flag (.+), did you mean one of (.+)\?$`),
		i18n.Message("unknown flag %s, did you mean one of %s?")},
	{regexp.MustCompile(`^unknown flag (.+), did you mean (.+)\?$`), i18n.Message("unknown flag %s, did you mean %s?")},
	{regexp.MustCompile(`^unknown flag (.+)$`), i18n.Message("unknown flag %s")},
	{regexp.MustCompile(`^expected one of (.+)$`), i18n.Message("expected one of %s")},
	{regexp.MustCompile(`^missing flags: (.+)$`), i18n.Message("missing flags: %s")},
	{regexp.MustCompile(`^(?:expected|missing positional arguments) "?(<.+>[^"]*)"?$`), i18n.Message("missing: %s")},
	{regexp.MustCompile(`^(.+?): expected .* value but got .*$`), i18n.Message("%s needs a value")},
	{regexp.MustCompile(`^(--[^:]+): (.+)$`), i18n.Message("setting\x04%s: %s")},
	{regexp.MustCompile(`^(.+) and (.+) can't be used together$`), i18n.Message("%s and %s can't be used together")},
}

var (
	msgNotOneOf = i18n.Message("%s must not be %q but %v")
	msgChoices  = i18n.Message("%s (%v)")
	msgOr       = i18n.Message("%s or %s")
	msgComma    = i18n.Message(", ")
	notOneOf    = regexp.MustCompile(`^(.+) must be one of (.+) but got "(.*)"$`)
)

// choices lists the allowed values.
type choices []string

// In returns the list in a language.
func (c choices) In(l i18n.Lang) string {
	last := len(c) - 1
	if last < 1 {
		return strings.Join(c, "")
	}
	return msgOr.In(l, strings.Join(c[:last], msgComma.In(l)), c[last])
}

func (c choices) Error() string { return c.In(i18n.English) }

// explainUsage returns an error of the parser in both languages.
func explainUsage(err error, at *kong.Node) error {
	text := err.Error()
	if m := notOneOf.FindStringSubmatch(text); m != nil {
		name, _, _ := strings.Cut(m[1], "=")
		return msgNotOneOf.Errorf(strings.Trim(name, `"`), m[3],
			choices(strings.Split(strings.ReplaceAll(m[2], `"`, ""), ",")))
	}
	for _, c := range parserMessages {
		m := c.parser.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		args := make([]any, len(m)-1)
		for i := range args {
			args[i] = m[i+1]
		}
		if list := missingChoices(m[1], at); list != nil {
			args[0] = msgChoices.Errorf(m[1], list)
		}
		return c.say.Errorf(args...)
	}
	return err
}

// missingChoices returns the allowed values of a missing argument.
func missingChoices(summary string, at *kong.Node) choices {
	if at == nil {
		return nil
	}
	for _, p := range at.Positional {
		if summary == p.Summary() {
			if list := enum(p); len(list) > 0 {
				return choices(list)
			}
		}
	}
	return nil
}

// asUsage adds how to get help to an error of the parser.
func asUsage(err error) error {
	command := "patchbay"
	var at *kong.Node
	if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil {
		if at = parse.Context.Selected(); at != nil {
			command = at.FullPath()
		}
	}
	return usage(i18n.Message("%v; see: %s --help"), explainUsage(err, at), command)
}
