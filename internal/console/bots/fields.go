package bots

import (
	"strings"

	"patchbay/internal/board"
	"patchbay/internal/console/page"
	"patchbay/internal/talk"
)

// field is a setting in a form.
type field struct {
	board.Setting
	words
	Value string
	Set   bool   // it is set, which matters of secrets
	Wrong string // what is wrong with it
}

// input is the name of the field, drop that of the box that takes a secret away.
func (f field) input() string { return "set." + f.Name }
func (f field) drop() string  { return "drop." + f.Name }

// form is what is set about a bot, or is to be.
type form struct {
	Name, Description string
	Fields            []field
	Wrong             string // with all of it
	Notice            string // what else a change has brought about
}

// formOf makes a form of settings.
func formOf(list []board.Setting, set map[string]string) form {
	var f form
	for _, s := range list {
		w, ok := settingWords[s.Name]
		if !ok { // a kind that nobody has described yet
			w = words{group: basics, label: talk.Say{Zh: s.Name, En: s.Name}}
		}
		value, is := set[s.Name]
		f.Fields = append(f.Fields, field{Setting: s, words: w, Value: value, Set: is})
	}
	return f
}

// in are the fields of a group, those that a bot cannot be without first.
func (f form) in(g group) []field {
	var first, rest []field
	for _, x := range f.Fields {
		switch {
		case x.group != g:
		case x.Required:
			first = append(first, x)
		default:
			rest = append(rest, x)
		}
	}
	return append(first, rest...)
}

// touched says whether something of a group is set, or wrong, so that it is shown.
func (f form) touched(g group) bool {
	for _, x := range f.in(g) {
		if x.Wrong != "" {
			return true
		}
	}
	return false
}

// typed reads what was typed into the form, and returns the settings that it changes.
// Secrets that were typed are in the changes alone.
func (f *form) typed(v *page.Visit) map[string]string {
	f.Name, f.Description = strings.TrimSpace(v.FormValue("name")), strings.TrimSpace(v.FormValue("description"))
	changes := map[string]string{}
	for i := range f.Fields {
		x := &f.Fields[i]
		text := strings.TrimSpace(strings.ReplaceAll(v.FormValue(x.input()), "\r\n", "\n"))
		switch {
		case x.Secret:
			if v.FormValue(x.drop()) != "" {
				changes[x.Name] = ""
			} else if text != "" && !x.made {
				changes[x.Name] = text
			}
		case text != x.Value && !(x.Form == board.FormYesNo && text == "" && x.Value == "false"):
			changes[x.Name], x.Value = text, text
		}
	}
	return changes
}

// blame shows what is wrong beside the field that it is about, whose name the error
// begins with.
func (f *form) blame(v *page.Visit, text string) {
	f.Wrong = text
	for i := range f.Fields {
		x := &f.Fields[i]
		rest, ok := strings.CutPrefix(text, x.Name)
		if ok && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, "：")) {
			x.Wrong = text
			f.Wrong = v.Say(sayWrongField, v.Say(x.label), text)
		}
	}
}
