package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

type toolCallCmd struct {
	Tool        string   `arg:"" help:"Name of the tool."`
	Set         []string `arg:"" optional:"" name:"k=v" help:"Arguments as name=value: strings without quotes, other types as JSON. name=@FILE reads the value from a file."`
	Args        string   `help:"The arguments as a JSON object, or @FILE to read it from a file (@- from standard input)." placeholder:"JSON"`
	Out         string   `help:"File to which a returned picture, sound or file is written." placeholder:"FILE"`
	User        string   `help:"Account that calls the tool; optional if there is only one account." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolCallCmd) Help() string {
	return `Progress is written to standard error, the result to standard output. The exit code is 1 if the tool reports an error. Ctrl-C cancels the call. To show the arguments of a tool, run: patchbay tool show NAME.

Examples:

    patchbay tool call list_bots
    patchbay tool call send_message botId=parrot message=hello
    patchbay tool call files_search --args '{"pattern":"*.md","limit":5}'
    patchbay tool call camera_shoot --out photo.jpg
    patchbay tool call weather_now city=Paris --json`
}

// Run calls the tool.
func (c *toolCallCmd) Run(ctx context.Context, sh *shell) error {
	given, err := sh.readArguments(c.Set, c.Args)
	if err != nil {
		return err
	}
	return c.connectTools(ctx, sh, func(at *conn) error {
		var schema json.RawMessage
		if len(given.set) > 0 {
			t, err := at.findTool(ctx, c.User, c.Tool)
			if err != nil {
				return err
			}
			if t != nil { // otherwise the response says so
				schema = t.Input
			}
		}
		args, err := toolArguments(schema, given.object, given.set)
		if err != nil {
			return err
		}
		var end api.ToolLine
		err = at.CallTool(ctx, api.ToolCall{Name: c.Tool, Arguments: args, User: c.User}, sh.callLine(&end))
		sh.clearProgress()
		if err != nil {
			return err
		}
		return sh.showCall(end, c.Tool, c.Out)
	})
}

// givenArguments are the arguments of a call on the command line.
type givenArguments struct {
	set    map[string]string
	object string // JSON; empty means none
}

func (sh *shell) readArguments(pairs []string, object string) (g givenArguments, err error) {
	if g.set, err = sh.pairs(pairs); err != nil {
		return g, err
	}
	if g.object, err = sh.value(object); err != nil {
		return g, fmt.Errorf("--args: %w", err)
	}
	if object != "" && g.object == "" {
		return g, usage(i18n.Message("--args is empty; give a JSON object"))
	}
	return g, nil
}

// callLine returns a function for the lines of a call: it prints the progress and stores the last
// line.
func (sh *shell) callLine(end *api.ToolLine) func(api.ToolLine) error {
	return func(l api.ToolLine) error {
		if l.Progress != nil {
			sh.progress(*l.Progress)
		}
		*end = l
		return nil
	}
}

// progress prints the progress of a call: in a terminal on one line that is overwritten.
func (sh *shell) progress(p tool.Progress) {
	text := strconv.FormatFloat(p.Done, 'g', 6, 64)
	if p.Total > 0 {
		text += "/" + strconv.FormatFloat(p.Total, 'g', 6, 64)
	}
	if p.Message != "" {
		text += " " + short(p.Message, maxProgress)
	}
	if _, ok := terminal(sh.stderr); ok {
		fmt.Fprint(sh.stderr, wipeLine+text)
		return
	}
	fmt.Fprintln(sh.stderr, text)
}

// wipeLine clears the current line of a terminal.
const wipeLine = "\r\x1b[K"

// clearProgress clears the progress line.
func (sh *shell) clearProgress() {
	if _, ok := terminal(sh.stderr); ok {
		fmt.Fprint(sh.stderr, wipeLine)
	}
}

// maxProgress is how many columns of a progress message are shown.
const maxProgress = 60

// showCall prints the result of a call, and saves what cannot be printed to the file out, if given.
func (sh *shell) showCall(end api.ToolLine, tool, out string) error {
	if sh.json {
		if err := sh.writeJSON(end, "  "); err != nil {
			return err
		}
	}
	blocks, err := callContent(end)
	if err != nil {
		return err
	}
	if !sh.json {
		sh.showContent(blocks, end.Result.Structured, out == "")
	}
	if out != "" {
		if err := sh.save(blocks, out); err != nil {
			return err
		}
	}
	if end.Result.IsError {
		return i18n.Message("%s reported a failure").Errorf(tool)
	}
	return nil
}

// callContent returns the content of a call's result.
func callContent(end api.ToolLine) ([]content, error) {
	if end.Error != "" {
		return nil, toolError(end)
	}
	if end.Result == nil {
		return nil, i18n.Message("the server returned no result; is it a different version?").Errorf()
	}
	return readContent(end.Result.Content)
}

func toolError(end api.ToolLine) error {
	text := end.Error
	if end.Cause != "" && !strings.Contains(text, end.Cause) {
		text += " " + end.Cause
	}
	return fmt.Errorf("%s (%s)", plain(text), end.Code)
}
