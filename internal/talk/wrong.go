package talk

import (
	"slices"
	"strings"
)

// Wrong is an error about invalid input of a person, in all supported languages. [Say.Wrong]
// makes one.
type Wrong struct {
	Say  Say
	Args []any // of Say; errors and further Says among them are localized too
}

// Wrong returns an error with the text.
func (s Say) Wrong(args ...any) error { return &Wrong{s, args} }

// Error implements error, in English, for logs and programs.
func (w *Wrong) Error() string { return w.In(English) }

// In returns the text of the error in a language.
func (w *Wrong) In(l Lang) string { return w.Say.In(l, w.Args...) }

// Unwrap returns the errors among the arguments.
func (w *Wrong) Unwrap() []error {
	var list []error
	for _, a := range w.Args {
		if err, ok := a.(error); ok {
			list = append(list, err)
		}
	}
	return list
}

// Localize returns the text of an error in a language. Parts without a translation stay in
// English: the errors of libraries, and the text around a wrapped [Wrong].
func Localize(err error, l Lang) string {
	text := err.Error()
	if l == English {
		return text
	}
	if both, ok := err.(interface{ In(Lang) string }); ok {
		return both.In(l)
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
		case Say:
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
