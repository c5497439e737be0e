package tools

import (
	"cmp"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgWords       = i18n.Message("In your words")
	msgWordsTold   = i18n.Message("Models choose by the name and the description. Yours replace those of the server in all lists. Who may call the tool does not change: rules, keys and records go on with its original name.")
	msgWordsName   = i18n.Message("Your name for it")
	msgWordsNames  = i18n.Message("Letters, digits, _ and -, beginning with a letter. Programs that know the old name can still call it.")
	msgWordsTitle  = i18n.Message("Title, for people")
	msgWordsAbout  = i18n.Message("What it does, for models and people")
	msgWordsEmpty  = i18n.Message("What is empty stays as the server has it.")
	msgServerWords = i18n.Message("What its server says")
	msgOriginal    = i18n.Message("Original name")
	msgWordsBack   = i18n.Message("As the server has it")
)

// wordsForm holds submitted words, or those that a tool has.
type wordsForm struct {
	Name, Title, Description, Wrong string
	Has                             bool // it has some
}

// wordsOf returns the words that a tool has of its owner.
func wordsOf(v *page.Visit, t control.Tool) (f wordsForm, err error) {
	list, err := v.Instance.Control.ToolWords(v.Context(), v.Caller(), control.ToolRuleQuery{})
	for _, w := range list.Tools {
		if w.Owner == v.Caller().Person && w.Tool == cmp.Or(t.Original, t.Name) {
			f = wordsForm{Name: w.Name, Title: w.Title, Description: w.Description, Has: true}
		}
	}
	return f, err
}

// reword saves what a tool is called, or gives it back what its server says.
func reword(v *page.Visit) {
	t, err := v.Instance.Control.FindTool(v.Context(), v.Caller(), v.PathValue("name"))
	if err != nil {
		v.Fail(err)
		return
	}
	original := cmp.Or(t.Original, t.Name)
	if v.FormValue("back") != "" {
		if _, err := v.Instance.Control.ClearToolWords(v.Context(), v.Caller(),
			control.ToolWordsRef{Tool: t.Name}); err != nil {
			v.Fail(err)
			return
		}
		v.Redirect(toolURL(original))
		return
	}
	f := wordsForm{Name: v.FormValue("name"), Title: v.FormValue("title"), Description: v.FormValue("description")}
	row, err := v.Instance.Control.SetToolWords(v.Context(), v.Caller(), control.ToolWordsChange{Tool: t.Name,
		Name: &f.Name, Title: &f.Title, Description: &f.Description})
	if err != nil {
		var status int
		if f.Wrong, status = v.Wrong(err); f.Wrong != "" {
			showTool(v, status, t, trial{Form: formOf(v, t), Words: &f})
		}
		return
	}
	v.Redirect(toolURL(cmp.Or(row.Name, original)))
}
