package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// learnFlags say whose knowledge points to use, and where they are.
type learnFlags struct {
	User      string `help:"Owner of the knowledge points; optional if there is only one account." placeholder:"NAME"`
	Server    string `help:"URL of the server; or PATCHBAY_SERVER." placeholder:"URL"`
	Key       string `help:"Key with scope learn for that server; preferably set as PATCHBAY_KEY." placeholder:"KEY"`
	dataFlags `embed:""`
}

// retryFlags returns the flags to append to a suggested command, so that it uses the same knowledge
// points.
func (f learnFlags) retryFlags() string {
	suffix := f.dataFlags.retryFlags()
	if f.User != "" {
		suffix += " --user " + quoteWord(f.User)
	}
	if f.Server != "" {
		suffix += " --server " + quoteWord(f.Server)
	}
	return suffix
}

// envLearnKey is the environment variable in which programs made for the service that Learn is
// compatible with have their key.
const envLearnKey = "LEARN_ASSISTANT_API_KEY"

// key returns the given key, if any.
func (f learnFlags) key(sh *shell) string {
	return cmp.Or(f.Key, sh.getenv(config.EnvKey), sh.getenv(envLearnKey))
}

// learnEndpoint is the path of Learn's tools for MCP clients, which are often configured with it.
const learnEndpoint = "/api/mcp"

// target returns which server to use.
func (f learnFlags) target(sh *shell) (targetFlags, error) {
	to := targetFlags{f.dataFlags, serverFlags{cmp.Or(f.Server, sh.getenv(config.EnvServer)), f.Key}}
	if to.Server == "" {
		return to, nil
	}
	to.Server = strings.TrimSuffix(strings.TrimRight(to.Server, "/"), learnEndpoint)
	switch to.Key = f.key(sh); {
	case to.Key == "":
		return to, usage(i18n.Message("a key for the server is missing; give --key or PATCHBAY_KEY (patchbay key add --name laptop --scope learn creates one there)"))
	case f.User != "":
		return to, usage(i18n.Message("--user cannot be used with --server: the key determines the owner of the knowledge points"))
	}
	return to, nil
}

// learnCaller calls Learn's tools.
type learnCaller struct {
	*conn
	sh   *shell
	user string
}

// open connects and calls use.
func (f learnFlags) open(ctx context.Context, sh *shell, use func(learnCaller) error) error {
	to, err := f.target(sh)
	if err != nil {
		return err
	}
	err = to.connect(ctx, sh, func(at *conn) error { return use(learnCaller{at, sh, f.User}) })
	if errors.Is(err, api.ErrUnauthorized) {
		return errLearnKey
	}
	return err
}

// errLearnKey explains an invalid key.
var errLearnKey = i18n.Message("the server rejects the key; it needs scope learn (patchbay key add --name laptop --scope learn creates one there), and must not be revoked").Errorf()

// learnError is an error that a tool returns.
type learnError struct {
	text string
	// reason is for programs, such as "already_reviewed"; empty if there is only the text.
	reason string
	// structured is the error for programs, perhaps with more details.
	structured json.RawMessage
}

func (e *learnError) Error() string { return e.text }

// learnLimit is the timeout of a call. A new schedule for a deck reschedules all its points.
const learnLimit = 10 * time.Minute

// call calls a tool and decodes its result into a variable, unless that is nil. An error of type
// *learnError is the tool's own.
func (l learnCaller) call(ctx context.Context, name string, args, into any) error {
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	var end api.ToolLine
	ctx, cancel := context.WithTimeout(ctx, learnLimit)
	defer cancel()
	_, isTerminal := terminal(l.sh.stderr)
	told := false
	err = l.CallTool(ctx, api.ToolCall{Name: name, Arguments: text, User: l.user}, func(line api.ToolLine) error {
		if line.Progress != nil && isTerminal {
			l.sh.progress(*line.Progress)
			told = true
		}
		end = line
		return nil
	})
	if told {
		l.sh.clearProgress()
	}
	switch {
	case err != nil:
		return err
	case end.Code == tool.BadArgs:
		return &learnError{text: end.Error}
	case end.Error != "":
		return toolError(end)
	case end.Result == nil:
		return i18n.Message("the server returned no result; is it a different version?").Errorf()
	}
	return learnResult(end.Result, into)
}

// learnResult decodes the result of a tool.
func learnResult(res *tool.Result, into any) error {
	if res.IsError {
		trouble := &learnError{text: res.PlainText(), structured: res.Structured}
		var why struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(res.Structured, &why) == nil {
			trouble.reason = why.Error
		}
		return trouble
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(res.Structured, into); err != nil {
		return i18n.Message("the result cannot be read; is the server a different version? %v").Errorf(err)
	}
	return nil
}
