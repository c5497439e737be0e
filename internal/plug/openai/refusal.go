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

// maxDropped is the number of functions that are dropped one by one in a turn before all functions
// of the toolbox are dropped. Each retry delays the answer by a request.
const maxDropped = 4

// ask runs a round. If the server refuses a part of the request, it retries without that part. A
// refusal comes before any output, so nothing is repeated.
func (a *answer) ask(ctx context.Context) (outcome, error) {
	out, err := a.runRound(ctx)
	for err != nil {
		e, ok := errors.AsType[*serverError](err)
		if !ok || !a.dropRefused(ctx, e) {
			return out, err
		}
		out, err = a.runRound(ctx)
	}
	b := a.bot
	if len(a.suspects) > 0 {
		b.omitted.refuse(a.suspects)
		a.suspects = nil
	}
	if a.refusal != nil && !b.withoutTools.Swap(true) {
		b.log.WarnContext(ctx,
			"the server refuses functions, so the model can neither command the device nor use tools; "+
				"set tools to false if that is meant to be", "model", b.settings.Model, "error",
			b.redact(a.refusal.Error()))
	}
	a.refusal = nil
	return out, nil
}

// dropRefused removes the part of the request that the server refuses. It returns false if there is
// nothing to remove. Each call that returns true leaves less to remove.
func (a *answer) dropRefused(ctx context.Context, e *serverError) bool {
	_, _, toolbox := functionKinds(a.functions)
	switch {
	case a.asksTokens && e.mentions(streamOptions):
		if !a.bot.withoutUsage.Swap(true) {
			a.bot.log.InfoContext(ctx, "the server does not report tokens", "model", a.bot.settings.Model, "error",
				a.bot.redact(e.Error()))
		}
	case a.thread.hasPictures() && e.mentions("image"):
		a.thread.dropPictures(0)
		a.bot.log.WarnContext(ctx,
			"the model does not take the pictures of tools; set images to false if it cannot see",
			"turn", a.turn.ID, "model", a.bot.settings.Model, "error", a.bot.redact(e.Error()))
	case a.closed:
		// Gateways to Anthropic's models require functions as long as the conversation has calls
		// (LiteLLM's UnsupportedParamsError; earendil-works/pi, issue 149).
		if a.sendDisabled || len(a.functions) == 0 || !e.isAboutTools() {
			return false
		}
		a.sendDisabled = true
	case len(a.functions) == 0 || len(a.thread.messages) > 0:
		return false
	case toolbox && a.dropNamed(ctx, e):
	case e.isAboutTools():
		a.functions, a.refusal = nil, e
	case toolbox && !e.mentions("context") && (e.mentions("schema") || e.mentions("function") ||
		e.mentions("grammar") || e.mentions("tools")):
		a.dropFunctions(ctx, e, func(f function) bool { return f.event == nil })
	default:
		return false
	}
	return true
}

// dropNamed removes the function of the toolbox that an error names, or all of them after
// [maxDropped] such errors.
func (a *answer) dropNamed(ctx context.Context, e *serverError) bool {
	bad := e.functionIndex(a.functions)
	if bad < 0 || a.functions[bad].event != nil {
		return false
	}
	name := a.functions[bad].name
	all := len(a.suspects) >= maxDropped
	a.dropFunctions(ctx, e, func(f function) bool { return f.name == name || all && f.event == nil })
	return true
}

func (a *answer) dropFunctions(ctx context.Context, e *serverError, which func(function) bool) {
	var names []string
	var kept []function
	for _, f := range a.functions {
		if !which(f) {
			kept = append(kept, f)
			continue
		}
		a.suspects = append(a.suspects, f)
		names = append(names, f.name)
	}
	a.functions = kept
	a.bot.log.WarnContext(ctx, "the server refuses tools, so the model is asked without them",
		"model", a.bot.settings.Model,
		"tools", joinFirst(names), "error", a.bot.redact(e.Error()))
}

// mentions reports whether the server refuses the request with a text that contains the word.
func (e *serverError) mentions(word string) bool {
	switch e.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusInternalServerError,
		http.StatusNotImplemented:
		return strings.Contains(strings.ToLower(e.message+" "+e.param), word)
	}
	return false
}

// toolsIndex matches the position of a function in an error of OpenAI
// ("tools[26].function.parameters", makenotion/notion-mcp-server, issue 102) or Anthropic
// ("tools.73.custom.input_schema", nspady/google-calendar-mcp, issue 39).
var toolsIndex = regexp.MustCompile(`\btools(?:\[|\.)(\d+)`)

// functionIndex returns the index of the function that the error names by its position
// ("tools[26].function.parameters") or by its quoted name, or -1 if it names none.
func (e *serverError) functionIndex(functions []function) int {
	if !e.mentions("") {
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
