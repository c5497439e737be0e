package bots

import (
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// field is a setting in a form.
type field struct {
	hub.Setting
	words
	Value string
	Set   bool   // a secret has a value
	Wrong string // validation error
}

// inputName returns the name of the input; dropName that of the checkbox that deletes a secret.
func (f field) inputName() string { return "set." + f.Name }
func (f field) dropName() string  { return "drop." + f.Name }

// form holds the current or submitted settings of a bot.
type form struct {
	Name, Description string
	Fields            []field
	Wrong             string // error about the form as a whole
	Notice            string // note about further effects of a change
	TakesRole         bool   // a new bot of the kind can start from a role
	Role              string // id of the role that the values are from
}

// newForm makes a form from settings and their values.
func newForm(list []hub.Setting, set map[string]string) form {
	var f form
	for _, s := range list {
		w, ok := settingWords[s.Name]
		switch {
		case s.Text.Label != "":
			w = words{group: basics, label: s.Text.Label, hint: s.Text.Hint, example: s.Text.Example}
		case !ok: // a kind without texts
			w = words{group: basics, label: i18n.Message(s.Name)}
		}
		value, is := set[s.Name]
		f.Fields = append(f.Fields, field{Setting: s, words: w, Value: value, Set: is})
	}
	return f
}

// fill sets values.
func (f *form) fill(set map[string]string) {
	for i := range f.Fields {
		if value, ok := set[f.Fields[i].Name]; ok {
			f.Fields[i].Value = value
		}
	}
}

// fieldsOf returns the fields of a group, the required ones first.
func (f form) fieldsOf(g group) []field {
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

// isChanged reports whether a field of a group has a value or an error, so that the group is shown
// open.
func (f form) isChanged(g group) bool {
	for _, x := range f.fieldsOf(g) {
		if x.Wrong != "" {
			return true
		}
	}
	return false
}

// readValues reads the submitted form and returns the changed settings. Submitted secrets are only
// in the result, not in the form.
func (f *form) readValues(v *page.Visit) map[string]string {
	f.Name, f.Description = strings.TrimSpace(v.FormValue("name")), strings.TrimSpace(v.FormValue("description"))
	changes := map[string]string{}
	for i := range f.Fields {
		x := &f.Fields[i]
		text := strings.TrimSpace(strings.ReplaceAll(v.FormValue(x.inputName()), "\r\n", "\n"))
		switch {
		case x.Secret:
			if v.FormValue(x.dropName()) != "" {
				changes[x.Name] = ""
			} else if text != "" && !x.made {
				changes[x.Name] = text
			}
		case text != x.Value && !(x.Form == settings.FormBool && text == "" && x.Value == "false"):
			changes[x.Name], x.Value = text, text
		}
	}
	return changes
}

// setError shows an error beside the field whose name the error begins with.
func (f *form) setError(v *page.Visit, text string) {
	f.Wrong = text
	for i := range f.Fields {
		x := &f.Fields[i]
		if beside, above, ok := v.FieldError(text, x.Name, x.label); ok {
			x.Wrong, f.Wrong = beside, above
		}
	}
}
