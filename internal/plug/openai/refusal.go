package openai

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxGivenUp is how many functions are given up one by one in a turn before all
// of the toolbox's are: each costs the person a request.
const maxGivenUp = 4

// ask asks once. What the server refuses to take is given up, and it is asked
// again without; a refusal comes before the first word, so nothing is said twice.
func (a *answer) ask(ctx context.Context) (outcome, error) {
	out, err := a.round(ctx)
	for err != nil {
		e, ok := errors.AsType[*serverError](err)
		if !ok || !a.giveUp(ctx, e) {
			return out, err
		}
		out, err = a.round(ctx)
	}
	b := a.bot
	if len(a.unfit) > 0 {
		b.left.refuse(a.unfit)
		a.unfit = nil
	}
	if a.refused != nil && !b.toolless.Swap(true) {
		b.log.WarnContext(ctx, "the server refuses functions, so the model can neither command the device nor use tools; "+
			"set tools to false if that is meant to be", "model", b.settings.Model, "error", b.redact(a.refused.Error()))
	}
	a.refused = nil
	return out, nil
}

// giveUp takes back what the server refuses. It is false if there is nothing to
// take back; every time it is true there is less.
func (a *answer) giveUp(ctx context.Context, e *serverError) bool {
	_, _, toolbox := kinds(a.functions)
	switch {
	case a.thread.pictures() && e.about("image"):
		a.thread.dropPictures(0)
		a.bot.log.WarnContext(ctx, "the model does not take the pictures of tools; set images to false if it cannot see",
			"turn", a.turn.ID, "model", a.bot.settings.Model, "error", a.bot.redact(e.Error()))
	case a.closed:
		// Gateways to Anthropic's models want the functions as long as there are
		// calls in the conversation.
		if a.insist || len(a.functions) == 0 || !e.aboutTools() {
			return false
		}
		a.insist = true
	case len(a.functions) == 0 || len(a.thread.messages) > 0:
		return false
	case toolbox && a.giveUpOne(ctx, e):
	case e.aboutTools():
		a.functions, a.refused = nil, e
	case toolbox && !e.about("context") && (e.about("schema") || e.about("function") || e.about("grammar") || e.about("tools")):
		a.giveUpFunctions(ctx, e, func(f function) bool { return f.event == nil })
	default:
		return false
	}
	return true
}

// giveUpOne takes back the function of the toolbox that an error names, or all of
// them if it has named many.
func (a *answer) giveUpOne(ctx context.Context, e *serverError) bool {
	bad := e.named(a.functions)
	if bad < 0 || a.functions[bad].event != nil {
		return false
	}
	name := a.functions[bad].name
	all := len(a.unfit) >= maxGivenUp
	a.giveUpFunctions(ctx, e, func(f function) bool { return f.name == name || all && f.event == nil })
	return true
}

func (a *answer) giveUpFunctions(ctx context.Context, e *serverError, which func(function) bool) {
	var names []string
	var kept []function
	for _, f := range a.functions {
		if !which(f) {
			kept = append(kept, f)
			continue
		}
		a.unfit = append(a.unfit, f)
		names = append(names, f.name)
	}
	a.functions = kept
	a.bot.log.WarnContext(ctx, "the server refuses tools, so the model is asked without them", "model", a.bot.settings.Model,
		"tools", few(names), "error", a.bot.redact(e.Error()))
}

// about says that the server refuses the request for a reason in which there is
// that word.
func (e *serverError) about(word string) bool {
	switch e.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusNotImplemented:
		return strings.Contains(strings.ToLower(e.message+" "+e.param), word)
	}
	return false
}

var toolsIndex = regexp.MustCompile(`\btools(?:\[|\.)(\d+)`)

// named is the place of the function that the error is about: by its place among
// the tools ("tools[26].function.parameters") or its name in quotes. It is -1 if
// the error names none.
func (e *serverError) named(functions []function) int {
	if !e.about("") {
		return -1
	}
	text := e.param + " " + e.message
	if m := toolsIndex.FindStringSubmatch(text); m != nil {
		if i, err := strconv.Atoi(m[1]); err == nil && i < len(functions) {
			return i
		}
	}
	return slices.IndexFunc(functions, func(f function) bool {
		return strings.Contains(text, "'"+f.name+"'") || strings.Contains(text, "`"+f.name+"`")
	})
}
