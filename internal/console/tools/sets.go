package tools

import (
	"net/http"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgApprovals   = i18n.Message("Approvals")
	msgSets        = i18n.Message("Sets")
	msgSetsTold    = i18n.Message("A program that is given the address /mcp?set=NAME, or a key with that set, sees the tools of the set alone.")
	msgNoSets      = i18n.Message("No sets yet")
	msgNoSetsTip   = i18n.Message("With many tools, a program chooses better among the few that it needs.")
	msgSetMatches  = i18n.Message("tools in it now: %d")
	msgSaveSet     = i18n.Message("Make or replace a set")
	msgSetName     = i18n.Message("Name")
	msgSetNameTip  = i18n.Message("Lower-case letters, digits, _ and -.")
	msgSetTools    = i18n.Message("Tools")
	msgSetToolsTip = i18n.Message("One name a line; * stands for any text, as in home_*.")
	msgRemoveSet   = i18n.Message("Remove the set %s")
)

// setForm holds a submitted set.
type setForm struct{ Name, Tools, Wrong string }

func sets(v *page.Visit) { showSets(v, http.StatusOK, setForm{}) }

func showSets(v *page.Visit, status int, f setForm) {
	l, err := v.Instance.Control.ToolSets(v.Context(), v.Caller(), control.ToolRuleQuery{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, setsPage(v, l.Sets, f))
}

func saveSet(v *page.Visit) {
	f := setForm{Name: strings.TrimSpace(v.FormValue("name")), Tools: v.FormValue("tools")}
	_, err := v.Instance.Control.SaveToolSet(v.Context(), v.Caller(),
		control.ToolSetChange{Set: f.Name, Tools: page.SplitNames(f.Tools)})
	if err != nil {
		var status int
		if f.Wrong, status = v.Wrong(err); f.Wrong != "" {
			showSets(v, status, f)
		}
		return
	}
	v.Redirect("/tools/sets")
}

func removeSet(v *page.Visit) {
	if _, err := v.Instance.Control.RemoveToolSet(v.Context(), v.Caller(),
		control.ToolSetRef{Set: v.PathValue("set")}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/tools/sets")
}
