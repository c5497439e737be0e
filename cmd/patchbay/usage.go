package main

import (
	"errors"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"patchbay/internal/talk"
)

// usageError is an error of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage returns a usageError.
func usage(s talk.Say, args ...any) error { return usageError{s.Wrong(args...)} }

// parserMessage is an error message of the parser, which is only in English, in both languages. The
// groups of the pattern are the arguments of the message.
type parserMessage struct {
	parser *regexp.Regexp
	say    talk.Say
}

var parserMessages = []parserMessage{
	{regexp.MustCompile(`^unexpected argument (.+), did you mean one of (.+)\?$`), talk.Say{
		Zh: "没有 %s 这个命令或参数；你是想用 %s 之一吗？", En: "unexpected argument %s, did you mean one of %s?"}},
	{regexp.MustCompile(`^unexpected argument (.+), did you mean (.+)\?$`), talk.Say{
		Zh: "没有 %s 这个命令或参数；你是想用 %s 吗？", En: "unexpected argument %s, did you mean %s?"}},
	{regexp.MustCompile(`^unexpected argument (.+)$`), talk.Say{
		Zh: "没有 %s 这个命令或参数", En: "unexpected argument %s"}},
	{regexp.MustCompile(`^unknown flag (.+), did you mean one of (.+)\?$`), talk.Say{
		Zh: "没有 %s 这个选项；你是想用 %s 之一吗？", En: "unknown flag %s, did you mean one of %s?"}},
	{regexp.MustCompile(`^unknown flag (.+), did you mean (.+)\?$`), talk.Say{
		Zh: "没有 %s 这个选项；你是想用 %s 吗？", En: "unknown flag %s, did you mean %s?"}},
	{regexp.MustCompile(`^unknown flag (.+)$`), talk.Say{
		Zh: "没有 %s 这个选项", En: "unknown flag %s"}},
	{regexp.MustCompile(`^expected one of (.+)$`), talk.Say{
		Zh: "后面要写以下之一：%s", En: "expected one of %s"}},
	{regexp.MustCompile(`^missing flags: (.+)$`), talk.Say{
		Zh: "缺少选项：%s", En: "missing flags: %s"}},
	{regexp.MustCompile(`^(?:expected|missing positional arguments) "?(<.+>[^"]*)"?$`), talk.Say{
		Zh: "缺少参数：%s", En: "missing: %s"}},
	{regexp.MustCompile(`^(.+?): expected .* value but got .*$`), talk.Say{
		Zh: "%s 后面缺少它的值", En: "%s lacks its value"}},
	{regexp.MustCompile(`^(--[^:]+): (.+)$`), talk.Say{
		Zh: "%s 的值不对：%s", En: "%s: %s"}},
	{regexp.MustCompile(`^(.+) and (.+) can't be used together$`), talk.Say{
		Zh: "%s 和 %s 不能一起用", En: "%s and %s can't be used together"}},
}

var (
	sayNotOneOf = talk.Say{Zh: "%s 不能是 %q，可以是 %v", En: "%s must not be %q but %v"}
	sayChoices  = talk.Say{Zh: "%s（%v）", En: "%s (%v)"}
	sayOr       = talk.Say{Zh: "%s 或 %s", En: "%s or %s"}
	sayComma    = talk.Say{Zh: "、", En: ", "}
	notOneOf    = regexp.MustCompile(`^(.+) must be one of (.+) but got "(.*)"$`)
)

// choices lists the allowed values.
type choices []string

// In returns the list in a language.
func (c choices) In(l talk.Lang) string {
	last := len(c) - 1
	if last < 1 {
		return strings.Join(c, "")
	}
	return sayOr.In(l, strings.Join(c[:last], sayComma.In(l)), c[last])
}

func (c choices) Error() string { return c.In(talk.English) }

// explainUsage returns an error of the parser in both languages.
func explainUsage(err error, at *kong.Node) error {
	text := err.Error()
	if m := notOneOf.FindStringSubmatch(text); m != nil {
		name, _, _ := strings.Cut(m[1], "=")
		return sayNotOneOf.Wrong(strings.Trim(name, `"`), m[3],
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
			args[0] = sayChoices.Wrong(m[1], list)
		}
		return c.say.Wrong(args...)
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
	return usage(talk.Say{Zh: "%v；请看：%s --help", En: "%v; see: %s --help"}, explainUsage(err, at), command)
}
