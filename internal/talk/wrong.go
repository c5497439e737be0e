package talk

import (
	"slices"
	"strings"
)

// Wrong is an error about what a person gave, in words for that person. [Say.Wrong]
// makes one.
type Wrong struct {
	Say  Say
	Args []any // of Say; errors and further Says among them are told in its language
}

// Wrong makes an error of a sentence.
func (s Say) Wrong(args ...any) error { return &Wrong{s, args} }

// Error implements error, in English: for logs, and for programs.
func (w *Wrong) Error() string { return w.In(English) }

// In is the error in a language.
func (w *Wrong) In(l Lang) string { return w.Say.In(l, w.Args...) }

// Unwrap gives the errors among the arguments.
func (w *Wrong) Unwrap() []error {
	var list []error
	for _, a := range w.Args {
		if err, ok := a.(error); ok {
			list = append(list, err)
		}
	}
	return list
}

// Told is an error in a language. What has no words in it stays in English: the errors
// of libraries, and what stands around a [Wrong] that was wrapped.
func Told(err error, l Lang) string {
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
		text = strings.Replace(text, e.Error(), Told(e, l), 1)
	}
	return text
}

// inOne puts into one language what is there in several.
func inOne(l Lang, args []any) []any {
	own := false
	for i, a := range args {
		var text string
		switch a := a.(type) {
		case Say:
			text = a.In(l)
		case error:
			text = Told(a, l)
		default:
			continue
		}
		if !own { // the caller's list stays as it is
			args, own = slices.Clone(args), true
		}
		args[i] = text
	}
	return args
}
