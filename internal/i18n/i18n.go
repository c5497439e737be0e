// Package i18n translates the texts that people read. The English text is the key in the code;
// translations/ has one gettext PO file per other language. A test at the root of the tests finds
// texts without a translation and translations without a text.
package i18n

import (
	"fmt"
	"slices"
	"strings"
)

// Lang is a language of user-facing texts, as an ISO 639 code: the name of its PO file.
type Lang string

// Languages that code refers to. [Languages] returns all.
const (
	English Lang = "en"
	Chinese Lang = "zh"
)

// ParseLang returns the language for a tag such as "zh-CN", "en_US" or "de": English if there is
// no translation into it. It returns otherwise for an empty tag.
func ParseLang(tag string, otherwise Lang) Lang {
	tag = strings.ToLower(strings.TrimSpace(tag))
	if tag == "" {
		return otherwise
	}
	if end := strings.IndexAny(tag, "-_"); end >= 0 {
		tag = tag[:end]
	}
	if lang := Lang(tag); IsLanguage(lang) {
		return lang
	}
	return English
}

// Message is a text for people: its English text, with fmt verbs. Two messages that are alike in
// English and differ in other languages have a context before the text, which ends with
// [ContextEnd].
type Message string

// ContextEnd ends the context of a [Message], as in the files of gettext.
const ContextEnd = "\x04"

// In returns the text in one language, formatted with args. Messages and errors among args are
// translated too. A message without a translation stays in English.
func (m Message) In(l Lang, args ...any) string {
	text, ok := Lookup(l, m)
	if !ok {
		text = m.english()
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, localizeArgs(l, args)...)
}

// With returns the message with its arguments.
func (m Message) With(args ...any) Text { return Text{m, args} }

// Errorf returns an error with the message, for people.
func (m Message) Errorf(args ...any) error { return &Error{Text{m, args}} }

// Text is a message with its arguments, to be translated later.
type Text struct {
	Message Message
	Args    []any // messages, texts and errors among them are translated too
}

// IsZero reports whether there is no text.
func (t Text) IsZero() bool { return t.Message == "" }

// In returns the text in one language.
func (t Text) In(l Lang) string { return t.Message.In(l, t.Args...) }

// String returns the text in English.
func (t Text) String() string { return t.In(English) }

// Error is an error with a text for people. [Message.Errorf] makes one.
type Error struct{ Text }

// Error implements error, in English, for logs and programs.
func (e *Error) Error() string { return e.In(English) }

// Unwrap returns the errors among the arguments.
func (e *Error) Unwrap() []error {
	var list []error
	for _, a := range e.Args {
		if err, ok := a.(error); ok {
			list = append(list, err)
		}
	}
	return list
}

// Localize returns the text of an error in a language. Parts without a translation stay in
// English: the errors of libraries, and the text around a wrapped [Error].
func Localize(err error, l Lang) string {
	text := err.Error()
	if l == English {
		return text
	}
	if translated, ok := err.(interface{ In(Lang) string }); ok {
		return translated.In(l)
	}
	var inside []error
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		inside = []error{err.Unwrap()}
	case interface{ Unwrap() []error }:
		inside = err.Unwrap()
	}
	for _, e := range inside {
		if e == nil || e.Error() == "" {
			continue
		}
		text = strings.Replace(text, e.Error(), Localize(e, l), 1)
	}
	return text
}

// localizeArgs replaces texts and errors among args by their text in one language.
func localizeArgs(l Lang, args []any) []any {
	own := false
	for i, a := range args {
		var text string
		switch a := a.(type) {
		case Message:
			text = a.In(l)
		case Text:
			text = a.In(l)
		case error:
			text = Localize(a, l)
		default:
			continue
		}
		if !own { // do not change the caller's slice
			args, own = slices.Clone(args), true
		}
		args[i] = text
	}
	return args
}
