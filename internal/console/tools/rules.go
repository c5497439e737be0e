package tools

import (
	"net/http"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
)

// ruleForm holds a submitted rule.
type ruleForm struct {
	Name, Rule, Wrong string
}

func rules(v *page.Visit) { showRules(v, http.StatusOK, ruleForm{Rule: hub.RuleDeny}) }

func showRules(v *page.Visit, status int, f ruleForm) {
	l, err := v.Instance.Control.ListToolRules(v.Context(), v.Caller(), control.ToolRuleQuery{})
	if err != nil {
		v.Fail(err)
		return
	}
	after, _ := strconv.Atoi(v.URL.Query().Get("after"))
	after = min(max(after, 0), len(l.Rules))
	to := min(after+pageSize, len(l.Rules))
	next := 0
	if to < len(l.Rules) {
		next = to
	}
	v.Render(status, rulesPage(v, l.Rules[after:to], next, f))
}

func addRule(v *page.Visit) {
	f := ruleForm{Name: strings.TrimSpace(v.FormValue("tool")), Rule: v.FormValue("rule")}
	_, err := v.Instance.Control.DecideTool(v.Context(), v.Caller(), control.ToolDecision{Name: f.Name, Rule: f.Rule})
	if err != nil {
		var status int
		if f.Wrong, status = v.Wrong(err); f.Wrong != "" {
			showRules(v, status, f)
		}
		return
	}
	v.Redirect("/tools/rules")
}

func rulesURL(after int) string { return "/tools/rules?after=" + strconv.Itoa(after) }
